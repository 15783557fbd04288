/*
 * Messages that are submitted at any moment: which end long after, in any order, and whose memory is used again.
 */
#include "md5_selftest.h"

#include "md5_batch.h"
#include "md5_reference.h"

#include <stdlib.h>
#include <string.h>

#define MOST_UNFINISHED 63 /* one less than the widest path has lanes */
#define SPLIT_COUNT 100
#define PERMUTED 5
#define ROUNDS 60
#define ARENAS 120
#define MOST_IN_ARENA 90

/* Messages in one block of memory, which is freed as soon as none of them is needed any longer. */
typedef struct {
    size_t count;
    size_t taken;
    size_t unfinished;
    size_t sizes_bytes[SPLIT_COUNT];
    uint8_t *bytes[SPLIT_COUNT];
    uint8_t digests[SPLIT_COUNT][MD5_DIGEST_BYTES];
    uint8_t expected[SPLIT_COUNT][MD5_DIGEST_BYTES];
} arena;

static arena *make_arena(void)
{
    arena *const made = (arena *)(void *)allocate(sizeof *made);

    made->count = made->taken = made->unfinished = 0;
    return made;
}

static void add_message(arena *to, size_t size_bytes, size_t seed)
{
    uint8_t *const bytes = make_message(size_bytes, seed);

    to->sizes_bytes[to->count] = size_bytes;
    to->bytes[to->count] = bytes;
    reference_digest(bytes, size_bytes, to->expected[to->count]);
    to->count++;
    to->unfinished++;
}

static int take_message(void *source, md5_message *message, uint8_t **digest)
{
    arena *const from = source;

    if (from->taken == from->count)
        return 0;
    message->stream = NULL;
    message->data = from->bytes[from->taken];
    message->size_bytes = from->sizes_bytes[from->taken];
    message->unfinished = &from->unfinished;
    *digest = from->digests[from->taken++];
    return 1;
}

/* Check what has ended, and let the memory go. */
static void finish_arena(arena *ended)
{
    REQUIRE(ended->unfinished == 0);
    for (size_t i = 0; i < ended->count; i++) {
        REQUIRE(memcmp(ended->digests[i], ended->expected[i], MD5_DIGEST_BYTES) == 0);
        free(ended->bytes[i]);
    }
    free(ended);
}

static md5_scheduler *make_scheduler(void)
{
    md5_scheduler *const scheduler = (md5_scheduler *)(void *)allocate(md5_scheduler_bytes());

    memset(scheduler, 0xee, md5_scheduler_bytes());
    REQUIRE(md5_scheduler_init(scheduler) == 0);
    return scheduler;
}

static void test_nothing_submitted(void)
{
    md5_scheduler *const scheduler = make_scheduler();
    arena *const none = make_arena();

    md5_scheduler_step(scheduler);
    md5_scheduler_flush(scheduler);
    md5_scheduler_submit(scheduler, take_message, none);
    md5_scheduler_flush(scheduler);
    finish_arena(none);
    free(scheduler);
}

/* A list cut in two at every place: the second part comes when just so many lanes are in use, and so far on. */
static void test_second_part_comes_at_every_moment(void)
{
    for (size_t cut = 0; cut <= SPLIT_COUNT; cut++) {
        md5_scheduler *const scheduler = make_scheduler();
        arena *parts[2] = {make_arena(), make_arena()};

        for (size_t i = 0; i < SPLIT_COUNT; i++)
            add_message(parts[i >= cut], i * 37 % 201, i);
        for (size_t i = 0; i < 2; i++) {
            md5_scheduler_submit(scheduler, take_message, parts[i]);
            REQUIRE(parts[i]->taken == parts[i]->count);
        }
        REQUIRE(parts[0]->unfinished + parts[1]->unfinished <= MOST_UNFINISHED);
        md5_scheduler_flush(scheduler);
        finish_arena(parts[0]);
        finish_arena(parts[1]);
        free(scheduler);
    }
}

