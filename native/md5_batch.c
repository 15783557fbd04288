/*
 * Schedule many messages over few lanes: when a message completes, the next one takes over its lane.
 *
 * A whole message is compressed in place, then its tail of one or two blocks with padding. For a stream, only full
 * blocks are compressed, and the remaining bytes are buffered in the stream. The lanes in use are always the first
 * ones, so narrower functions can finish the last messages. Independent of the CPU: the dispatcher supplies the number
 * of lanes.
 */
#include "md5_batch.h"

#include "md5_impl.h"

#include <string.h>

#define LENGTH_FIELD_BYTES 8
#define MOST_TAIL_BLOCKS 2

struct lane {
    md5_message message;
    uint8_t *digest;
    size_t rest_bytes; /* after the full blocks, to be buffered in the stream */
    int is_tail;
    uint8_t tail[MOST_TAIL_BLOCKS * MD5_BLOCK_BYTES];
};

/* The arrays of words and block addresses have the layout that compression functions take. */
struct md5_scheduler {
    size_t most; /* number of lanes */
    size_t in_use;
    uint32_t words[4][MD5_MOST_LANES];
    const uint8_t *next[MD5_MOST_LANES]; /* the next block */
    size_t blocks[MD5_MOST_LANES];       /* blocks left; never 0 in a lane in use */
    struct lane lane[MD5_MOST_LANES];
};

/* Free unless all lanes are in use. */
#define SPARE_LANE (MD5_MOST_LANES - 1)

/*
 * Write the partial block of ${message} and the padding (RFC 1321 sections 3.1 and 3.2). Return the number of blocks.
 */
static size_t write_tail(const md5_message *message, uint8_t tail[MOST_TAIL_BLOCKS * MD5_BLOCK_BYTES])
{
    const size_t rest = message->size_bytes % MD5_BLOCK_BYTES;
    const size_t blocks = rest + 1 + LENGTH_FIELD_BYTES <= MD5_BLOCK_BYTES ? 1 : 2;

    memset(tail, 0, blocks * MD5_BLOCK_BYTES);
    /* memcpy from NULL is undefined even for no bytes. */
    if (rest != 0)
        memcpy(tail, message->data + (message->size_bytes - rest), rest);
    tail[rest] = 0x80;
    store_u64(tail + blocks * MD5_BLOCK_BYTES - LENGTH_FIELD_BYTES, (uint64_t)message->size_bytes << 3);
    return blocks;
}

/*
 * Continue lane ${i} after its last block: start the tail, or complete the message. Return whether the lane is now
 * free.
 */
static int go_on(md5_scheduler *lanes, size_t i)
{
    struct lane *const lane = &lanes->lane[i];
    md5_context *const stream = lane->message.stream;

    if (stream == NULL && !lane->is_tail) {
        lane->is_tail = 1;
        lanes->blocks[i] = write_tail(&lane->message, lane->tail);
        lanes->next[i] = lane->tail;
        return 0;
    }
    if (stream != NULL) {
        for (size_t word = 0; word < 4; word++)
            stream->words[word] = lanes->words[word][i];
        md5_update(stream, lanes->next[i], lane->rest_bytes);
    } else {
        for (size_t word = 0; word < 4; word++)
            store_u32(lane->digest + 4 * word, lanes->words[word][i]);
    }
    if (lane->message.unfinished != NULL)
        (*lane->message.unfinished)--;
    return 1;
}

/* Start the message of lane ${i}. Return whether the lane is free again: a stream may get no full block. */
static int begin(md5_scheduler *lanes, size_t i)
{
    static const uint32_t initial[4] = {MD5_INITIAL_A, MD5_INITIAL_B, MD5_INITIAL_C, MD5_INITIAL_D};
    struct lane *const lane = &lanes->lane[i];
    const md5_message *const message = &lane->message;
    md5_context *const stream = message->stream;
    size_t missing = 0;

    if (stream != NULL) {
        /* Fill the partial block of the stream first. */
        missing = (size_t)((MD5_BLOCK_BYTES - stream->byte_count % MD5_BLOCK_BYTES) % MD5_BLOCK_BYTES);
        if (missing > message->size_bytes)
            missing = message->size_bytes;
        md5_update(stream, message->data, missing);
    }
    lane->rest_bytes = (message->size_bytes - missing) % MD5_BLOCK_BYTES;
    lane->is_tail = 0;
    lanes->next[i] = message->size_bytes != 0 ? message->data + missing : lane->tail;
    lanes->blocks[i] = (message->size_bytes - missing) / MD5_BLOCK_BYTES;
    for (size_t word = 0; word < 4; word++)
        lanes->words[word][i] = stream != NULL ? stream->words[word] : initial[word];
    if (stream != NULL)
        stream->byte_count += lanes->blocks[i] * MD5_BLOCK_BYTES;
    return lanes->blocks[i] == 0 && go_on(lanes, i);
}

/* Fill the free lane ${i}. Return whether it is still free because there are no more messages. */
static int fill(md5_scheduler *lanes, size_t i, md5_take *take, void *source)
{
    while (take(source, &lanes->lane[i].message, &lanes->lane[i].digest))
        if (!begin(lanes, i))
            return 0;
    return 1;
}

/* Return the next block of lane ${i} after its move to lane ${j}. A tail moves with its lane. */
static const uint8_t *moved(const md5_scheduler *lanes, size_t i, size_t j)
{
    const struct lane *const lane = &lanes->lane[i];

    return lane->is_tail ? lanes->lane[j].tail + (lanes->next[i] - lane->tail) : lanes->next[i];
}

