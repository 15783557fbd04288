/*
 * Stat, open, read and close, and nothing else: four system calls a file.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "load_batch.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Should it have become a FIFO since it was looked at: not to wait for a writer. */
#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/*
 * Read the file into ${to}, of which ${room_bytes} are left. Return 0 if it was read, 1 if it needs more room, -1 if it is
 * the caller's. It is looked at before it is opened, for others notice that a FIFO or a tape is opened.
 */
static int load(const char *path, uint64_t limit_bytes, uint8_t *to, size_t room_bytes, file_batch_record *record)
{
    struct stat status;
    ssize_t count;
    int fd;

    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size < 0)
        return -1;
    record->size_bytes = (uint64_t)status.st_size;
    if (record->size_bytes > limit_bytes)
        return -1;
    if (record->size_bytes >= room_bytes)
        return 1;
    fd = open(path, OPEN_FLAGS);
    if (fd < 0)
        return -1;
    /* One byte more than there should be: a regular file that gives less has ended. */
    count = read(fd, to, (size_t)record->size_bytes + 1);
    close(fd);
    return count >= 0 && (uint64_t)count == record->size_bytes ? 0 : -1;
}

size_t load_batch_read(const char *paths, size_t paths_bytes, size_t count, uint64_t limit_bytes, uint8_t *arena,
                       size_t arena_bytes, file_batch_record *records)
{
    const char *const end = paths + paths_bytes;
    const char *path = paths;
    size_t used = 0;
    size_t done = 0;

    while (done < count) {
        const char *const nul = memchr(path, 0, (size_t)(end - path));
        file_batch_record *const record = records + done;
        int result;

        if (nul == NULL)
            break;
        memset(record, 0, sizeof *record);
        result = load(path, limit_bytes, arena + used, arena_bytes - used, record);
        if (result > 0 && used != 0)
            break;
        record->status = result == 0 ? FILE_BATCH_READ : FILE_BATCH_NOT_MINE;
        record->offset = used;
        if (result == 0)
            used += (size_t)record->size_bytes;
        used += (FILE_BATCH_ALIGNMENT - used % FILE_BATCH_ALIGNMENT) % FILE_BATCH_ALIGNMENT;
        if (used > arena_bytes)
            used = arena_bytes;
        path = nul + 1;
        done++;
    }
    return done;
}
