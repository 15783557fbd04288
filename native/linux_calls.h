/*
 * System calls, structures and flags of Linux that the C library of the build machine may not declare.
 *
 * The headers of the build machine can be older than the kernel that runs. All values are part of the kernel's ABI and
 * never change; the prefix keeps them apart from the names that newer headers define.
 *
 * Every call returns what syscall(2) returns: -1 with errno for failure, ENOSYS for a kernel without the call.
 * Define _GNU_SOURCE before any other header.
 */
#ifndef LINUX_CALLS_H
#define LINUX_CALLS_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* The same numbers on every architecture but Alpha. */
#define LINUX_SYS_OPENAT2 437
#define LINUX_SYS_CACHESTAT 451

/* struct open_how of openat2(2), Linux 5.6. */
struct linux_open_how {
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};

/* linux_open_how.resolve */
#define LINUX_RESOLVE_NO_XDEV 0x01U
#define LINUX_RESOLVE_NO_MAGICLINKS 0x02U
#define LINUX_RESOLVE_NO_SYMLINKS 0x04U
#define LINUX_RESOLVE_BENEATH 0x08U
#define LINUX_RESOLVE_CACHED 0x20U /* fail with EAGAIN instead of reading folders from the disk; Linux 5.12 */

static inline int linux_openat2(int folder_fd, const char *path, const struct linux_open_how *how)
{
    return (int)syscall(LINUX_SYS_OPENAT2, folder_fd, path, how, sizeof *how);
}

/* struct cachestat_range of cachestat(2), Linux 6.5; ${length} 0 is to the end of the file. */
struct linux_cachestat_range {
    uint64_t offset;
    uint64_t length;
};

/* struct cachestat, in pages. */
struct linux_cachestat {
    uint64_t cached;
    uint64_t dirty;
    uint64_t in_writeback;
    uint64_t evicted;
    uint64_t recently_evicted;
};

static inline int linux_cachestat(int fd, const struct linux_cachestat_range *range, struct linux_cachestat *counts)
{
    return (int)syscall(LINUX_SYS_CACHESTAT, fd, range, counts, 0U);
}

/* struct statx of statx(2), the fields that are used. */
struct linux_statx {
    uint32_t mask; /* which fields the kernel filled in */
    uint8_t unused[148];
    uint32_t dio_mem_align; /* never more than a page */
    uint32_t dio_offset_align;
    uint8_t reserved[96];
};

_Static_assert(offsetof(struct linux_statx, dio_offset_align) == 156, "stx_dio_offset_align");
_Static_assert(sizeof(struct linux_statx) == 256, "struct statx");

/* linux_statx.mask; STATX_DIOALIGN, Linux 6.1. */
#define LINUX_STATX_DIOALIGN 0x2000U

/* Ask for ${mask} of an open file. */
static inline int linux_statx(int fd, unsigned mask, struct linux_statx *status)
{
    return (int)syscall(SYS_statx, fd, "", AT_EMPTY_PATH, mask, status);
}

/* RWF_NOWAIT of preadv2(2), Linux 4.14: fail with EAGAIN instead of waiting for the disk. */
#define LINUX_RWF_NOWAIT 0x00000008

/* Read from the start of a file. musl has a wrapper from 1.2.5 on; the call takes the offset in two halves. */
static inline ssize_t linux_preadv2_start(int fd, const struct iovec *pieces, int count, int flags)
{
#ifdef __GLIBC__
    return preadv2(fd, pieces, count, 0, flags);
#else
    return syscall(SYS_preadv2, fd, pieces, (long)count, 0L, 0L, flags);
#endif
}

/* Read entries (struct dirent64); 0 at the end of the folder. The C library has a wrapper from glibc 2.30 on. */
static inline long linux_getdents64(int fd, void *entries, size_t room_bytes)
{
    return syscall(SYS_getdents64, fd, entries, room_bytes);
}

#endif
