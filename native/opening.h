/*
 * Open what lies beneath a folder and nothing else, with openat2(2). Linux only.
 *
 * The rules are those of files/opening.py, which knows the reasons; without openat2 nothing is opened.
 */
#ifndef OPENING_H
#define OPENING_H

#include <stdint.h>

/* How to resolve a path, besides: no symbolic link and no way out is followed anyway. */
#define OPENING_ON_MOUNT 0x01U   /* without leaving the folder's mount */
#define OPENING_FROM_CACHE 0x20U /* without looking folders up on the disk (Linux 5.12) */

/*
 * Open ${path} with ${flags} of open(2), and never wait for the other end of a FIFO; the atime does not move, as far as
 * the system lets us. Return a descriptor, or -1 with errno.
 */
int opening_open(int folder_fd, const char *path, uint64_t flags, uint64_t resolve);

#endif