/* Move lane ${from} to lane ${to}. */
static void move_lane(md5_scheduler *lanes, size_t from, size_t to)
{
    for (size_t word = 0; word < 4; word++)
        lanes->words[word][to] = lanes->words[word][from];
    lanes->next[to] = moved(lanes, from, to);
    lanes->blocks[to] = lanes->blocks[from];
    lanes->lane[to] = lanes->lane[from];
}

/*
 * Choose the number of lanes to work on. If some lanes are free, no more messages follow for now, and the longest
 * message may determine the time that remains. Move it to lane 0, so that it is always worked on.
 */
static size_t choose_lanes(md5_scheduler *lanes)
{
    size_t longest = 0;
    uint64_t total = 0;

    if (lanes->in_use == lanes->most)
        return lanes->most;
    for (size_t i = 0; i < lanes->in_use; i++) {
        total += lanes->blocks[i];
        if (lanes->blocks[i] > lanes->blocks[longest])
            longest = i;
    }
    if (longest != 0) {
        move_lane(lanes, 0, SPARE_LANE);
        move_lane(lanes, longest, 0);
        move_lane(lanes, SPARE_LANE, longest);
    }
    return md5_lanes(lanes->in_use, lanes->blocks[0], total);
}

/*
 * Compress ${count} lanes until one of those in use has no blocks left. Free lanes read the blocks of lane 0. Return
 * how many of the ${count} lanes are in use.
 */
static size_t step(md5_scheduler *lanes, size_t count)
{
    const size_t worked = count < lanes->in_use ? count : lanes->in_use;
    size_t blocks = lanes->blocks[0];

    for (size_t i = 1; i < worked; i++)
        if (lanes->blocks[i] < blocks)
            blocks = lanes->blocks[i];
    for (size_t i = worked; i < count; i++)
        lanes->next[i] = lanes->next[0];
    md5_compress_lanes(count, lanes->words, lanes->next, blocks);
    for (size_t i = 0; i < worked; i++) {
        lanes->next[i] += blocks * MD5_BLOCK_BYTES;
        lanes->blocks[i] -= blocks;
    }
    return worked;
}

/* Compress ${count} lanes until at least one has no blocks left. Continue those lanes or refill them. */
static void work(md5_scheduler *lanes, size_t count, md5_take *take, void *source)
{
    /* Last lane first: a lane that moves into a free place has been handled already. */
    for (size_t i = step(lanes, count); i-- > 0;)
        if (lanes->blocks[i] == 0 && go_on(lanes, i) && fill(lanes, i, take, source))
            move_lane(lanes, --lanes->in_use, i);
}

size_t md5_scheduler_bytes(void)
{
    return sizeof(md5_scheduler);
}

int md5_scheduler_init(md5_scheduler *scheduler)
{
    if (md5_select() != 0)
        return -1;
    scheduler->most = md5_most_lanes();
    scheduler->in_use = 0;
    memset(scheduler->words, 0, sizeof scheduler->words);
    return 0;
}

void md5_scheduler_submit(md5_scheduler *scheduler, md5_take *take, void *source)
{
    while (scheduler->in_use < scheduler->most && !fill(scheduler, scheduler->in_use, take, source))
        scheduler->in_use++;
    while (scheduler->in_use == scheduler->most)
        work(scheduler, scheduler->most, take, source);
}

static int take_nothing(void *source, md5_message *message, uint8_t **digest)
{
    (void)source;
    (void)message;
    (void)digest;
    return 0;
}

void md5_scheduler_step(md5_scheduler *scheduler)
{
    if (scheduler->in_use != 0)
        work(scheduler, choose_lanes(scheduler), take_nothing, NULL);
}

static int is_any_zero(const size_t *const *counters, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (*counters[i] == 0)
            return 1;
    return 0;
}

void md5_scheduler_wait(md5_scheduler *scheduler, const size_t *const *unfinished, size_t count)
{
    while (scheduler->in_use != 0 && !is_any_zero(unfinished, count))
        md5_scheduler_step(scheduler);
}

void md5_scheduler_flush(md5_scheduler *scheduler)
{
    while (scheduler->in_use != 0)
        md5_scheduler_step(scheduler);
}

int md5_batch_from(md5_take *take, void *source)
{
    md5_scheduler scheduler;

    if (md5_scheduler_init(&scheduler) != 0)
        return -1;
    md5_scheduler_submit(&scheduler, take, source);
    md5_scheduler_flush(&scheduler);
    return 0;
}

struct listed {
    const md5_message *next;
    const md5_message *end;
    uint8_t *digest;
};

static int take_listed(void *source, md5_message *message, uint8_t **digest)
{
    struct listed *const left = source;

    if (left->next == left->end)
        return 0;
    *message = *left->next++;
    *digest = left->digest;
    left->digest += MD5_DIGEST_BYTES;
    return 1;
}

int md5_batch(const md5_message *messages, size_t count, uint8_t *digests)
{
    struct listed left = {messages, messages + count, digests};

    return md5_batch_from(take_listed, &left);
}

struct joined {
    const uint8_t *next;
    const uint64_t *size_bytes;
    size_t left;
    uint8_t *digest;
};

static int take_joined(void *source, md5_message *message, uint8_t **digest)
{
    struct joined *const joined = source;

    if (joined->left == 0)
        return 0;
    message->stream = NULL;
    message->unfinished = NULL;
    message->data = joined->next;
    message->size_bytes = (size_t)*joined->size_bytes;
    *digest = joined->digest;
    joined->next += message->size_bytes;
    joined->size_bytes++;
    joined->left--;
    joined->digest += MD5_DIGEST_BYTES;
    return 1;
}

int md5_batch_joined(const uint8_t *data, const uint64_t *sizes_bytes, size_t count, uint8_t *digests)
{
    struct joined joined = {data, sizes_bytes, count, digests};

    return md5_batch_from(take_joined, &joined);
}
