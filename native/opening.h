/*
 * Open what lies beneath a folder and nothing else, with openat2(2). Linux only.
 *
 * The rules are those of files/opening.py, which knows the reasons; without openat2 nothing is opened.
 */
#ifndef OPENING_H
#define OPENING_H

#include <stdint.h>

/*
 * Open ${path} with ${flags} of open(2), and never wait for the other end of a FIFO; the atime does not move, as far as
 * the system lets us. ${resolve} may add LINUX_RESOLVE_NO_XDEV and LINUX_RESOLVE_CACHED (linux_calls.h) to the rules that
 * always hold. Return a descriptor, or -1 with errno.
 */
int opening_open(int folder_fd, const char *path, uint64_t flags, uint64_t resolve);

#endif
