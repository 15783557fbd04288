/*
 * Digest many large files concurrently, reading one piece of each in turn.
 *
 * The MD5 of one file is a chain of dependent steps, slower than reading memory. The MD5s of many files and blocks are
 * independent and fill the lanes of the scheduler. Decides how files are cut into pieces. The caller decides which
 * files to read, and what a premature end or an error means. Never prints, aborts, allocates or keeps state. All
 * buffers belong to the caller. Linux only.
 */
#ifndef LARGE_BATCH_H
#define LARGE_BATCH_H

#include "file_batch.h"
#include "xxh3.h"

/* The statuses of a file. */
#define LARGE_BATCH_IDLE 0U   /* unused entry */
#define LARGE_BATCH_ACTIVE 1U /* being read */
#define LARGE_BATCH_HALTED 2U /* paused at a block boundary: ${halts} is set, or ${blocks_room} is used up */
#define LARGE_BATCH_ENDED 3U  /* digested up to ${end_bytes} or the end of the file */
#define LARGE_BATCH_FAILED 4U /* ${error} is the errno of read(2) */

/*
 * One file. The caller sets the fields of the first group, then calls large_batch_begin. Between calls it may set
 * ${halts}, and while the file is not ACTIVE also ${status} and ${blocks_done}.
 */
typedef struct {
    int fd;
    unsigned wanted;           /* digests of the whole file: FILE_BATCH_MD5, FILE_BATCH_XXH3_128 */
    unsigned wanted_of_blocks; /* digests of each block: the same, and FILE_BATCH_CRC64NVME */
    unsigned halts;            /* pause at the next block boundary */
    uint64_t position;         /* of the next byte; initially a multiple of ${block_bytes} */
    uint64_t end_bytes;        /* stop reading here */
    uint64_t block_bytes;      /* at least 1 */
    size_t blocks_room;        /* capacity of each buffer below, in digests; at least 1 */
    uint8_t *block_md5s, *block_xxh3s, *block_crc64s;

    /* Results. Digests of the whole file are valid once the file has ENDED. */
    unsigned status;
    int error;
    size_t blocks_done; /* number of block digests written */
    uint8_t md5[MD5_DIGEST_BYTES];
    uint8_t xxh3_128[XXH3_128_BYTES];
    md5_context whole_md5; /* state at ${position}; may be exported while HALTED */

    /* Private. */
    md5_context block_md5;
    xxh3_state whole_xxh3, block_xxh3;
    uint64_t block_crc64;
    size_t piece_bytes; /* read, but not yet added to ${position} */
    size_t unfinished;
    unsigned unsubmitted;
} large_batch_file;

/*
 * Begin to digest ${file}. If ${position} is not 0 and ${wanted} has MD5, the caller must also set ${whole_md5}. The
 * XXH3-128 of the whole file is valid only if ${position} is 0. Return 0, or -1 as md5_init does.
 */
int large_batch_begin(large_batch_file *file);

/*
 * Read and digest until at least one file ceases to be ACTIVE, or for about ${most_ns}. Return the number of files that
 * ceased to be ACTIVE.
 *
 * ${pieces} holds a buffer of ${piece_bytes} per file, ${stride_bytes} apart. Keep the ${count} files and ${pieces} in
 * place, and use ${scheduler} for nothing else, while any of the files is ACTIVE.
 */
size_t large_batch_run(md5_scheduler *scheduler, large_batch_file *files, size_t count, uint8_t *pieces,
                       size_t piece_bytes, size_t stride_bytes, int64_t most_ns);

#endif
