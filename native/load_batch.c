/*
 * Four system calls per file, one of them with its path: open, fstat, read, close.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "load_batch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK: do not wait for the writer of a FIFO. */
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

static int load_open(int fd, uint64_t limit_bytes, uint8_t *to, size_t room_bytes, file_batch_record *record)
{
    struct stat status;
    ssize_t count;

    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 0)
        return FILE_BATCH_LEAVE;
    record->size_bytes = (uint64_t)status.st_size;
    if (record->size_bytes > limit_bytes)
        return FILE_BATCH_LEAVE;
    if (record->size_bytes >= room_bytes)
        return FILE_BATCH_LATER;
    /* Ask for one byte more than the size: a regular file that returns less has ended. */
    count = read(fd, to, (size_t)record->size_bytes + 1);
    return count >= 0 && (uint64_t)count == record->size_bytes ? FILE_BATCH_TAKEN : FILE_BATCH_LEAVE;
}

static int load(const void *context, const char *path, uint64_t limit_bytes, uint8_t *to, size_t room_bytes,
                file_batch_record *record)
{
    const int fd = open(path, OPEN_FLAGS);
    int result;

    (void)context;
    if (fd < 0)
        return FILE_BATCH_LEAVE;
    result = load_open(fd, limit_bytes, to, room_bytes, record);
    close(fd);
    return result;
}

size_t load_batch_read(const file_batch_paths *paths, uint64_t limit_bytes, uint8_t *arena, size_t arena_bytes,
                       file_batch_record *records)
{
    return file_batch_fill(load, NULL, paths, limit_bytes, FILE_BATCH_CACHE_LINE, arena, arena_bytes, records);
}
