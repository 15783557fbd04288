/*
 * Read many small files into one arena, and digest them.
 *
 * Decides the placement of contents and when the arena is full. The reader function decides which files to read. Never
 * prints, aborts or keeps state. All buffers belong to the caller, except temporary memory of qsort(3).
 */
#ifndef FILE_BATCH_H
#define FILE_BATCH_H

#include "crc64.h"
#include "md5_batch.h"
#include "xxh3.h"

#include <stddef.h>
#include <stdint.h>

/* The statuses of a record. */
#define FILE_BATCH_READ 0U     /* all fields are valid, and the arena holds the whole content */
#define FILE_BATCH_NOT_MINE 1U /* left to the caller; the reader documents which other fields it set */

/* The alignments of contents in the arena. */
#define FILE_BATCH_CACHE_LINE 64U
#define FILE_BATCH_PAGE 4096U /* satisfies O_DIRECT on any disk; requires a page-aligned arena */

/* One file. Native byte order, no padding, 88 bytes. */
typedef struct {
    uint64_t status;
    uint64_t size_bytes;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t inode;
    uint64_t offset; /* of the content in the arena */
    uint8_t md5[MD5_DIGEST_BYTES];    /* all digests are zeros until computed */
    uint8_t xxh3_128[XXH3_128_BYTES]; /* the most significant byte first */
    uint8_t crc64nvme[CRC64_BYTES];   /* the same */
} file_batch_record;

/* Paths stored one after the other, each terminated by a NUL byte. */
typedef struct {
    const char *text;
    size_t text_bytes;
    size_t count;
} file_batch_paths;

/* Round ${size_bytes} up to a multiple of ${unit}. */
static inline size_t file_batch_round_up(size_t size_bytes, size_t unit)
{
    return (size_bytes + unit - 1) / unit * unit;
}

/* What a reader returns for a file. */
#define FILE_BATCH_TAKEN 0    /* read */
#define FILE_BATCH_LATER 1    /* no room or time left in this batch */
#define FILE_BATCH_LEAVE (-1) /* left to the caller */

/*
 * Read one file of at most ${limit_bytes} into ${to}, which has room for ${room_bytes}. Fill in its record, which is
 * all zeros, except for status, offset and digests.
 */
typedef int (*file_batch_reader)(const void *context, const char *path, uint64_t limit_bytes, uint8_t *to,
                                 size_t room_bytes, file_batch_record *record);

/*
 * Read files into ${arena} with ${read_one}, each at a multiple of ${alignment}, and write one record per file to
 * ${records}.
 *
 * Return the number of files with a record, counted from the first. It is less than ${paths}->count if the next file
 * does not fit into the rest of the arena; call again with the remaining paths. The first file always gets a record.
 */
size_t file_batch_fill(file_batch_reader read_one, const void *context, const file_batch_paths *paths,
                       uint64_t limit_bytes, size_t alignment, uint8_t *arena, size_t arena_bytes,
                       file_batch_record *records);

/* Which digests to compute. */
#define FILE_BATCH_MD5 1U
#define FILE_BATCH_XXH3_128 2U
#define FILE_BATCH_CRC64NVME 4U /* requires that crc64_select returned 0 */

/*
 * Digest the content of each file that was read. Submit MD5s to ${scheduler}, longest first; write the other digests to
 * the records before returning. Add the number of MD5s to ${*unfinished}; each MD5 that completes decrements it. Keep
 * ${arena}, ${records} and ${unfinished} in place until it is 0.
 */
void file_batch_digest(md5_scheduler *scheduler, unsigned wanted, const uint8_t *arena, file_batch_record *records,
                       size_t count, size_t *unfinished);

#endif
