/*
 * Read many small files in one call, each as one stable version, from the page cache or from the disk.
 *
 * Leaves every unusual file to the caller, who reads it separately and classifies it. Therefore no call reports an
 * error: a file is either read or not. Never waits for a lock, FIFO or terminal. Linux only.
 */
#ifndef STABLE_BATCH_H
#define STABLE_BATCH_H

#include "file_batch.h"

/* Where contents come from, and what reading them does to the page cache. */
typedef enum {
    /* From the page cache alone, where the whole file must be. Never waits for a disk, except to write back. */
    STABLE_BATCH_MEMORY,
    /* From the disk with O_DIRECT, which the kernel must confirm for the file (STATX_DIOALIGN). Cached pages stay. */
    STABLE_BATCH_DIRECT,
    /* The same where the kernel confirms nothing (btrfs): no extent may be encoded or inline. Drops clean pages first. */
    STABLE_BATCH_UNENCODED,
    /* Through the page cache, after dropping clean pages. What was read is dropped again. */
    STABLE_BATCH_DROPPED,
    /* Through the page cache. What was read is dropped again if nothing of the file was cached before. */
    STABLE_BATCH_PASSING,
    /* Through the page cache, which keeps what was read. */
    STABLE_BATCH_KEPT
} stable_batch_way;

/* How all files of a batch are read. */
typedef struct {
    int root_fd;
    stable_batch_way way;
    uint64_t limit_bytes;    /* leave larger files to the caller */
    int64_t recent_since_ns; /* file times: a write that began at or after this may still be in progress */
    int64_t most_ns;         /* begin no file after this time, so that the caller can stop although the disk is slow */
} stable_batch_terms;

/*
 * Read files beneath a folder, as file_batch_fill does. ${arena} must be page-aligned for O_DIRECT.
 *
 * A file is read if:
 * - its path resolves beneath the root without symbolic links; from memory: through cached folders;
 * - it is regular and has no holes;
 * - size, mtime, ctime, device and inode at the path after reading equal those of the descriptor before reading;
 * - if its mtime or ctime is recent, no program has it open for writing. A write sets the times when it begins, and may
 *   continue long after.
 * Dirty pages are written back before the first stat. The atime is preserved if the system permits O_NOATIME. The
 * caller must know whether a layer below the file system has a cache of its own.
 */
size_t stable_batch_read(const stable_batch_terms *terms, const file_batch_paths *paths, uint8_t *arena,
                         size_t arena_bytes, file_batch_record *records);

#endif
