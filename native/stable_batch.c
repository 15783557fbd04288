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
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define STAT_BLOCK_BYTES 512U
#define WINDOW_PAGES 256U
#define MOST_EXTENTS 32U
#define ENCODED (FIEMAP_EXTENT_ENCODED | FIEMAP_EXTENT_DATA_INLINE)

static uint64_t count_pages(const struct stat *stat)
{
    const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);

    return ((uint64_t)stat->st_size + page_bytes - 1) / page_bytes;
}

/* Page cache state of an open file. */
struct pages {
    int is_known;
    uint64_t cached;
};

/*
 * Count cached pages on kernels before 6.5. PROT_NONE: no access through the mapping can raise SIGBUS. mincore(2)
 * reports all pages resident unless the caller is the owner or root.
 */
static void count_mapped(int fd, const struct stat *stat, struct pages *pages)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const size_t count = (size_t)count_pages(stat);
    const uid_t user = geteuid();
    unsigned char window[WINDOW_PAGES];
    uint8_t *map;

    if (count == 0 || (user != 0 && user != stat->st_uid))
        return;
    map = mmap(NULL, (size_t)stat->st_size, PROT_NONE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return;
    pages->is_known = 1;
    for (size_t first = 0; first < count && pages->is_known; first += WINDOW_PAGES) {
        const size_t length = count - first < WINDOW_PAGES ? count - first : WINDOW_PAGES;

        pages->is_known = mincore(map + first * page_bytes, length * page_bytes, window) == 0;
        for (size_t i = 0; i < length; i++)
            pages->cached += window[i] & 1U;
    }
    munmap(map, (size_t)stat->st_size);
}

/*
 * Write dirty pages back, and count the cached pages if the kernel has cachestat and no seccomp filter refuses it. Skip
 * the system call if all pages are known to be clean.
 */
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

    /* The file system lacks RWF_NOWAIT. Where that is asked for, all pages are cached, so that pread will not wait. */
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

/* Return whether any extent is compressed, encrypted or inline, or the file has so many that the rest is unknown. */
static int may_be_encoded(int fd)
{
    union {
        struct fiemap head;
        uint8_t room[sizeof(struct fiemap) + MOST_EXTENTS * sizeof(struct fiemap_extent)];
    } answer;
    uint32_t flags = 0;

    memset(&answer, 0, sizeof answer);
    answer.head.fm_length = FIEMAP_MAX_OFFSET;
    answer.head.fm_extent_count = MOST_EXTENTS;
    if (ioctl(fd, FS_IOC_FIEMAP, &answer.head) != 0)
        return 1;
    for (uint32_t i = 0; i < answer.head.fm_mapped_extents; i++)
        flags |= answer.head.fm_extents[i].fe_flags;
    return (flags & ENCODED) != 0 || (flags & FIEMAP_EXTENT_LAST) == 0;
}

static void drop_clean_pages(int fd)
{
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* Its failure leaves pages cached: less is certain, no byte is wrong. */
}

/* Parameters that all files of a batch share. */
struct context {
    const stable_batch_terms *terms;
    int64_t until_ns; /* monotonic clock: begin no file after this */
};

/*
 * One stat checks that the path still leads to the file that was read, and that the file did not change. This holds
 * even if a folder in the path has become a symbolic link meanwhile: device and inode are compared.
 */
static int is_still(const stable_batch_terms *terms, const char *path, const struct stat *before)
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

static int is_recent(const stable_batch_terms *terms, const struct stat *stat)
{
    return clock_to_ns(&stat->st_mtim) >= terms->recent_since_ns ||
           clock_to_ns(&stat->st_ctim) >= terms->recent_since_ns;
}

/* Read through the page cache; drop what that brought there if ${way} says so. */
static ssize_t read_buffered(stable_batch_way way, int fd, const struct stat *before, struct pages *pages, uint8_t *to)
{
    const size_t size_bytes = (size_t)before->st_size;
    ssize_t count;

    if (!pages->is_known)
        count_mapped(fd, before, pages);
    if (way == STABLE_BATCH_MEMORY)
        return pages->is_known && pages->cached >= count_pages(before)
                   ? read_once(fd, to, size_bytes, LINUX_RWF_NOWAIT)
                   : -1;
    if (way == STABLE_BATCH_PASSING && pages->is_known && pages->cached != 0 && pages->cached < count_pages(before))
        return -1; /* some pages are to be dropped, others not */
    if (way == STABLE_BATCH_DROPPED)
        drop_clean_pages(fd);
    count = read_once(fd, to, size_bytes, 0);
    if (way == STABLE_BATCH_DROPPED || (way == STABLE_BATCH_PASSING && pages->is_known && pages->cached == 0))
        drop_clean_pages(fd);
    return count;
}

