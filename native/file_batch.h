/*
 * Read many small files that lie in the page cache, each as one stable version, in one call.
 *
 * Decides nothing about files: whatever is out of the ordinary in any way is left to the caller, who reads it by itself
 * and finds out what it is. So there are no errors here, only files that were read and files that were not. Never waits
 * for a disk to read; waits for no lock, FIFO or terminal.
 *
 * Nothing here prints, aborts, allocates or keeps state: every buffer is the caller's. Linux only.
 */
#ifndef FILE_BATCH_H
#define FILE_BATCH_H

#include <stddef.h>
#include <stdint.h>

/* The statuses of a record. */
#define FILE_BATCH_READ 0U     /* all fields hold, and all of the content is in the arena */
#define FILE_BATCH_NOT_MINE 1U /* the caller's to read; no other field means anything */

/* Where contents begin in the arena: a multiple of this, a cache line. */
#define FILE_BATCH_ALIGNMENT 64U

/* One file, all in native byte order and without padding: 64 bytes. */
typedef struct {
    uint64_t status;
    uint64_t size_bytes;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t inode;
    uint64_t offset; /* of the content in the arena */
    uint8_t md5[16]; /* zeros until file_batch_digest */
} file_batch_record;

/*
 * Read files of at most ${limit_bytes} beneath ${root_fd}, whose paths stand in ${paths} one after the other, ${count} of
 * them, each closed by a NUL byte; all of them within ${paths_bytes}. Contents go into ${arena}, one record for each
 * file into ${records}.
 *
 * A file is read if: it opens beneath the root without a symbolic link on the way and without its folders having to be
 * looked up on the disk; it is regular, without holes, and all of it is in memory; none of its size, mtime, ctime and
 * inode moves while it is read, neither on the descriptor nor at the path. What is dirty is written back before the
 * first stat; the atime does not move, as far as the system lets us.
 *
 * Return how many files have a record now, from the first on. It is less than ${count} if the next one does not fit into
 * the rest of the arena: call again with the others. The first always gets a record.
 */
size_t file_batch_read(int root_fd, const char *paths, size_t paths_bytes, size_t count, uint64_t limit_bytes,
                       uint8_t *arena, size_t arena_bytes, file_batch_record *records);

/*
 * Write the MD5 of the content of each file that was read into its record; ${arena} must be as file_batch_read left it.
 * Refuse (-1) as md5_init does.
 */
int file_batch_digest(const uint8_t *arena, file_batch_record *records, size_t count);

#endif
