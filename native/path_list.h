/*
 * Iterate over paths stored one after the other, each terminated by a NUL byte.
 */
#ifndef PATH_LIST_H
#define PATH_LIST_H

#include <stddef.h>
#include <string.h>

/*
 * Return the path at ${*next} and advance ${*next} to the following path. Return NULL if ${end} comes before the NUL
 * byte.
 */
static inline const char *path_list_take(const char **next, const char *end)
{
    const char *const path = *next;
    const char *const nul = memchr(path, 0, (size_t)(end - path));

    if (nul == NULL)
        return NULL;
    *next = nul + 1;
    return path;
}

#endif
