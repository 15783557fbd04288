#define _GNU_SOURCE

#include "opening.h"

#include "linux_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define ALWAYS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
#define ALWAYS_RESOLVE (LINUX_RESOLVE_NO_MAGICLINKS | LINUX_RESOLVE_NO_SYMLINKS | LINUX_RESOLVE_BENEATH)

/* RESOLVE_BENEATH alone permits ".." components that stay beneath the folder. */
static int has_dot_dot(const char *path)
{
    for (const char *at = strstr(path, ".."); at != NULL; at = strstr(at + 1, ".."))
        if ((at == path || at[-1] == '/') && (at[2] == '\0' || at[2] == '/'))
            return 1;
    return 0;
}

int opening_open(int folder_fd, const char *path, uint64_t flags, uint64_t resolve)
{
    struct linux_open_how how = {flags | ALWAYS | O_NOATIME, 0, resolve | ALWAYS_RESOLVE};
    int fd;

    if (has_dot_dot(path)) {
        errno = EXDEV;
        return -1;
    }
    fd = linux_openat2(folder_fd, path, &how);

    if (fd < 0 && errno == EPERM) { /* Only the owner and root may use O_NOATIME. */
        how.flags = flags | ALWAYS;
        fd = linux_openat2(folder_fd, path, &how);
    }
    return fd;
}
