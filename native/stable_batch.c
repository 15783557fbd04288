/*
 * Read files one after the other, with the fewest system calls that fulfil stable_batch.h.
 *
 * Same rules and order as the reader in Python (files/read.py), which gives reasons and handles exceptions.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "stable_batch.h"

#include "clock.h"
#include "linux_calls.h"
#include "opening.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define STAT_BLOCK_BYTES 512U
#define WINDOW_PAGES 256U

static size_t count_pages(uint64_t size_bytes, size_t page_bytes)
{
    return (size_t)((size_bytes + page_bytes - 1) / page_bytes);
}

/*
 * For kernels before 6.5. PROT_NONE: no access through the mapping can raise SIGBUS. mincore(2) reports all pages
 * resident unless the caller is the owner or root.
 */
static int is_mapped_file_resident(int fd, const struct stat *stat, size_t page_bytes)
{
    const uint64_t size_bytes = (uint64_t)stat->st_size;
    const uid_t user = geteuid();
    unsigned char pages[WINDOW_PAGES];
    size_t left = count_pages(size_bytes, page_bytes);
    uint8_t *map, *next;

    if (user != 0 && user != stat->st_uid)
        return 0;
    map = mmap(NULL, (size_t)size_bytes, PROT_NONE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return 0;
    for (next = map; left != 0;) {
        const size_t window = left < WINDOW_PAGES ? left : WINDOW_PAGES;
        size_t resident = 0;

        if (mincore(next, window * page_bytes, pages) != 0)
            break;
        while (resident < window && (pages[resident] & 1) != 0)
            resident++;
        if (resident < window)
            break;
        next += window * page_bytes;
        left -= window;
    }
    munmap(map, (size_t)size_bytes);
    return left == 0;
}

/* Page cache state of an open file. ${is_known} is 0 if the kernel lacks cachestat or a seccomp filter refuses it. */
struct pages {
    int is_known;
    uint64_t cached;
};

/* Write dirty pages back. Skip the system call if all pages are known to be clean. */
static int write_back(int fd, struct pages *pages)
{
    const struct linux_cachestat_range range = {0, 0}; /* to the end */
    struct linux_cachestat counts;

    pages->cached = 0;
    pages->is_known = linux_cachestat(fd, &range, &counts) == 0;
    if (pages->is_known) {
        pages->cached = counts.cached;
        if (counts.dirty == 0 && counts.in_writeback == 0)
            return 0;
    } else if (errno != ENOSYS && errno != EPERM) {
        return -1; /* older seccomp filters refuse unknown calls with EPERM */
    }
    return sync_file_range(fd, 0, 0,
                           SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
}

static int is_resident(int fd, const struct stat *stat, const struct pages *pages)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);

    if (pages->is_known)
        return pages->cached >= count_pages((uint64_t)stat->st_size, page_bytes);
    return is_mapped_file_resident(fd, stat, page_bytes);
}

/* Return whether ${stat} is of a regular file within the limit, without holes and with times that fit. */
static int is_plain(const struct stat *stat, uint64_t limit_bytes)
{
    return S_ISREG(stat->st_mode) && stat->st_size >= 0 && (uint64_t)stat->st_size <= limit_bytes &&
           (uint64_t)stat->st_blocks * STAT_BLOCK_BYTES >= (uint64_t)stat->st_size &&
           clock_fits_ns(&stat->st_mtim) && clock_fits_ns(&stat->st_ctim);
}

static int is_same_version(const struct stat *one, const struct stat *other)
{
    return one->st_size == other->st_size && one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
           one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec &&
           one->st_ctim.tv_sec == other->st_ctim.tv_sec && one->st_ctim.tv_nsec == other->st_ctim.tv_nsec;
}

static ssize_t read_once(int fd, uint8_t *to, size_t length_bytes, int flags)
{
    struct iovec piece = {to, length_bytes};
    const ssize_t count = linux_preadv2_start(fd, &piece, 1, flags);

    /* The file system lacks RWF_NOWAIT. is_resident has established that pread will not wait. */
    return count < 0 && errno == EOPNOTSUPP ? pread(fd, to, length_bytes, 0) : count;
}

/* Return the offset alignment of O_DIRECT for this file; 0 if the kernel does not confirm support. */
static size_t find_direct_unit(int fd)
{
    struct linux_statx status = {0};

    if (linux_statx(fd, LINUX_STATX_DIOALIGN, &status) != 0 || (status.mask & LINUX_STATX_DIOALIGN) == 0)
        return 0;
    return status.dio_offset_align;
}

/* Parameters that all files of a batch share. */
struct terms {
    int root_fd;
    int from_disk;
    int64_t until_ns;        /* monotonic clock: begin no file after this */
    int64_t recent_since_ns; /* file times: a write that began at or after this may still be in progress */
};

