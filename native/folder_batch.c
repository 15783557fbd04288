/*
 * List folders one after the other, with the fewest system calls that fulfil folder_batch.h.
 *
 * Same rules as the walk in Python (files/walk.py, files/open_beneath.py), which gives reasons and handles exceptions.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "folder_batch.h"

#include "clock.h"
#include "linux_calls.h"
#include "opening.h"
#include "path_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHORTEST_ENTRY_BYTES 24U /* of getdents64: 19 bytes, name, NUL byte, padded to a multiple of 8 */
#define LONGEST_ENTRY_BYTES 280U
#define ENTRY_BYTES 64U          /* average to reserve; names above 44 bytes need more */
#define LEAST_ENTRIES_BYTES 65536U
#define WORTH_SORTING 64U /* up to this many inodes lie close together on the disk */
#define COLUMN_OF_LINKS (FOLDER_BATCH_COLUMNS - 1)

struct item {
    const char *name; /* in the entries */
    size_t name_bytes;
    uint64_t kind;  /* 0: regular file */
    uint64_t inode; /* from the directory entry; lstat's inode is in ${values} */
    uint64_t values[FOLDER_BATCH_COLUMNS];
};

/* The folder being listed. All pointers point into the scratch memory. */
struct listing {
    struct item *items;
    char *entries;
    size_t entries_room;
    struct item **order;
    size_t count;
    size_t file_count;
    size_t file_text_bytes;
    size_t other_text_bytes;
};

static size_t entries_bytes(size_t names_room)
{
    const size_t bytes = names_room * ENTRY_BYTES;

    return bytes < LEAST_ENTRIES_BYTES ? LEAST_ENTRIES_BYTES : bytes;
}

size_t folder_batch_scratch_bytes(size_t names_room)
{
    return names_room * (sizeof(struct item) + sizeof(struct item *)) + entries_bytes(names_room);
}

/* The order keeps all parts aligned: items and entries hold 64-bit numbers, and their sizes are multiples of 8. */
static void lay_out(struct listing *listing, uint8_t *scratch, size_t names_room)
{
    listing->items = (struct item *)(void *)scratch;
    listing->entries = (char *)(listing->items + names_room);
    listing->entries_room = entries_bytes(names_room);
    listing->order = (struct item **)(void *)(listing->entries + listing->entries_room);
}

static int open_folder(int root_fd, const char *path, int stays_on_mount)
{
    const char *const name = *path == '\0' ? "." : path;

    return opening_open(root_fd, name, O_RDONLY | O_DIRECTORY, stays_on_mount ? LINUX_RESOLVE_NO_XDEV : 0);
}

/* Read entries. Return 1 at the end of the folder, 0 if the next entry may not fit, -1 for an error. */
static int read_entries(int fd, char *entries, size_t room, size_t *used)
{
    for (*used = 0; room - *used >= LONGEST_ENTRY_BYTES;) {
        const long bytes = linux_getdents64(fd, entries + *used, room - *used);

        if (bytes <= 0)
            return bytes == 0 ? 1 : -1;
        *used += (size_t)bytes;
    }
    return 0;
}

static uint64_t kind_of(unsigned char type)
{
    switch (type) {
    case DT_REG:
    case DT_UNKNOWN: /* lstat decides */
        return 0;
    case DT_DIR:
        return FOLDER_BATCH_FOLDER;
    case DT_LNK:
        return FOLDER_BATCH_SYMLINK;
    default:
        return FOLDER_BATCH_SPECIAL;
    }
}

static int is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Make an item of each entry except "." and "..". Return -1 if there are more than ${names_room}. */
static int find_items(struct listing *listing, size_t bytes, size_t names_room)
{
    size_t at = 0;

    listing->count = 0;
    while (at < bytes) {
        const struct dirent64 *const entry = (const struct dirent64 *)(const void *)(listing->entries + at);

        at += entry->d_reclen;
        if (is_dots(entry->d_name))
            continue;
        if (listing->count == names_room)
            return -1;
        listing->items[listing->count] =
            (struct item){entry->d_name, strlen(entry->d_name), kind_of(entry->d_type), entry->d_ino, {0}};
        listing->order[listing->count] = listing->items + listing->count;
        listing->count++;
    }
    return 0;
}

static int compare_inodes(const void *one, const void *other)
{
    const struct item *const *const a = one;
    const struct item *const *const b = other;

    return ((*a)->inode > (*b)->inode) - ((*a)->inode < (*b)->inode);
}

