/*
 * Load many small files in one call, whatever is cached and whoever writes to them: as md5sum reads, file by file.
 *
 * Decides nothing about files: whatever is out of the ordinary is left to the caller, who reads it by itself and finds
 * out what it is. Never waits for a FIFO, a device or a terminal; may wait for a disk.
 *
 * Nothing here prints, aborts, allocates or keeps state: every buffer is the caller's.
 */
#ifndef LOAD_BATCH_H
#define LOAD_BATCH_H

#include "file_batch.h"

/*
 * Read files of at most ${limit_bytes}, whose paths stand in ${paths} one after the other, ${count} of them, each closed
 * by a NUL byte; all of them within ${paths_bytes}. Symbolic links are followed. Contents go into ${arena}, one record
 * for each file into ${records}; of the times and the inode there nothing is said.
 *
 * A file is read if it is regular, opens, and ends where its size says; what is not regular is not opened. Of a regular
 * file that is too large the record has the size, too.
 *
 * Return how many files have a record now, from the first on. It is less than ${count} if the next one does not fit into
 * the rest of the arena: call again with the others. The first always gets a record.
 */
size_t load_batch_read(const char *paths, size_t paths_bytes, size_t count, uint64_t limit_bytes, uint8_t *arena,
                       size_t arena_bytes, file_batch_record *records);

#endif