/* Read with O_DIRECT. The read ends early, at the end of the file. */
static ssize_t read_direct(stable_batch_way way, int fd, size_t size_bytes, size_t unit, uint8_t *to)
{
    if (way == STABLE_BATCH_UNENCODED) {
        const int flags = fcntl(fd, F_GETFL);

        drop_clean_pages(fd);
        if (flags < 0 || may_be_encoded(fd) || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
            return -1;
    }
    return read_once(fd, to, file_batch_round_up(size_bytes, unit), 0);
}

/* Return the unit in which a file is to be read; 0 if it can't be read in this way. */
static size_t find_unit(stable_batch_way way, int fd)
{
    if (way == STABLE_BATCH_UNENCODED)
        return FILE_BATCH_PAGE;
    return way == STABLE_BATCH_DIRECT ? find_direct_unit(fd) : 1;
}

static int read_content(stable_batch_way way, int fd, const struct stat *before, struct pages *pages, size_t unit,
                        uint8_t *to)
{
    const size_t size_bytes = (size_t)before->st_size;
    ssize_t count;

    if (size_bytes == 0)
        return 0;
    if (way == STABLE_BATCH_DIRECT || way == STABLE_BATCH_UNENCODED)
        count = read_direct(way, fd, size_bytes, unit, to);
    else
        count = read_buffered(way, fd, before, pages, to);
    return count == (ssize_t)size_bytes ? 0 : -1;
}

static int read_open(const stable_batch_terms *terms, int fd, const char *path, uint64_t limit_bytes, uint8_t *to,
                     size_t room_bytes, file_batch_record *record)
{
    const size_t unit = find_unit(terms->way, fd);
    struct pages pages;
    struct stat before;

    if (unit == 0 || FILE_BATCH_PAGE % unit != 0)
        return FILE_BATCH_LEAVE;
    if (write_back(fd, &pages) != 0 || fstat(fd, &before) != 0 || !is_plain(&before, limit_bytes))
        return FILE_BATCH_LEAVE;
    if (file_batch_round_up((size_t)before.st_size, unit) > room_bytes)
        return FILE_BATCH_LATER;
    if (is_recent(terms, &before) && !has_no_writer(fd))
        return FILE_BATCH_LEAVE;
    if (read_content(terms->way, fd, &before, &pages, unit, to) != 0 || !is_still(terms, path, &before))
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
    const struct context *const shared = context;
    const stable_batch_terms *const terms = shared->terms;
    const int is_from_memory = terms->way == STABLE_BATCH_MEMORY;
    const uint64_t flags = terms->way == STABLE_BATCH_DIRECT ? O_RDONLY | O_DIRECT : O_RDONLY;
    int result;
    int fd;

    if (!is_from_memory && clock_read_ns() > shared->until_ns)
        return FILE_BATCH_LATER;
    fd = opening_open(terms->root_fd, path, flags, is_from_memory ? LINUX_RESOLVE_CACHED : 0);
    if (fd < 0)
        return FILE_BATCH_LEAVE;
    result = read_open(terms, fd, path, limit_bytes, to, room_bytes, record);
    close(fd);
    return result;
}

size_t stable_batch_read(const stable_batch_terms *terms, const file_batch_paths *paths, uint8_t *arena,
                         size_t arena_bytes, file_batch_record *records)
{
    const struct context context = {terms, clock_read_ns() + terms->most_ns};
    const int is_direct = terms->way == STABLE_BATCH_DIRECT || terms->way == STABLE_BATCH_UNENCODED;
    const size_t alignment = is_direct ? FILE_BATCH_PAGE : FILE_BATCH_CACHE_LINE;

    return file_batch_fill(read_one, &context, paths, terms->limit_bytes, alignment, arena, arena_bytes, records);
}
