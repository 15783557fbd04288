/*
 * Open files and folders beneath a folder, with openat2(2). Linux only.
 *
 * Same rules as files/open_beneath.py, which gives the reasons. Kernels without openat2: every open fails.
 */
#ifndef OPENING_H
#define OPENING_H

#include <stdint.h>

/*
 * Open ${path}, relative to ${folder_fd}, with ${flags} of open(2). Refuse symbolic links and ".." components. Never
 * block on a FIFO. Preserve the atime if the system permits O_NOATIME. ${resolve} may add LINUX_RESOLVE_NO_XDEV and
 * LINUX_RESOLVE_CACHED (linux_calls.h). Return a descriptor, or -1 with errno.
 */
int opening_open(int folder_fd, const char *path, uint64_t flags, uint64_t resolve);

#endif
