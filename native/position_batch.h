/*
 * Find the position of many files on their device in one call, with FIEMAP. Linux only.
 */
#ifndef POSITION_BATCH_H
#define POSITION_BATCH_H

#include "file_batch.h"

/*
 * Write the device offset in bytes of each file's first extent to ${positions}, for files beneath ${root_fd}. The
 * caller sets ${positions} to 0 before; a file keeps 0 if it cannot be opened, has no allocated extent of its own, or
 * its file system does not support FIEMAP.
 */
void position_batch_find(int root_fd, const file_batch_paths *paths, uint64_t *positions);

#endif
