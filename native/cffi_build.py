"""
Declare to cffi what Python sees of the headers here; CMake runs this through ``cffi.gen_src``.

In cffi's API mode the C compiler checks these declarations against the headers, and every call releases the interpreter
lock.
"""

from cffi import FFI

ffibuilder = FFI()
ffibuilder.cdef(
    """
    #define MD5_STATE_MAX_BYTES ...
    #define MD5_FEATURES_ALL ...
    typedef struct { ...; } md5_context;
    int md5_init(md5_context *context);
    void md5_update(md5_context *context, const uint8_t *data, size_t size_bytes);
    void md5_final(const md5_context *context, uint8_t *digest);
    size_t md5_export(const md5_context *context, uint8_t *state);
    int md5_import(md5_context *context, const uint8_t *state, size_t size_bytes);
    const char *md5_state_problem(const uint8_t *state, size_t size_bytes);
    void md5_set_feature_mask(uint32_t mask);
    uint32_t md5_features(void);
    const char *md5_path_name(void);

    typedef struct { md5_context *stream; const uint8_t *data; size_t size_bytes; } md5_message;
    int md5_batch(const md5_message *messages, size_t count, uint8_t *digests);

    #define FILE_BATCH_READ ...
    typedef struct {
        uint64_t status; uint64_t size_bytes; int64_t mtime_ns; int64_t ctime_ns; uint64_t inode; uint64_t offset;
    } file_batch_record;
    size_t file_batch_read(int root_fd, const char *paths, size_t paths_bytes, size_t count, uint64_t limit_bytes,
                           uint8_t *arena, size_t arena_bytes, file_batch_record *records);
    """
)
ffibuilder.set_source("integrity._native", '#include "md5.h"\n#include "md5_batch.h"\n#include "file_batch.h"')
