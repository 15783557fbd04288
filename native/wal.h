/*
 * Check the write-ahead log of an SQLite database against its own checksums, which SQLite compares only when it recovers
 * a log after a crash. The format is documented in https://www.sqlite.org/fileformat2.html#walformat.
 */
#ifndef WAL_H
#define WAL_H

#include <stddef.h>
#include <stdint.h>

/* What a log holds. A frame is one page; the last frame of a transaction is its commit. */
typedef struct {
    uint64_t sound; /* frames from the first on whose checksums are right */
    uint64_t lost;  /* commits behind a wrong frame that were written since the log last began */
    int is_torn;    /* the wrong frame is such a commit itself, as if it were being written: SQLite writes in order */
} wal_frames;

/* Check a log as it lies in the file. Returns 0 if its header is damaged: the log then holds nothing. */
int wal_check(const uint8_t *log, size_t bytes, wal_frames *frames);

#endif
