#define _GNU_SOURCE

#include "opening.h"

#include "linux_calls.h"

#include <errno.h>
#include <fcntl.h>

#define ALWAYS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
#define ALWAYS_RESOLVE (LINUX_RESOLVE_NO_MAGICLINKS | LINUX_RESOLVE_NO_SYMLINKS | LINUX_RESOLVE_BENEATH)

int opening_open(int folder_fd, const char *path, uint64_t flags, uint64_t resolve)
{
    struct linux_open_how how = {flags | ALWAYS | O_NOATIME, 0, resolve | ALWAYS_RESOLVE};
    int fd = linux_openat2(folder_fd, path, &how);

    if (fd < 0 && errno == EPERM) { /* O_NOATIME is for the owner and root. */
        how.flags = flags | ALWAYS;
        fd = linux_openat2(folder_fd, path, &how);
    }
    return fd;
}
