/*
 * List many folders in one call: the names in them, and what lstat says of their regular files.
 *
 * Decides nothing about folders: one about which anything is out of the ordinary is left to the caller, who lists it by
 * itself and finds out what it is. So there are no errors here, only folders that were listed, to their end and with
 * every file looked at, and folders that were not.
 *
 * Nothing here prints, aborts or keeps state; every buffer is the caller's, except what qsort(3) takes for a moment. Linux
 * only.
 */
#ifndef FOLDER_BATCH_H
#define FOLDER_BATCH_H

#include "xxh3.h"

#include <stddef.h>
#include <stdint.h>

/* The statuses of a folder. */
#define FOLDER_BATCH_LISTED 0U
#define FOLDER_BATCH_NOT_MINE 1U  /* the caller's to list; the counts are 0 */
#define FOLDER_BATCH_TOO_LARGE 2U /* the same, but only for its size: folder_batch_continue takes it in parts */
#define FOLDER_BATCH_ENDED 3U     /* of folder_batch_continue: there was nothing left */

/* What a name that is no regular file stands for. */
#define FOLDER_BATCH_FOLDER 1U
#define FOLDER_BATCH_SYMLINK 2U
#define FOLDER_BATCH_SPECIAL 3U /* FIFO, socket, device */

/* The columns of a file: size_bytes, mtime_ns, ctime_ns (int64_t), inode, links (uint64_t). */
#define FOLDER_BATCH_COLUMNS 5U

/* One folder, in native byte order and without padding: 48 bytes. */
typedef struct {
    uint64_t status;
    uint64_t file_count;
    uint64_t other_count;
    uint64_t file_text_bytes; /* of its files' names, with their NUL bytes */
    uint8_t fingerprint[XXH3_128_BYTES]; /* of its files: of their names as below, and of their columns but for the links */
} folder_batch_folder;

/* A file that the caller wants no folder with: one that holds it is left to the caller. */
typedef struct {
    uint64_t device;
    uint64_t inode;
} folder_batch_marked;

/*
 * Where the results go. The files of all folders that were listed stand one after the other, those of a folder in the
 * order of their names' bytes, and so do the others. Names are closed by a NUL byte each.
 */
typedef struct {
    size_t names_room;            /* for so many files and so many others there is room; at least 1 */
    folder_batch_folder *folders; /* one for each path */
    uint64_t *columns;            /* names_room values of the first column, then of the second, ... */
    uint8_t *kinds;               /* names_room bytes: of the others */
    char *file_names;             /* text_room bytes */
    char *other_names;            /* text_room bytes */
    size_t text_room;
    uint8_t *scratch; /* aligned as uint64_t; folder_batch_scratch_bytes(names_room) */
    size_t file_count, other_count, file_text_bytes, other_text_bytes; /* set: how much of it was used */
} folder_batch_result;

/* Return how much scratch memory folders of at most ${names_room} names need. */
size_t folder_batch_scratch_bytes(size_t names_room);

/*
 * List folders beneath ${root_fd}, whose paths stand in ${paths} one after the other, ${count} of them, each closed by a
 * NUL byte; all of them within ${paths_bytes}. An empty path is the root itself.
 *
 * A folder is listed if: it opens beneath the root without a symbolic link on the way and, if ${stays_on_mount}, without
 * leaving the root's mount; it has no more names than there is room for in all; it can be read to its end; lstat works
 * for each regular file in it, and none of them is among the ${marked_count} of ${marked}. The atime does not move, as
 * far as the system lets us.
 *
 * Return how many folders have a result now, from the first on. It is less than ${count} if the next one does not fit
 * into what is left of the room, or if ${enough} files have been found: call again with the others. The first always
 * gets a result.
 */
size_t folder_batch_list(int root_fd, int stays_on_mount, const char *paths, size_t paths_bytes, size_t count,
                         const folder_batch_marked *marked, size_t marked_count, size_t enough,
                         folder_batch_result *result);

/*
 * List the next names of an open folder, from its position on: at most ${most_names}, or as many as there is room for.
 * The first of the folders gets the result. If that is FOLDER_BATCH_NOT_MINE, because anything is out of the ordinary or
 * ${most_names} too small a number, the position may be anywhere: the caller has to know where it was.
 */
void folder_batch_continue(int fd, size_t most_names, const folder_batch_marked *marked, size_t marked_count,
                           folder_batch_result *result);

#endif
