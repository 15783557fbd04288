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
    #define MD5_FEATURE_X86_64 ...
    #define MD5_FEATURE_INTERLEAVED ...
    #define MD5_FEATURE_NEON ...
    #define MD5_FEATURE_AVX2 ...
    #define MD5_FEATURE_AVX512 ...
    #define MD5_FEATURES_ALL ...
    typedef struct { ...; } md5_context;
    int md5_init(md5_context *context);
    void md5_update(md5_context *context, const uint8_t *data, size_t size_bytes);
    int md5_begin(md5_context *context, const uint8_t *data, size_t size_bytes);
    void md5_final(const md5_context *context, void *digest);
    int md5_digest(const uint8_t *data, size_t size_bytes, void *digest);
    size_t md5_export(const md5_context *context, uint8_t *state);
    int md5_import(md5_context *context, const uint8_t *state, size_t size_bytes);
    const char *md5_state_problem(const uint8_t *state, size_t size_bytes);
    void md5_set_feature_mask(uint32_t mask);
    uint32_t md5_features(void);
    uint32_t md5_features_in_use(void);

    typedef struct { md5_context *stream; const uint8_t *data; size_t size_bytes; size_t *unfinished; } md5_message;
    int md5_batch(const md5_message *messages, size_t count, uint8_t *digests);
    int md5_batch_joined(const uint8_t *data, const uint64_t *sizes_bytes, size_t count, uint8_t *digests);
    typedef struct md5_scheduler md5_scheduler;
    size_t md5_scheduler_bytes(void);
    int md5_scheduler_init(md5_scheduler *scheduler);
    void md5_scheduler_wait(md5_scheduler *scheduler, const size_t *const *unfinished, size_t count);
    void md5_scheduler_flush(md5_scheduler *scheduler);

    #define CRC64_FEATURE_CLMUL ...
    #define CRC64_FEATURE_VCLMUL ...
    #define CRC64_FEATURES_ALL ...
    int crc64_select(void);
    uint64_t crc64_update(uint64_t crc, const uint8_t *data, size_t size_bytes);
    void crc64_blocks(const uint8_t *data, size_t size_bytes, size_t block_bytes, uint64_t *values);
    uint64_t crc64_combine(uint64_t first, uint64_t second, uint64_t second_bytes);
    uint64_t crc64_combine_blocks(const uint64_t *values, size_t count, uint64_t block_bytes, uint64_t last_bytes);
    void crc64_set_feature_mask(uint32_t mask);
    uint32_t crc64_features(void);
    uint32_t crc64_features_in_use(void);

    #define FILE_BATCH_READ ...
    typedef struct {
        uint64_t status; uint64_t size_bytes; int64_t mtime_ns; int64_t ctime_ns; uint64_t inode; uint64_t offset;
        uint8_t md5[16]; uint8_t xxh3_128[16]; uint8_t crc64nvme[8];
    } file_batch_record;
    typedef struct { const char *text; size_t text_bytes; size_t count; } file_batch_paths;
    typedef enum {
        STABLE_BATCH_MEMORY, STABLE_BATCH_DIRECT, STABLE_BATCH_UNENCODED, STABLE_BATCH_DROPPED, STABLE_BATCH_PASSING,
        STABLE_BATCH_KEPT, ...
    } stable_batch_way;
    typedef struct {
        int root_fd; stable_batch_way way; uint64_t limit_bytes; int64_t recent_since_ns; int64_t most_ns;
    } stable_batch_terms;
    size_t stable_batch_read(const stable_batch_terms *terms, const file_batch_paths *paths, uint8_t *arena,
                             size_t arena_bytes, file_batch_record *records);
    void position_batch_find(int root_fd, const file_batch_paths *paths, uint64_t *positions);
    size_t load_batch_read(const file_batch_paths *paths, uint64_t limit_bytes, uint8_t *arena, size_t arena_bytes,
                           file_batch_record *records);
    #define FILE_BATCH_MD5 ...
    #define FILE_BATCH_XXH3_128 ...
    #define FILE_BATCH_CRC64NVME ...
    void file_batch_digest(md5_scheduler *scheduler, unsigned wanted, const uint8_t *arena,
                           file_batch_record *records, size_t count, size_t *unfinished);

    #define LARGE_BATCH_IDLE ...
    #define LARGE_BATCH_ACTIVE ...
    #define LARGE_BATCH_HALTED ...
    #define LARGE_BATCH_FAILED ...
    typedef struct {
        int fd;
        unsigned wanted;
        unsigned wanted_of_blocks;
        unsigned halts;
        uint64_t position;
        uint64_t end_bytes;
        uint64_t block_bytes;
        size_t blocks_room;
        uint8_t *block_md5s, *block_xxh3s, *block_crc64s;
        unsigned status;
        int error;
        size_t blocks_done;
        uint8_t md5[16];
        uint8_t xxh3_128[16];
        md5_context whole_md5;
        ...;
    } large_batch_file;
    int large_batch_begin(large_batch_file *file);
    size_t large_batch_run(md5_scheduler *scheduler, large_batch_file *files, size_t count, uint8_t *pieces,
                           size_t piece_bytes, size_t stride_bytes, int64_t most_ns);

    #define FOLDER_BATCH_LISTED ...
    #define FOLDER_BATCH_NOT_MINE ...
    #define FOLDER_BATCH_TOO_LARGE ...
    #define FOLDER_BATCH_ENDED ...
    #define FOLDER_BATCH_FOLDER ...
    #define FOLDER_BATCH_SYMLINK ...
    #define FOLDER_BATCH_COLUMNS ...
    typedef struct {
        uint64_t status; uint64_t file_count; uint64_t other_count; uint64_t file_text_bytes; uint8_t fingerprint[16];
    } folder_batch_folder;
    typedef struct { uint64_t device; uint64_t inode; } folder_batch_marked;
    typedef struct {
        size_t names_room;
        folder_batch_folder *folders;
        uint64_t *columns;
        uint8_t *kinds;
        char *file_names;
        char *other_names;
        size_t text_room;
        uint8_t *scratch;
        size_t file_count, other_count, file_text_bytes, other_text_bytes;
    } folder_batch_result;
    size_t folder_batch_scratch_bytes(size_t names_room);
    size_t folder_batch_list(int root_fd, int stays_on_mount, const char *paths, size_t paths_bytes, size_t count,
                             const folder_batch_marked *marked, size_t marked_count, size_t enough,
                             folder_batch_result *result);
    void folder_batch_continue(int fd, size_t most_names, const folder_batch_marked *marked, size_t marked_count,
                               folder_batch_result *result);

    typedef struct { uint64_t sound; uint64_t lost; int is_torn; } wal_frames;
    int wal_check(const uint8_t *log, size_t bytes, wal_frames *frames);
    """
)
_HEADERS = (
    *("md5.h", "md5_batch.h", "crc64.h", "file_batch.h", "stable_batch.h", "load_batch.h", "folder_batch.h"),
    "large_batch.h",
    "position_batch.h",
    "wal.h",
)
ffibuilder.set_source("integrity._native", "\n".join(f'#include "{header}"' for header in _HEADERS))
