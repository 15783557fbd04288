#define _GNU_SOURCE

#include "position_batch.h"

#include "opening.h"
#include "path_list.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NOWHERE (FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_DATA_INLINE)

/* The result of FIEMAP, with room for one extent. */
union answer {
    struct fiemap head;
    uint8_t room[sizeof(struct fiemap) + sizeof(struct fiemap_extent)];
};

static uint64_t find_position(int fd)
{
    union answer answer;
    const struct fiemap_extent *const first = answer.head.fm_extents;

    memset(&answer, 0, sizeof answer);
    answer.head.fm_length = FIEMAP_MAX_OFFSET;
    answer.head.fm_extent_count = 1;
    if (ioctl(fd, FS_IOC_FIEMAP, &answer.head) != 0 || answer.head.fm_mapped_extents == 0)
        return 0;
    return (first->fe_flags & NOWHERE) != 0 ? 0 : first->fe_physical;
}

void position_batch_find(int root_fd, const file_batch_paths *paths, uint64_t *positions)
{
    const char *const end = paths->text + paths->text_bytes;
    const char *next = paths->text;

    for (size_t i = 0; i < paths->count; i++) {
        const char *const path = path_list_take(&next, end);
        int fd;

        if (path == NULL)
            break;
        fd = opening_open(root_fd, path, O_RDONLY, 0);
        if (fd >= 0) {
            positions[i] = find_position(fd);
            close(fd);
        }
    }
}
