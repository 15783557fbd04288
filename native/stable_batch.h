/*
 * Read many small files in one call, each as one stable version, from the page cache or directly from the disk.
 *
 * Leaves every unusual file to the caller, who reads it separately and classifies it. Therefore no call reports an
 * error: a file is either read or not. Never waits for a lock, FIFO or terminal. Linux only.
 */
#ifndef STABLE_BATCH_H
#define STABLE_BATCH_H

#include "file_batch.h"

/*
 * Read files of at most ${limit_bytes} beneath ${root_fd} from the page cache, as file_batch_fill does. Never wait for
 * a disk, except to write back dirty pages.
 *
 * A file is read if:
 * - its path resolves beneath the root from cached folders, without symbolic links;
 * - it is regular, has no holes, and is entirely in the page cache;
 * - size, mtime, ctime, device and inode at the path after reading equal those of the descriptor before reading;
 * - if its mtime or ctime is ${recent_since_ns} or later, no program has it open for writing. A write sets the times
 *   when it begins, and may continue long after.
 * Dirty pages are written back before the first stat. The atime is preserved if the system permits O_NOATIME.
 */
size_t stable_batch_read(int root_fd, const file_batch_paths *paths, uint64_t limit_bytes, int64_t recent_since_ns,
                         uint8_t *arena, size_t arena_bytes, file_batch_record *records);

/*
 * Read files from the disk with O_DIRECT, bypassing the page cache. ${arena} must be page-aligned.
 *
 * The conditions are those of stable_batch_read, with two differences: the kernel must confirm support of O_DIRECT for
 * the file (STATX_DIOALIGN) instead of holding it in the page cache, and folders may be looked up on the disk. Cached
 * pages stay cached and are not used. The caller must know whether a layer below the file system has a cache of its
 * own. Begin no further file after ${most_ns}, so that the caller can stop or yield although the disk is slow.
 */
size_t stable_batch_read_disk(int root_fd, const file_batch_paths *paths, uint64_t limit_bytes, int64_t recent_since_ns,
                              int64_t most_ns, uint8_t *arena, size_t arena_bytes, file_batch_record *records);

#endif
