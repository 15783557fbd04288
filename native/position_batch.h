/*
 * Where on their device many files begin, in one call: FIEMAP. Linux only.
 */
#ifndef POSITION_BATCH_H
#define POSITION_BATCH_H

#include "file_batch.h"

/*
 * Write the position in bytes of the first extent of each file beneath ${root_fd} to ${positions}: 0 for one that can't
 * be opened, has no bytes of its own on the device, or whose file system does not tell.
 */
void position_batch_find(int root_fd, const file_batch_paths *paths, uint64_t *positions);

#endif
