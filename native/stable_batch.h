/*
 * Read many small files, each as one stable version, in one call: from the page cache, or past it from the disk.
 *
 * Decides nothing about files: whatever is out of the ordinary in any way is left to the caller, who reads it by itself
 * and finds out what it is. So there are no errors here, only files that were read and files that were not. Waits for
 * no lock, FIFO or terminal. Linux only.
 */
#ifndef STABLE_BATCH_H
#define STABLE_BATCH_H

#include "file_batch.h"

/*
 * Read files of at most ${limit_bytes} beneath ${root_fd} as file_batch_fill does, from memory; never wait for a disk.
 *
 * A file is read if: it opens beneath the root without a symbolic link on the way and without its folders having to be
 * looked up on the disk; it is regular, without holes, and all of it is in memory; none of its size, mtime, ctime and
 * inode moves while it is read, neither on the descriptor nor at the path. What is dirty is written back before the
 * first stat; the atime does not move, as far as the system lets us. If its mtime or ctime is ${recent_since_ns} or later,
 * no program may have it open for writing: a write stamps when it begins, and may be under way long after.
 */
size_t stable_batch_read(int root_fd, const file_batch_paths *paths, uint64_t limit_bytes, int64_t recent_since_ns,
                         uint8_t *arena, size_t arena_bytes, file_batch_record *records);

/*
 * Read files in the same way from the disk, past the page cache, into an arena that begins with a page.
 *
 * Instead of lying in memory a file must be one for which the kernel vouches that O_DIRECT is what it says
 * (STATX_DIOALIGN), and its folders may be looked up on the disk. What is in memory of it stays there, and is not looked
 * at. Whether there is a cache elsewhere, below the file system, is for the caller to know. After ${most_ns} no further
 * file is begun, so that whoever is to stop, or to give way, need not wait for a slow disk.
 */
size_t stable_batch_read_disk(int root_fd, const file_batch_paths *paths, uint64_t limit_bytes, int64_t recent_since_ns,
                              int64_t most_ns, uint8_t *arena, size_t arena_bytes, file_batch_record *records);

#endif
