/*
 * Load many small files in one call, whatever is cached and whoever writes to them: as md5sum reads, file by file.
 *
 * Decides nothing about files: whatever is out of the ordinary is left to the caller, who reads it by itself and finds
 * out what it is. Never waits for a FIFO, a device or a terminal; may wait for a disk.
 */
#ifndef LOAD_BATCH_H
#define LOAD_BATCH_H

#include "file_batch.h"

/*
 * Read files of at most ${limit_bytes} as file_batch_fill does. Symbolic links are followed. Of the times and the inode
 * in a record nothing is said.
 *
 * A file is read if it is regular, opens, and ends where its size says; what is not regular is not opened. Of a regular
 * file that is too large the record has the size, too.
 */
size_t load_batch_read(const file_batch_paths *paths, uint64_t limit_bytes, uint8_t *arena, size_t arena_bytes,
                       file_batch_record *records);

#endif