static void test_one_message_at_a_time(void)
{
    md5_scheduler *const scheduler = make_scheduler();
    arena *all[SPLIT_COUNT];

    for (size_t i = 0; i < SPLIT_COUNT; i++) {
        all[i] = make_arena();
        add_message(all[i], i * 53 % 997, i);
        md5_scheduler_submit(scheduler, take_message, all[i]);
    }
    md5_scheduler_flush(scheduler);
    for (size_t i = 0; i < SPLIT_COUNT; i++)
        finish_arena(all[i]);
    free(scheduler);
}

/* Each order in which some messages can end, beside so many others that all lanes are in use, and without. */
static void require_order(const size_t lengths[PERMUTED], size_t others)
{
    md5_scheduler *const scheduler = make_scheduler();
    arena *const first = make_arena();
    arena *const second = make_arena();

    for (size_t i = 0; i < PERMUTED; i++)
        add_message(first, 64 * lengths[i] + i, i);
    for (size_t i = 0; i < others; i++)
        add_message(second, 100, i);
    md5_scheduler_submit(scheduler, take_message, first);
    md5_scheduler_submit(scheduler, take_message, second);
    md5_scheduler_flush(scheduler);
    finish_arena(first);
    finish_arena(second);
    free(scheduler);
}

static void permute(size_t lengths[PERMUTED], size_t chosen)
{
    if (chosen == PERMUTED) {
        require_order(lengths, 0);
        require_order(lengths, 61);
        return;
    }
    for (size_t i = chosen; i < PERMUTED; i++) {
        const size_t kept = lengths[chosen];

        lengths[chosen] = lengths[i];
        lengths[i] = kept;
        permute(lengths, chosen + 1);
        lengths[i] = lengths[chosen];
        lengths[chosen] = kept;
    }
}

static void test_ends_in_every_order(void)
{
    size_t lengths[PERMUTED] = {0, 1, 2, 3, 5};

    permute(lengths, 0);
}

static void wait_for_any(md5_scheduler *scheduler, arena *const *under_way, size_t count)
{
    const size_t *unfinished[ARENAS];
    size_t ended = 0;

    for (size_t i = 0; i < count; i++)
        unfinished[i] = &under_way[i]->unfinished;
    md5_scheduler_wait(scheduler, unfinished, count);
    for (size_t i = 0; i < count; i++)
        ended += under_way[i]->unfinished == 0;
    REQUIRE(ended != 0);
}

/* As a worker does it: arenas are freed, in any order, once the scheduler is through with them. */
static void test_memory_is_used_again(void)
{
    md5_scheduler *const scheduler = make_scheduler();
    arena *under_way[ARENAS];
    size_t count = 0;
    size_t ended_early = 0;
    uint32_t seed = 17;

    for (size_t round = 0; round < ARENAS; round++) {
        const size_t messages = next_random(&seed) % MOST_IN_ARENA;

        under_way[count] = make_arena();
        for (size_t i = 0; i < messages; i++)
            add_message(under_way[count], next_random(&seed) % (next_random(&seed) % 8 == 0 ? 9000 : 300), seed);
        md5_scheduler_submit(scheduler, take_message, under_way[count++]);
        if (next_random(&seed) % 50 == 0)
            md5_scheduler_flush(scheduler);
        while (next_random(&seed) % 2 == 0)
            md5_scheduler_step(scheduler);
        if (next_random(&seed) % 3 == 0)
            wait_for_any(scheduler, under_way, count);
        for (size_t i = count; i-- > 0;)
            if (under_way[i]->unfinished == 0) {
                finish_arena(under_way[i]);
                under_way[i] = under_way[--count];
                ended_early++;
            }
    }
    REQUIRE(ended_early > ARENAS / 2);
    md5_scheduler_flush(scheduler);
    while (count != 0)
        finish_arena(under_way[--count]);
    free(scheduler);
}