/*
 * One stat checks that the path still leads to the file that was read, and that the file did not change. This holds
 * even if a folder in the path has become a symbolic link meanwhile: device and inode are compared.
 */
static int is_still(const struct terms *terms, const char *path, const struct stat *before)
{
    struct stat after;

    return fstatat(terms->root_fd, path, &after, AT_SYMLINK_NOFOLLOW) == 0 && is_same_version(before, &after);
}

/*
 * Return whether no program has the file open or mapped for writing: only then does the kernel grant a read lease
 * (F_SETLEASE in fcntl(2)). A program that opens the file for writing blocks until the lease is released. The kernel
 * then signals the holder, by default with SIGIO, which would terminate this process; SIGURG is ignored by default.
 */
static int has_no_writer(int fd)
{
    if (fcntl(fd, F_SETSIG, SIGURG) != 0 || fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
        return 0;
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return 1;
}

static int is_recent(const struct terms *terms, const struct stat *stat)
{
    return clock_to_ns(&stat->st_mtim) >= terms->recent_since_ns ||
           clock_to_ns(&stat->st_ctim) >= terms->recent_since_ns;
}

static int read_content(const struct terms *terms, int fd, const struct stat *before, const struct pages *pages,
                        size_t unit, uint8_t *to)
{
    const size_t size_bytes = (size_t)before->st_size;
    ssize_t count = -1;

    if (size_bytes == 0)
        return 0;
    if (terms->from_disk)
        /* The read ends early, at the end of the file. */
        count = read_once(fd, to, file_batch_round_up(size_bytes, unit), 0);
    else if (is_resident(fd, before, pages))
        count = read_once(fd, to, size_bytes, LINUX_RWF_NOWAIT);
    return count == (ssize_t)size_bytes ? 0 : -1;
}

static int read_open(const struct terms *terms, int fd, const char *path, uint64_t limit_bytes, uint8_t *to,
                     size_t room_bytes, file_batch_record *record)
{
    struct pages pages;
    struct stat before;
    size_t unit = 1;

    if (terms->from_disk) {
        unit = find_direct_unit(fd);
        if (unit == 0 || FILE_BATCH_PAGE % unit != 0)
            return FILE_BATCH_LEAVE;
    }
    if (write_back(fd, &pages) != 0 || fstat(fd, &before) != 0 || !is_plain(&before, limit_bytes))
        return FILE_BATCH_LEAVE;
    if (file_batch_round_up((size_t)before.st_size, unit) > room_bytes)
        return FILE_BATCH_LATER;
    if (is_recent(terms, &before) && !has_no_writer(fd))
        return FILE_BATCH_LEAVE;
    if (read_content(terms, fd, &before, &pages, unit, to) != 0 || !is_still(terms, path, &before))
        return FILE_BATCH_LEAVE;
    record->size_bytes = (uint64_t)before.st_size;
    record->mtime_ns = clock_to_ns(&before.st_mtim);
    record->ctime_ns = clock_to_ns(&before.st_ctim);
    record->inode = (uint64_t)before.st_ino;
    return FILE_BATCH_TAKEN;
}

static int read_one(const void *context, const char *path, uint64_t limit_bytes, uint8_t *to, size_t room_bytes,
                    file_batch_record *record)
{
    const struct terms *const terms = context;
    int result;
    int fd;

    if (terms->from_disk && clock_read_ns() > terms->until_ns)
        return FILE_BATCH_LATER;
    fd = terms->from_disk ? opening_open(terms->root_fd, path, O_RDONLY | O_DIRECT, 0)
                          : opening_open(terms->root_fd, path, O_RDONLY, LINUX_RESOLVE_CACHED);
    if (fd < 0)
        return FILE_BATCH_LEAVE;
    result = read_open(terms, fd, path, limit_bytes, to, room_bytes, record);
    close(fd);
    return result;
}

size_t stable_batch_read(int root_fd, const file_batch_paths *paths, uint64_t limit_bytes, int64_t recent_since_ns,
                         uint8_t *arena, size_t arena_bytes, file_batch_record *records)
{
    const struct terms terms = {root_fd, 0, 0, recent_since_ns};

    return file_batch_fill(read_one, &terms, paths, limit_bytes, FILE_BATCH_CACHE_LINE, arena, arena_bytes, records);
}

size_t stable_batch_read_disk(int root_fd, const file_batch_paths *paths, uint64_t limit_bytes, int64_t recent_since_ns,
                              int64_t most_ns, uint8_t *arena, size_t arena_bytes, file_batch_record *records)
{
    const struct terms terms = {root_fd, 1, clock_read_ns() + most_ns, recent_since_ns};

    return file_batch_fill(read_one, &terms, paths, limit_bytes, FILE_BATCH_PAGE, arena, arena_bytes, records);
}
