/*
 * Many small files in one arena, whichever way each of them is read, and their digests.
 *
 * Decides where contents lie and when the arena is full; what a file must be to be read is the reader's. Nothing here
 * prints, aborts or keeps state; every buffer is the caller's, except what qsort(3) takes for a moment.
 */
#ifndef FILE_BATCH_H
#define FILE_BATCH_H

#include "crc64.h"
#include "md5_batch.h"
#include "xxh3.h"

#include <stddef.h>
#include <stdint.h>

/* The statuses of a record. */
#define FILE_BATCH_READ 0U     /* all fields hold, and all of the content is in the arena */
#define FILE_BATCH_NOT_MINE 1U /* the caller's to read; no other field means anything */

/* Where contents begin in the arena: a multiple of one of these. */
#define FILE_BATCH_CACHE_LINE 64U
#define FILE_BATCH_PAGE 4096U /* what a disk can write to by itself, whichever it is; the arena begins with a page then */

/* One file, all in native byte order and without padding: 88 bytes. */
typedef struct {
    uint64_t status;
    uint64_t size_bytes;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t inode;
    uint64_t offset; /* of the content in the arena */
    uint8_t md5[MD5_DIGEST_BYTES];    /* zeros until it is computed, as the others are */
    uint8_t xxh3_128[XXH3_128_BYTES]; /* the most significant byte first */
    uint8_t crc64nvme[CRC64_BYTES];   /* the same */
} file_batch_record;

/* Paths that stand one after the other, each closed by a NUL byte. */
typedef struct {
    const char *text;
    size_t text_bytes;
    size_t count;
} file_batch_paths;

/* Return the least multiple of ${unit} that is not below ${size_bytes}. */
static inline size_t file_batch_round_up(size_t size_bytes, size_t unit)
{
    return (size_bytes + unit - 1) / unit * unit;
}

/* What a reader made of a file. */
#define FILE_BATCH_TAKEN 0    /* it was read */
#define FILE_BATCH_LATER 1    /* there is no room or time left for it in this batch */
#define FILE_BATCH_LEAVE (-1) /* it is the caller's */

/*
 * Read one file of at most ${limit_bytes} into ${to}, of which ${room_bytes} are left, and fill in its record, all zeros
 * so far, but for the status, the offset and the digests.
 */
typedef int (*file_batch_reader)(const void *context, const char *path, uint64_t limit_bytes, uint8_t *to,
                                 size_t room_bytes, file_batch_record *record);

/*
 * Have files read into ${arena}, each at a multiple of ${alignment}, one record for each into ${records}.
 *
 * Return how many files have a record now, from the first on. It is less than there are paths if the next one does not
 * fit into the rest of the arena: call again with the others. The first always gets a record.
 */
size_t file_batch_fill(file_batch_reader read_one, const void *context, const file_batch_paths *paths,
                       uint64_t limit_bytes, size_t alignment, uint8_t *arena, size_t arena_bytes,
                       file_batch_record *records);

/* Which digests to compute. */
#define FILE_BATCH_MD5 1U
#define FILE_BATCH_XXH3_128 2U
#define FILE_BATCH_CRC64NVME 4U /* the caller has made sure that crc64_select finds a path */

/*
 * Digest the content of each file that was read: MD5s are submitted to ${scheduler}, the longest first, the others are in
 * the records when this returns. ${unfinished} is raised by the number of MD5s, and falls as they end; until it is 0
 * ${arena}, ${records} and ${unfinished} have to stay where they are.
 */
void file_batch_digest(md5_scheduler *scheduler, unsigned wanted, const uint8_t *arena, file_batch_record *records,
                       size_t count, size_t *unfinished);

#endif
