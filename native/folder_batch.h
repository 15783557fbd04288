/*
 * List many folders in one call: their names, and lstat of their regular files.
 *
 * Leaves every unusual folder to the caller, who lists it separately and classifies it. Therefore no call reports an
 * error: a folder is either listed completely, with lstat of every regular file, or not listed.
 *
 * Never prints, aborts or keeps state. All buffers belong to the caller, except temporary memory of qsort(3). Linux
 * only.
 */
#ifndef FOLDER_BATCH_H
#define FOLDER_BATCH_H

#include "xxh3.h"

#include <stddef.h>
#include <stdint.h>

/* The statuses of a folder. */
#define FOLDER_BATCH_LISTED 0U
#define FOLDER_BATCH_NOT_MINE 1U  /* left to the caller; the counts are 0 */
#define FOLDER_BATCH_TOO_LARGE 2U /* the same, because of its size; folder_batch_continue lists it in parts */
#define FOLDER_BATCH_ENDED 3U     /* from folder_batch_continue: no names were left */

/* The kinds of names other than regular files. */
#define FOLDER_BATCH_FOLDER 1U
#define FOLDER_BATCH_SYMLINK 2U
#define FOLDER_BATCH_SPECIAL 3U /* FIFO, socket, device */

/* The columns of a file: size_bytes, mtime_ns, ctime_ns (int64_t), inode, links (uint64_t). */
#define FOLDER_BATCH_COLUMNS 5U

/* One folder. Native byte order, no padding, 48 bytes. */
typedef struct {
    uint64_t status;
    uint64_t file_count;
    uint64_t other_count;
    uint64_t file_text_bytes; /* of the names of its files, NUL bytes included */
    uint8_t fingerprint[XXH3_128_BYTES]; /* XXH3-128 of its file names, NUL bytes included, and all columns but links */
} folder_batch_folder;

/* A marked file: a folder that contains it is left to the caller. */
typedef struct {
    uint64_t device;
    uint64_t inode;
} folder_batch_marked;

/*
 * The result buffers. Files of all listed folders follow each other in folder order, within a folder sorted by name as
 * unsigned bytes. Other names likewise, in buffers of their own. Each name is terminated by a NUL byte.
 */
typedef struct {
    size_t names_room;            /* capacity for files, and for other names; at least 1 */
    folder_batch_folder *folders; /* one per path */
    uint64_t *columns;            /* names_room values of the first column, then the second, ... */
    uint8_t *kinds;               /* names_room bytes, one per other name */
    char *file_names;             /* text_room bytes */
    char *other_names;            /* text_room bytes */
    size_t text_room;
    uint8_t *scratch; /* aligned as uint64_t; folder_batch_scratch_bytes(names_room) */
    size_t file_count, other_count, file_text_bytes, other_text_bytes; /* out: how much is used */
} folder_batch_result;

/* Return the bytes of scratch memory for folders of at most ${names_room} names. */
size_t folder_batch_scratch_bytes(size_t names_room);

/*
 * List ${count} folders beneath ${root_fd}. ${paths} holds their paths, each terminated by a NUL byte, ${paths_bytes}
 * in all. An empty path is the root.
 *
 * A folder is listed if:
 * - its path resolves beneath the root without symbolic links and, if ${stays_on_mount}, within the root's mount;
 * - it has at most ${names_room} names, and they fit into the text buffers;
 * - it can be read to its end;
 * - lstat succeeds for each regular file in it, and none is among the ${marked_count} files in ${marked}.
 * The atime is preserved if the system permits O_NOATIME.
 *
 * Return the number of folders with a result, counted from the first. It is less than ${count} if the next folder does
 * not fit into the remaining room, or if at least ${enough} files were found; call again with the remaining folders.
 * The first folder always gets a result.
 */
size_t folder_batch_list(int root_fd, int stays_on_mount, const char *paths, size_t paths_bytes, size_t count,
                         const folder_batch_marked *marked, size_t marked_count, size_t enough,
                         folder_batch_result *result);

/*
 * List the next names of an open folder from its current position: at most ${most_names}, or as many as fit. Write the
 * result to the first entry of ${folders}. If it is FOLDER_BATCH_NOT_MINE (the folder is unusual, or ${most_names} is
 * below 12), the position is undefined: the caller restores it.
 */
void folder_batch_continue(int fd, size_t most_names, const folder_batch_marked *marked, size_t marked_count,
                           folder_batch_result *result);

#endif
