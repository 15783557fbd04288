/*
 * In each round, account for the pieces that are digested, read the next piece of each such file, and submit it.
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64

#include "large_batch.h"

#include "bytes.h"
#include "clock.h"
#include "crc64.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define WHOLE 1U
#define BLOCK 2U

/* Reset the digests of the current block. */
static void open_block(large_batch_file *file)
{
    (void)md5_init(&file->block_md5); /* large_batch_begin has checked that it succeeds */
    xxh3_reset(&file->block_xxh3);
    file->block_crc64 = 0;
}

int large_batch_begin(large_batch_file *file)
{
    if (md5_init(&file->block_md5) != 0)
        return -1;
    if (file->position == 0)
        (void)md5_init(&file->whole_md5);
    xxh3_reset(&file->whole_xxh3);
    open_block(file);
    file->blocks_done = 0;
    file->error = 0;
    file->halts = 0;
    file->piece_bytes = 0;
    file->unfinished = 0;
    file->unsubmitted = 0;
    file->status = LARGE_BATCH_ACTIVE;
    return 0;
}

/* Write the digests of the block that ends at ${position}, and open the next one. */
static void close_block(large_batch_file *file)
{
    const size_t at = file->blocks_done++;

    if ((file->wanted_of_blocks & FILE_BATCH_MD5) != 0)
        md5_final(&file->block_md5, file->block_md5s + at * MD5_DIGEST_BYTES);
    if ((file->wanted_of_blocks & FILE_BATCH_XXH3_128) != 0)
        xxh3_digest(&file->block_xxh3, file->block_xxh3s + at * XXH3_128_BYTES);
    if ((file->wanted_of_blocks & FILE_BATCH_CRC64NVME) != 0)
        store_u64_be(file->block_crc64s + at * CRC64_BYTES, file->block_crc64);
    open_block(file);
}

static void end(large_batch_file *file)
{
    if (file->position % file->block_bytes != 0)
        close_block(file);
    md5_final(&file->whole_md5, file->md5);
    xxh3_digest(&file->whole_xxh3, file->xxh3_128);
    file->status = LARGE_BATCH_ENDED;
}

/* Account for the current piece, whose MD5s are complete. */
static void settle(large_batch_file *file)
{
    file->position += file->piece_bytes;
    if (file->piece_bytes != 0 && file->position % file->block_bytes == 0)
        close_block(file);
    file->piece_bytes = 0;
    if (file->position == file->end_bytes)
        end(file);
    else if (file->position % file->block_bytes == 0 && (file->halts != 0 || file->blocks_done == file->blocks_room))
        file->status = LARGE_BATCH_HALTED;
}

static size_t find_piece_bytes(const large_batch_file *file, size_t most_bytes)
{
    const uint64_t to_border = file->block_bytes - file->position % file->block_bytes;
    const uint64_t to_end = file->end_bytes - file->position;
    const uint64_t bytes = to_border < to_end ? to_border : to_end;

    return bytes < most_bytes ? (size_t)bytes : most_bytes;
}

/* Read the next piece. Compute its digests except MD5, and mark its MD5s to be submitted. */
static void read_piece(large_batch_file *file, uint8_t *piece, size_t most_bytes)
{
    const size_t wanted_bytes = find_piece_bytes(file, most_bytes);
    ssize_t count;

    do
        count = pread(file->fd, piece, wanted_bytes, (off_t)file->position);
    while (count < 0 && errno == EINTR);
    if (count <= 0) {
        file->error = count < 0 ? errno : 0;
        if (count < 0)
            file->status = LARGE_BATCH_FAILED;
        else
            end(file);
        return;
    }
    file->piece_bytes = (size_t)count;
    if ((file->wanted & FILE_BATCH_XXH3_128) != 0)
        xxh3_update(&file->whole_xxh3, piece, file->piece_bytes);
    if ((file->wanted_of_blocks & FILE_BATCH_XXH3_128) != 0)
        xxh3_update(&file->block_xxh3, piece, file->piece_bytes);
    if ((file->wanted_of_blocks & FILE_BATCH_CRC64NVME) != 0)
        file->block_crc64 = crc64_update(file->block_crc64, piece, file->piece_bytes);
    file->unsubmitted = ((file->wanted & FILE_BATCH_MD5) != 0 ? WHOLE : 0U) |
                        ((file->wanted_of_blocks & FILE_BATCH_MD5) != 0 ? BLOCK : 0U);
}

struct pieces {
    large_batch_file *next, *end;
    const uint8_t *piece;
    size_t stride_bytes;
};

static int take_piece(void *source, md5_message *message, uint8_t **digest)
{
    struct pieces *const pieces = source;
    large_batch_file *file;

    while (pieces->next != pieces->end && pieces->next->unsubmitted == 0) {
        pieces->next++;
        pieces->piece += pieces->stride_bytes;
    }
    if (pieces->next == pieces->end)
        return 0;
    file = pieces->next;
    message->stream = (file->unsubmitted & WHOLE) != 0 ? &file->whole_md5 : &file->block_md5;
    message->data = pieces->piece;
    message->size_bytes = file->piece_bytes;
    message->unfinished = &file->unfinished;
    file->unsubmitted &= (file->unsubmitted & WHOLE) != 0 ? BLOCK : 0U;
    file->unfinished++;
    *digest = NULL;
    return 1;
}

/* Read the next piece of each file whose MD5s are complete. Return the number of files that ceased to be ACTIVE. */
static size_t go_round(large_batch_file *files, size_t count, uint8_t *pieces, size_t piece_bytes, size_t stride_bytes)
{
    size_t over = 0;

    for (large_batch_file *file = files; file != files + count; file++, pieces += stride_bytes) {
        if (file->status != LARGE_BATCH_ACTIVE || file->unfinished != 0)
            continue;
        settle(file);
        if (file->status == LARGE_BATCH_ACTIVE)
            read_piece(file, pieces, piece_bytes);
        over += file->status != LARGE_BATCH_ACTIVE;
    }
    return over;
}

static int is_any_active(const large_batch_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (files[i].status == LARGE_BATCH_ACTIVE)
            return 1;
    return 0;
}

size_t large_batch_run(md5_scheduler *scheduler, large_batch_file *files, size_t count, uint8_t *pieces,
                       size_t piece_bytes, size_t stride_bytes, int64_t most_ns)
{
    const int64_t until_ns = clock_read_ns() + most_ns;
    size_t over = 0;

    while (over == 0 && is_any_active(files, count)) {
        struct pieces read = {files, files + count, pieces, stride_bytes};

        over = go_round(files, count, pieces, piece_bytes, stride_bytes);
        md5_scheduler_submit(scheduler, take_piece, &read);
        md5_scheduler_step(scheduler);
        if (clock_read_ns() > until_ns)
            break;
    }
    return over;
}