/* Streams that get a piece whenever the one before has ended, beside messages. */

typedef struct {
    md5_context context;
    uint8_t *bytes;
    size_t size_bytes;
    size_t given_bytes;
    size_t unfinished;
} stream;

static int take_piece(void *source, md5_message *message, uint8_t **digest)
{
    static uint8_t unused[MD5_DIGEST_BYTES];
    stream *const of = source;

    if (of->unfinished != 0 || of->given_bytes == of->size_bytes)
        return 0;
    message->stream = &of->context;
    message->data = of->bytes + of->given_bytes;
    message->size_bytes = of->size_bytes - of->given_bytes < 333 ? of->size_bytes - of->given_bytes : 333;
    message->unfinished = &of->unfinished;
    of->unfinished = 1;
    of->given_bytes += message->size_bytes;
    *digest = unused;
    return 1;
}

static void test_streams_piece_by_piece(void)
{
    md5_scheduler *const scheduler = make_scheduler();
    stream streams[ROUNDS];
    arena *const messages = make_arena();
    int is_over = 0;

    for (size_t i = 0; i < ROUNDS; i++) {
        streams[i] = (stream){.bytes = make_message(i * 71, i), .size_bytes = i * 71};
        REQUIRE(md5_init(&streams[i].context) == 0);
    }
    while (!is_over) {
        is_over = 1;
        for (size_t i = 0; i < ROUNDS; i++) {
            if (streams[i].unfinished == 0 && streams[i].given_bytes != streams[i].size_bytes)
                is_over = 0;
            md5_scheduler_submit(scheduler, take_piece, &streams[i]);
        }
        if (messages->count < SPLIT_COUNT) {
            add_message(messages, messages->count * 5, messages->count);
            md5_scheduler_submit(scheduler, take_message, messages);
        }
        if (is_over) {
            md5_scheduler_flush(scheduler);
            for (size_t i = 0; i < ROUNDS; i++)
                is_over = is_over && streams[i].given_bytes == streams[i].size_bytes;
        }
    }
    for (size_t i = 0; i < ROUNDS; i++) {
        uint8_t expected[MD5_DIGEST_BYTES];
        uint8_t actual[MD5_DIGEST_BYTES];

        reference_digest(streams[i].bytes, streams[i].size_bytes, expected);
        md5_final(&streams[i].context, actual);
        REQUIRE(memcmp(expected, actual, sizeof expected) == 0);
        free(streams[i].bytes);
    }
    finish_arena(messages);
    free(scheduler);
}

/* Other paths compute with each submission. */
static void test_mask_may_change_between_submissions(void)
{
    md5_scheduler *const scheduler = make_scheduler();
    arena *all[ROUNDS];
    uint32_t seed = 29;

    for (size_t i = 0; i < ROUNDS; i++) {
        all[i] = make_arena();
        for (size_t message = 0; message < 40; message++)
            add_message(all[i], next_random(&seed) % 500, seed);
        md5_set_feature_mask(next_random(&seed) & MD5_FEATURES_ALL);
        md5_scheduler_submit(scheduler, take_message, all[i]);
    }
    md5_scheduler_flush(scheduler);
    md5_set_feature_mask(current_mask);
    for (size_t i = 0; i < ROUNDS; i++)
        finish_arena(all[i]);
    free(scheduler);
}

const test_case scheduler_tests[] = {
    {"nothing submitted", test_nothing_submitted},
    {"second part comes at every moment", test_second_part_comes_at_every_moment},
    {"one message at a time", test_one_message_at_a_time},
    {"ends in every order", test_ends_in_every_order},
    {"memory is used again", test_memory_is_used_again},
    {"streams piece by piece", test_streams_piece_by_piece},
    {"mask may change between submissions", test_mask_may_change_between_submissions},
    {NULL, NULL},
};
