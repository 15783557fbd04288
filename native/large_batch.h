/*
 * Many large files in turn, a piece of each at a time, and all their digests side by side.
 *
 * The MD5 of one file is a chain, which no processor computes as fast as it reads memory; those of many files, and of
 * their blocks, have nothing to do with each other and fill the lanes. Decides how files are cut into pieces; which file
 * may be read like this, and what an end or an error means for it, is the caller's. Nothing here prints, aborts,
 * allocates or keeps state: every buffer is the caller's. Linux only.
 */
#ifndef LARGE_BATCH_H
#define LARGE_BATCH_H

#include "file_batch.h"
#include "xxh3.h"

/* The statuses of a file. */
#define LARGE_BATCH_IDLE 0U   /* there is no file in this place */
#define LARGE_BATCH_ACTIVE 1U /* it is being read */
#define LARGE_BATCH_HALTED 2U /* it waits at the border of a block: it was to halt, or there is no room for more digests */
#define LARGE_BATCH_ENDED 3U  /* all bytes up to ${end_bytes}, or to the end of the file, are digested */
#define LARGE_BATCH_FAILED 4U /* ${error} is what read(2) said */

/*
 * One file. The caller sets what stands first, begins with large_batch_begin, and may change status, ${halts} and
 * ${blocks_done} whenever it is not ACTIVE, and ${halts} at any time between two calls.
 */
typedef struct {
    int fd;
    unsigned wanted;           /* of the whole file: MD5, XXH3_128 of file_batch.h */
    unsigned wanted_of_blocks; /* the same, or CRC64NVME */
    unsigned halts;            /* stop at the next border of a block */
    uint64_t position;         /* of the next byte; ${block_bytes} divides the first one */
    uint64_t end_bytes;        /* read no further */
    uint64_t block_bytes;      /* at least 1 */
    size_t blocks_room;        /* so many digests of blocks fit below, at least 1 */
    uint8_t *block_md5s, *block_xxh3s, *block_crc64s;

    /* What the caller reads: digests of the whole file only when it has ENDED. */
    unsigned status;
    int error;
    size_t blocks_done; /* so many digests of blocks are there */
    uint8_t md5[MD5_DIGEST_BYTES];
    uint8_t xxh3_128[XXH3_128_BYTES];
    md5_context whole_md5; /* up to ${position}; may be exported while HALTED */

    /* Of this module alone. */
    md5_context block_md5;
    xxh3_state whole_xxh3, block_xxh3;
    uint64_t block_crc64;
    size_t piece_bytes; /* read and not settled yet */
    size_t unfinished;
    unsigned unsubmitted;
} large_batch_file;

/*
 * Begin to digest ${file}, whose first fields are set; ${whole_md5} as well, if ${position} is not 0 and MD5 wanted.
 * Other digests of the whole file are only right from the first byte on. Refuse (-1) as md5_init does.
 */
int large_batch_begin(large_batch_file *file);

/*
 * Read and digest until a file is ACTIVE no longer, or for about ${most_ns}. Return how many files that were ACTIVE
 * are no more.
 *
 * The ${count} files stay where they are while one of them is ACTIVE; ${pieces} has room for ${piece_bytes} for each of
 * them, ${stride_bytes} apart. All MD5s go through ${scheduler}, which belongs to them until none is ACTIVE.
 */
size_t large_batch_run(md5_scheduler *scheduler, large_batch_file *files, size_t count, uint8_t *pieces,
                       size_t piece_bytes, size_t stride_bytes, int64_t most_ns);

#endif