static int compare_names(const void *one, const void *other)
{
    const struct item *const *const a = one;
    const struct item *const *const b = other;

    return strcmp((*a)->name, (*b)->name); /* compares unsigned bytes */
}

/* glibc allocates temporary memory for more than 128 names, and sorts in place if that fails. */
static void sort(struct listing *listing, int (*compare)(const void *, const void *))
{
    qsort(listing->order, listing->count, sizeof *listing->order, compare);
}

static uint64_t kind_by_mode(mode_t mode)
{
    if (S_ISREG(mode))
        return 0;
    if (S_ISDIR(mode))
        return FOLDER_BATCH_FOLDER;
    return S_ISLNK(mode) ? FOLDER_BATCH_SYMLINK : FOLDER_BATCH_SPECIAL;
}

/* lstat an item that may be a regular file. Return -1 if that fails, or if its folder is to be left to the caller. */
static int look_at(int fd, struct item *item, const folder_batch_marked *marked, size_t marked_count)
{
    struct stat stat;
    size_t number;

    if (fstatat(fd, item->name, &stat, AT_SYMLINK_NOFOLLOW) != 0)
        return -1;
    item->kind = kind_by_mode(stat.st_mode);
    if (item->kind != 0)
        return 0;
    for (number = 0; number < marked_count; number++) {
        if (marked[number].inode == (uint64_t)stat.st_ino && marked[number].device == (uint64_t)stat.st_dev)
            return -1;
    }
    if (!clock_fits_ns(&stat.st_mtim) || !clock_fits_ns(&stat.st_ctim))
        return -1;
    item->values[0] = (uint64_t)stat.st_size;
    item->values[1] = (uint64_t)clock_to_ns(&stat.st_mtim);
    item->values[2] = (uint64_t)clock_to_ns(&stat.st_ctim);
    item->values[3] = (uint64_t)stat.st_ino;
    item->values[4] = (uint64_t)stat.st_nlink;
    return 0;
}

static int look_at_all(int fd, struct listing *listing, const folder_batch_marked *marked, size_t marked_count)
{
    size_t number;

    /* In inode order: the order of a hashed folder would make a hard disk seek for each file. */
    if (listing->count > WORTH_SORTING)
        sort(listing, compare_inodes);
    listing->file_count = listing->file_text_bytes = listing->other_text_bytes = 0;
    for (number = 0; number < listing->count; number++) {
        struct item *const item = listing->order[number];

        if (item->kind == 0 && look_at(fd, item, marked, marked_count) != 0)
            return -1;
        if (item->kind == 0) {
            listing->file_count++;
            listing->file_text_bytes += item->name_bytes + 1;
        } else {
            listing->other_text_bytes += item->name_bytes + 1;
        }
    }
    return 0;
}

static uint64_t list_open(int fd, const folder_batch_marked *marked, size_t marked_count, size_t names_room,
                          struct listing *listing)
{
    size_t bytes;
    const int end = read_entries(fd, listing->entries, listing->entries_room, &bytes);

    if (end < 0)
        return FOLDER_BATCH_NOT_MINE;
    if (end == 0 || find_items(listing, bytes, names_room) != 0)
        return FOLDER_BATCH_TOO_LARGE;
    if (look_at_all(fd, listing, marked, marked_count) != 0)
        return FOLDER_BATCH_NOT_MINE;
    sort(listing, compare_names);
    return FOLDER_BATCH_LISTED;
}

/* List one folder into ${listing}. Return its status. */
static uint64_t list_one(int root_fd, const char *path, int stays_on_mount, const folder_batch_marked *marked,
                         size_t marked_count, size_t names_room, struct listing *listing)
{
    const int fd = open_folder(root_fd, path, stays_on_mount);
    uint64_t status;

    if (fd < 0)
        return FOLDER_BATCH_NOT_MINE;
    status = list_open(fd, marked, marked_count, names_room, listing);
    close(fd);
    return status;
}

static int has_room(const folder_batch_result *result, const struct listing *listing)
{
    return listing->file_count <= result->names_room - result->file_count &&
           listing->count - listing->file_count <= result->names_room - result->other_count &&
           listing->file_text_bytes <= result->text_room - result->file_text_bytes &&
           listing->other_text_bytes <= result->text_room - result->other_text_bytes;
}

