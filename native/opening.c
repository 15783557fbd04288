#define _GNU_SOURCE

#include "opening.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Spelled out, because the headers of the machine that builds may be older than the kernel that runs. */
#define CALL_OPENAT2 437
#define RESOLVE_FLAGS (0x02U | 0x04U | 0x08U) /* NO_MAGICLINKS, NO_SYMLINKS, BENEATH */

#define ALWAYS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)

struct open_terms { /* struct open_how of openat2(2) */
    uint64_t flags;
    uint64_t mode;
    uint64_t resolve;
};

int opening_open(int folder_fd, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_terms terms = {flags | ALWAYS | O_NOATIME, 0, resolve | RESOLVE_FLAGS};
    int fd = (int)syscall(CALL_OPENAT2, folder_fd, path, &terms, sizeof terms);

    if (fd < 0 && errno == EPERM) { /* O_NOATIME is for the owner and root. */
        terms.flags = flags | ALWAYS;
        fd = (int)syscall(CALL_OPENAT2, folder_fd, path, &terms, sizeof terms);
    }
    return fd;
}
