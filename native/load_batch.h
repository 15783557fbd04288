/*
 * Load many small files in one call, cached or not, without protection against concurrent writers (as md5sum reads).
 *
 * Leaves every unusual file to the caller, who reads it separately and classifies it. Opening a tape or a FIFO has side
 * effects: the caller names files that were regular a moment ago. Never waits for a FIFO, device or terminal; may wait
 * for a disk.
 */
#ifndef LOAD_BATCH_H
#define LOAD_BATCH_H

#include "file_batch.h"

/*
 * Read files of at most ${limit_bytes} as file_batch_fill does. Follow symbolic links. Leave times and inode of the
 * records 0.
 *
 * A file is read if it is regular, can be opened, and ends at the size from stat. The record of a regular file above the
 * limit holds its size.
 */
size_t load_batch_read(const file_batch_paths *paths, uint64_t limit_bytes, uint8_t *arena, size_t arena_bytes,
                       file_batch_record *records);

#endif