static void put_file(folder_batch_result *result, const struct item *item)
{
    size_t column;

    for (column = 0; column < FOLDER_BATCH_COLUMNS; column++)
        result->columns[column * result->names_room + result->file_count] = item->values[column];
    memcpy(result->file_names + result->file_text_bytes, item->name, item->name_bytes + 1);
    result->file_text_bytes += item->name_bytes + 1;
    result->file_count++;
}

static void put_other(folder_batch_result *result, const struct item *item)
{
    result->kinds[result->other_count] = (uint8_t)item->kind;
    memcpy(result->other_names + result->other_text_bytes, item->name, item->name_bytes + 1);
    result->other_text_bytes += item->name_bytes + 1;
    result->other_count++;
}

/* Digest the last ${count} files of ${result}, one folder, whose names are the last ${text_bytes} of the text. */
static void take_fingerprint(const folder_batch_result *result, size_t count, size_t text_bytes, uint8_t *fingerprint)
{
    const uint64_t *values = result->columns + (result->file_count - count);
    xxh3_state state;
    size_t column;

    xxh3_reset(&state);
    xxh3_update(&state, (const uint8_t *)result->file_names + (result->file_text_bytes - text_bytes), text_bytes);
    for (column = 0; column < COLUMN_OF_LINKS; column++, values += result->names_room)
        xxh3_update(&state, (const uint8_t *)values, count * sizeof *values);
    xxh3_digest(&state, fingerprint);
}

static void put_listing(folder_batch_result *result, const struct listing *listing, folder_batch_folder *folder)
{
    size_t number;

    for (number = 0; number < listing->count; number++) {
        if (listing->order[number]->kind == 0)
            put_file(result, listing->order[number]);
        else
            put_other(result, listing->order[number]);
    }
    folder->file_count = listing->file_count;
    folder->other_count = listing->count - listing->file_count;
    folder->file_text_bytes = listing->file_text_bytes;
    take_fingerprint(result, listing->file_count, listing->file_text_bytes, folder->fingerprint);
}

static void begin(folder_batch_result *result, struct listing *listing)
{
    lay_out(listing, result->scratch, result->names_room);
    result->file_count = result->other_count = result->file_text_bytes = result->other_text_bytes = 0;
}

size_t folder_batch_list(int root_fd, int stays_on_mount, const char *paths, size_t paths_bytes, size_t count,
                         const folder_batch_marked *marked, size_t marked_count, size_t enough,
                         folder_batch_result *result)
{
    const char *const end = paths + paths_bytes;
    const char *next = paths;
    struct listing listing;
    size_t done = 0;

    begin(result, &listing);
    while (done < count && (done == 0 || result->file_count < enough)) {
        const char *const path = path_list_take(&next, end);
        folder_batch_folder *const folder = result->folders + done;

        if (path == NULL)
            break;
        memset(folder, 0, sizeof *folder);
        folder->status = list_one(root_fd, path, stays_on_mount, marked, marked_count, result->names_room, &listing);
        if (folder->status == FOLDER_BATCH_LISTED) {
            if (has_room(result, &listing))
                put_listing(result, &listing, folder);
            else if (done != 0)
                break; /* it may fit into empty buffers */
            else
                folder->status = FOLDER_BATCH_TOO_LARGE;
        }
        done++;
    }
    return done;
}

void folder_batch_continue(int fd, size_t most_names, const folder_batch_marked *marked, size_t marked_count,
                           folder_batch_result *result)
{
    /* Entries of the shortest kind in so many bytes do not exceed the limit. */
    const size_t room =
        (most_names < result->names_room ? most_names : result->names_room) * SHORTEST_ENTRY_BYTES;
    folder_batch_folder *const folder = result->folders;
    struct listing listing;
    size_t bytes;

    begin(result, &listing);
    memset(folder, 0, sizeof *folder);
    folder->status = FOLDER_BATCH_NOT_MINE;
    if (room < LONGEST_ENTRY_BYTES || read_entries(fd, listing.entries, room, &bytes) < 0 ||
        find_items(&listing, bytes, result->names_room) != 0 ||
        look_at_all(fd, &listing, marked, marked_count) != 0 || !has_room(result, &listing))
        return;
    sort(&listing, compare_names);
    put_listing(result, &listing, folder);
    folder->status = bytes == 0 ? FOLDER_BATCH_ENDED : FOLDER_BATCH_LISTED;
}
