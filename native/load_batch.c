/*
 * Four system calls per file: stat, open, read, close.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "load_batch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* O_NONBLOCK: do not wait for a writer if a FIFO has replaced the file since stat. */
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Stat before opening: opening a FIFO or a tape has side effects for other processes. */
static int load(const void *context, const char *path, uint64_t limit_bytes, uint8_t *to, size_t room_bytes,
                file_batch_record *record)
{
    struct stat status;
    ssize_t count;
    int fd;

    (void)context;
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 0)
        return FILE_BATCH_LEAVE;
    record->size_bytes = (uint64_t)status.st_size;
    if (record->size_bytes > limit_bytes)
        return FILE_BATCH_LEAVE;
    if (record->size_bytes >= room_bytes)
        return FILE_BATCH_LATER;
    fd = open(path, OPEN_FLAGS);
    if (fd < 0)
        return FILE_BATCH_LEAVE;
    /* Ask for one byte more than the size: a regular file that returns less has ended. */
    count = read(fd, to, (size_t)record->size_bytes + 1);
    close(fd);
    return count >= 0 && (uint64_t)count == record->size_bytes ? FILE_BATCH_TAKEN : FILE_BATCH_LEAVE;
}

size_t load_batch_read(const file_batch_paths *paths, uint64_t limit_bytes, uint8_t *arena, size_t arena_bytes,
                       file_batch_record *records)
{
    return file_batch_fill(load, NULL, paths, limit_bytes, FILE_BATCH_CACHE_LINE, arena, arena_bytes, records);
}
