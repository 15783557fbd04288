/*
 * Fill the arena with file contents, each aligned to a cache line or a page, and digest them.
 */
#include "file_batch.h"

#include "bytes.h"
#include "path_list.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ORDERED 512U /* files that are sorted at a time */

size_t file_batch_fill(file_batch_reader read_one, const void *context, const file_batch_paths *paths,
                       uint64_t limit_bytes, size_t alignment, uint8_t *arena, size_t arena_bytes,
                       file_batch_record *records)
{
    const char *const end = paths->text + paths->text_bytes;
    const char *next = paths->text;
    size_t used = 0;
    size_t done = 0;

    while (done < paths->count) {
        const char *const path = path_list_take(&next, end);
        file_batch_record *const record = records + done;
        int outcome;

        if (path == NULL)
            break;
        memset(record, 0, sizeof *record);
        outcome = read_one(context, path, limit_bytes, arena + used, arena_bytes - used, record);
        if (outcome == FILE_BATCH_LATER && used != 0)
            break;
        record->status = outcome == FILE_BATCH_TAKEN ? FILE_BATCH_READ : FILE_BATCH_NOT_MINE;
        record->offset = used;
        if (outcome == FILE_BATCH_TAKEN)
            used = file_batch_round_up(used + (size_t)record->size_bytes, alignment);
        if (used > arena_bytes)
            used = arena_bytes;
        done++;
    }
    return done;
}

/* Order by size, longest first, then by record. */
static int compare_sizes(const void *one, const void *other)
{
    const file_batch_record *const a = *(file_batch_record *const *)one;
    const file_batch_record *const b = *(file_batch_record *const *)other;

    if (a->size_bytes != b->size_bytes)
        return a->size_bytes < b->size_bytes ? 1 : -1;
    return (a > b) - (a < b);
}

/*
 * Write the files that were read to ${order}, longest first: a long file that starts last would run alone in its lane.
 * Return their number.
 */
static size_t put_in_order(file_batch_record *records, size_t count, file_batch_record *order[MOST_ORDERED])
{
    size_t ordered = 0;

    for (size_t i = 0; i < count; i++)
        if (records[i].status == FILE_BATCH_READ)
            order[ordered++] = records + i;
    qsort(order, ordered, sizeof *order, compare_sizes);
    return ordered;
}

struct files {
    const uint8_t *arena;
    file_batch_record *const *next;
    file_batch_record *const *end;
    size_t *unfinished;
};

static int take_file(void *source, md5_message *message, uint8_t **digest)
{
    struct files *const files = source;
    file_batch_record *record;

    if (files->next == files->end)
        return 0;
    record = *files->next++;
    message->stream = NULL;
    message->unfinished = files->unfinished;
    message->data = files->arena + record->offset;
    message->size_bytes = (size_t)record->size_bytes;
    *digest = record->md5;
    return 1;
}

static void submit_md5(md5_scheduler *scheduler, const uint8_t *arena, file_batch_record *records, size_t count,
                       size_t *unfinished)
{
    file_batch_record *order[MOST_ORDERED];

    while (count != 0) {
        const size_t part = count < MOST_ORDERED ? count : MOST_ORDERED;
        const size_t read = put_in_order(records, part, order);
        struct files files = {arena, order, order + read, unfinished};

        *unfinished += read;
        md5_scheduler_submit(scheduler, take_file, &files);
        records += part;
        count -= part;
    }
}

void file_batch_digest(md5_scheduler *scheduler, unsigned wanted, const uint8_t *arena, file_batch_record *records,
                       size_t count, size_t *unfinished)
{
    for (file_batch_record *record = records; record != records + count; record++) {
        const uint8_t *const content = arena + record->offset;
        const size_t size_bytes = (size_t)record->size_bytes;

        if (record->status != FILE_BATCH_READ)
            continue;
        if ((wanted & FILE_BATCH_XXH3_128) != 0)
            xxh3_128(content, size_bytes, record->xxh3_128);
        if ((wanted & FILE_BATCH_CRC64NVME) != 0)
            store_u64_be(record->crc64nvme, crc64_update(0, content, size_bytes));
    }
    if ((wanted & FILE_BATCH_MD5) != 0)
        submit_md5(scheduler, arena, records, count, unfinished);
}
