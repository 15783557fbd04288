/*
 * Many messages through few lanes: as soon as one ends, the next one takes its lane.
 *
 * A message is its whole blocks, where they lie, and then one or two blocks of padding; what belongs to a stream is only
 * whole blocks, and what is left over waits in the stream. Knows no CPU: the dispatcher says how many lanes there are,
 * and the last message, when it is alone, goes through the compression function of one chain.
 */
#include "md5_batch.h"

#include "md5_impl.h"

#include <string.h>

#define MOST_LANES 2
#define LENGTH_FIELD_BYTES 8
#define MOST_TAIL_BLOCKS 2

struct lane {
    const md5_message *message; /* NULL: the lane is free */
    uint8_t *digest;
    const uint8_t *next; /* of the blocks that are being worked off ... */
    size_t blocks;       /* ... so many are left; never 0 while there is a message */
    size_t rest_bytes;   /* behind them, to wait in the stream */
    uint32_t words[4];
    int is_tail;
    uint8_t tail[MOST_TAIL_BLOCKS * MD5_BLOCK_BYTES];
};

/* Write what follows the whole blocks of ${message} (RFC 1321 sections 3.1 and 3.2); return how many blocks it is. */
static size_t write_tail(const md5_message *message, uint8_t tail[MOST_TAIL_BLOCKS * MD5_BLOCK_BYTES])
{
    const size_t rest = message->size_bytes % MD5_BLOCK_BYTES;
    const size_t blocks = rest + 1 + LENGTH_FIELD_BYTES <= MD5_BLOCK_BYTES ? 1 : 2;

    memset(tail, 0, blocks * MD5_BLOCK_BYTES);
    /* memcpy from NULL is undefined even for no bytes. */
    if (rest != 0)
        memcpy(tail, message->data + (message->size_bytes - rest), rest);
    tail[rest] = 0x80;
    md5_store_u64(tail + blocks * MD5_BLOCK_BYTES - LENGTH_FIELD_BYTES, (uint64_t)message->size_bytes << 3);
    return blocks;
}

/* Go on behind the blocks that were worked off: with the tail, or with what is left to do when all is over. */
static void go_on(struct lane *lane)
{
    const md5_message *const message = lane->message;

    if (message->stream == NULL && !lane->is_tail) {
        lane->is_tail = 1;
        lane->blocks = write_tail(message, lane->tail);
        lane->next = lane->tail;
        return;
    }
    if (message->stream != NULL) {
        memcpy(message->stream->words, lane->words, sizeof lane->words);
        md5_update(message->stream, lane->next, lane->rest_bytes);
    } else {
        for (size_t i = 0; i < 4; i++)
            md5_store_u32(lane->digest + 4 * i, lane->words[i]);
    }
    lane->message = NULL;
}

/* Take ${message} into a free lane; which is free again at once if there are no blocks to be worked off. */
static void begin(struct lane *lane, const md5_message *message, uint8_t *digest)
{
    static const uint32_t initial[4] = {MD5_INITIAL_A, MD5_INITIAL_B, MD5_INITIAL_C, MD5_INITIAL_D};
    md5_context *const stream = message->stream;
    size_t missing = 0;

    if (stream != NULL) {
        /* First the block that waits in the stream becomes full. */
        missing = (size_t)((MD5_BLOCK_BYTES - stream->byte_count % MD5_BLOCK_BYTES) % MD5_BLOCK_BYTES);
        if (missing > message->size_bytes)
            missing = message->size_bytes;
        md5_update(stream, message->data, missing);
    }
    lane->message = message;
    lane->digest = digest;
    lane->next = message->size_bytes != 0 ? message->data + missing : lane->tail;
    lane->blocks = (message->size_bytes - missing) / MD5_BLOCK_BYTES;
    lane->rest_bytes = (message->size_bytes - missing) % MD5_BLOCK_BYTES;
    lane->is_tail = 0;
    memcpy(lane->words, stream != NULL ? stream->words : initial, sizeof lane->words);
    if (stream != NULL)
        stream->byte_count += lane->blocks * MD5_BLOCK_BYTES;
    if (lane->blocks == 0)
        go_on(lane);
}

static void pass(struct lane *lane, size_t blocks)
{
    lane->next += blocks * MD5_BLOCK_BYTES;
    lane->blocks -= blocks;
    if (lane->blocks == 0)
        go_on(lane);
}

/* Work off the blocks that both lanes have, or those of the one that is not free. */
static void step(struct lane *one, struct lane *other)
{
    if (one->message != NULL && other->message != NULL) {
        const size_t blocks = one->blocks < other->blocks ? one->blocks : other->blocks;

        md5_compress_x2(one->words, one->next, other->words, other->next, blocks);
        pass(one, blocks);
        pass(other, blocks);
    } else {
        struct lane *const alone = one->message != NULL ? one : other;

        md5_compress(alone->words, alone->next, alone->blocks);
        pass(alone, alone->blocks);
    }
}

int md5_batch(const md5_message *messages, size_t count, uint8_t *digests)
{
    struct lane lanes[MOST_LANES] = {0};
    size_t lane_count, next = 0;

    if (md5_select() != 0)
        return -1;
    lane_count = md5_lanes();
    for (;;) {
        size_t busy = 0;

        for (size_t i = 0; i < lane_count; i++) {
            for (; lanes[i].message == NULL && next < count; next++)
                begin(&lanes[i], messages + next, digests + MD5_DIGEST_BYTES * next);
            busy += lanes[i].message != NULL;
        }
        if (busy == 0)
            return 0;
        step(&lanes[0], &lanes[1]);
    }
}
