"""
Declare to cffi what Python sees of md5.h; CMake runs this through ``cffi.gen_src``.

In cffi's API mode the C compiler checks these declarations against md5.h, and every call releases the interpreter lock.
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
    """
)
ffibuilder.set_source("integrity._native", '#include "md5.h"')
