/*
 * Many messages at once: every length, every count around the numbers of lanes, unequal lengths, streams beside messages.
 */
#include "md5_selftest.h"

#include "md5_batch.h"
#include "md5_reference.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_COUNT 400
#define HUGE_BYTES 100013
#define MOST_COUNT 130
#define MIXED_ROUNDS 40

/* Messages and what their digests are; made once. Their first 301 have the lengths 0 to 300. */
typedef struct {
    uint8_t *bytes;
    size_t size_bytes;
    uint8_t digest[MD5_DIGEST_BYTES];
} sample;

/* Odd lengths around block, padding and page borders, for those behind the first 301. */
static const size_t border_bytes[] = {319, 320, 321, 375, 376, 383, 384, 385, 511, 512, 513, 1023, 1024, 1025, 1100, 4097};

static sample huge;

static void make_sample(sample *made, size_t size_bytes, size_t seed)
{
    made->bytes = make_message(size_bytes, seed);
    made->size_bytes = size_bytes;
    reference_digest(made->bytes, size_bytes, made->digest);
}

static const sample *get_samples(void)
{
    static sample samples[SAMPLE_COUNT];

    if (samples[1].bytes == NULL) {
        for (size_t i = 0; i < SAMPLE_COUNT; i++)
            make_sample(&samples[i], i <= 300 ? i : border_bytes[i % (sizeof border_bytes / sizeof *border_bytes)], i);
        make_sample(&huge, HUGE_BYTES, 1);
    }
    return samples;
}

static md5_message whole(const sample *of)
{
    return (md5_message){NULL, of->size_bytes == 0 ? NULL : of->bytes, of->size_bytes, NULL};
}

/* Lists in heap blocks of just their size. */
static void require_batch(const sample *const *chosen, size_t count)
{
    md5_message *messages = (md5_message *)(void *)allocate(count * sizeof *messages);
    uint8_t *digests = allocate(count * MD5_DIGEST_BYTES);

    for (size_t i = 0; i < count; i++)
        messages[i] = whole(chosen[i]);
    REQUIRE(md5_batch(messages, count, digests) == 0);
    for (size_t i = 0; i < count; i++)
        REQUIRE(memcmp(digests + i * MD5_DIGEST_BYTES, chosen[i]->digest, MD5_DIGEST_BYTES) == 0);
    free(digests);
    free(messages);
}

static void test_no_messages(void)
{
    REQUIRE(md5_batch(NULL, 0, NULL) == 0);
    REQUIRE(md5_batch_joined(NULL, NULL, 0, NULL) == 0);
}

static void test_every_length_in_one_batch(void)
{
    const sample *const samples = get_samples();
    const sample *chosen[SAMPLE_COUNT];

    for (size_t i = 0; i < SAMPLE_COUNT; i++)
        chosen[i] = &samples[i];
    require_batch(chosen, SAMPLE_COUNT);
    for (size_t i = 0; i < SAMPLE_COUNT; i++)
        chosen[i] = &samples[SAMPLE_COUNT - 1 - i];
    require_batch(chosen, SAMPLE_COUNT);
}

/* Of one length, of lengths that grow, of lengths as they come. */
static void test_every_count(void)
{
    const sample *const samples = get_samples();
    uint32_t seed = 3;

    for (size_t count = 1; count <= MOST_COUNT; count++) {
        const sample *chosen[MOST_COUNT];

        for (size_t i = 0; i < count; i++)
            chosen[i] = &samples[119];
        require_batch(chosen, count);
        for (size_t i = 0; i < count; i++)
            chosen[i] = &samples[55 + i];
        require_batch(chosen, count);
        for (size_t i = 0; i < count; i++)
            chosen[i] = &samples[next_random(&seed) % SAMPLE_COUNT];
        require_batch(chosen, count);
    }
}

static void test_one_huge_among_small(void)
{
    static const size_t places[] = {0, 1, 63, 64, 99};
    const sample *const samples = get_samples();

    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        const sample *chosen[100];

        for (size_t i = 0; i < 100; i++)
            chosen[i] = i == places[p] ? &huge : &samples[i];
        require_batch(chosen, 100);
    }
}

static void test_joined_messages(void)
{
    const sample *const samples = get_samples();

    for (size_t count = 1; count <= SAMPLE_COUNT; count += count < MOST_COUNT ? 1 : 27) {
        uint64_t *sizes_bytes = (uint64_t *)(void *)allocate(count * sizeof *sizes_bytes);
        uint8_t *digests = allocate(count * MD5_DIGEST_BYTES);
        size_t total_bytes = 0;
        uint8_t *joined;

        for (size_t i = 0; i < count; i++)
            total_bytes += samples[i].size_bytes;
        joined = allocate(total_bytes);
        total_bytes = 0;
        for (size_t i = 0; i < count; i++) {
            sizes_bytes[i] = samples[i].size_bytes;
            if (samples[i].size_bytes != 0)
                memcpy(joined + total_bytes, samples[i].bytes, samples[i].size_bytes);
            total_bytes += samples[i].size_bytes;
        }
        REQUIRE(md5_batch_joined(joined, sizes_bytes, count, digests) == 0);
        for (size_t i = 0; i < count; i++)
            REQUIRE(memcmp(digests + i * MD5_DIGEST_BYTES, samples[i].digest, MD5_DIGEST_BYTES) == 0);
        free(joined);
        free(digests);
        free(sizes_bytes);
    }
}

/* Streams: what they have seen, and what they are given in the batch. */

typedef struct {
    const sample *of;
    size_t before_bytes;
    md5_context context;
    int is_stream;
} job;

static void start_stream(job *started, size_t before_bytes)
{
    started->is_stream = 1;
    started->before_bytes = before_bytes;
    REQUIRE(md5_init(&started->context) == 0);
    md5_update(&started->context, started->of->bytes, before_bytes);
}

static md5_message as_message(job *of)
{
    const size_t more_bytes = of->of->size_bytes - of->before_bytes;

    if (!of->is_stream)
        return whole(of->of);
    return (md5_message){&of->context, more_bytes == 0 ? NULL : of->of->bytes + of->before_bytes, more_bytes, NULL};
}

/* The stream is what updates would have made of it, and the place for a digest as it was. */
static void require_job(const job *done, const uint8_t digest[MD5_DIGEST_BYTES])
{
    uint8_t actual[MD5_DIGEST_BYTES];
    uint8_t states[2][MD5_STATE_MAX_BYTES];
    md5_context plain;
    size_t length;

    if (!done->is_stream) {
        REQUIRE(memcmp(digest, done->of->digest, MD5_DIGEST_BYTES) == 0);
        return;
    }
    for (size_t i = 0; i < MD5_DIGEST_BYTES; i++)
        REQUIRE(digest[i] == 0xee);
    md5_final(&done->context, actual);
    REQUIRE(memcmp(actual, done->of->digest, MD5_DIGEST_BYTES) == 0);
    REQUIRE(md5_init(&plain) == 0);
    md5_update(&plain, done->of->bytes, done->of->size_bytes);
    length = md5_export(&plain, states[0]);
    REQUIRE(md5_export(&done->context, states[1]) == length);
    REQUIRE(memcmp(states[0], states[1], length) == 0);
}

static void require_jobs(job *jobs, size_t count)
{
    md5_message *messages = (md5_message *)(void *)allocate(count * sizeof *messages);
    uint8_t *digests = allocate(count * MD5_DIGEST_BYTES);

    memset(digests, 0xee, count * MD5_DIGEST_BYTES);
    for (size_t i = 0; i < count; i++)
        messages[i] = as_message(&jobs[i]);
    REQUIRE(md5_batch(messages, count, digests) == 0);
    for (size_t i = 0; i < count; i++)
        require_job(&jobs[i], digests + i * MD5_DIGEST_BYTES);
    free(digests);
    free(messages);
}

static void test_streams_beside_messages(void)
{
    const sample *const samples = get_samples();
    job *jobs = (job *)(void *)allocate(MOST_COUNT * sizeof *jobs);
    uint32_t seed = 5;

    for (size_t round = 0; round < MIXED_ROUNDS; round++) {
        const size_t count = 1 + next_random(&seed) % MOST_COUNT;

        for (size_t i = 0; i < count; i++) {
            jobs[i] = (job){.of = i == 3 ? &huge : &samples[next_random(&seed) % SAMPLE_COUNT]};
            if (next_random(&seed) % 2 == 0)
                start_stream(&jobs[i], next_random(&seed) % (jobs[i].of->size_bytes + 1));
        }
        require_jobs(jobs, count);
    }
    free(jobs);
}

/* Whatever waits in the stream, and whatever comes: up to two blocks each, streams only. */
static void test_streams_at_every_byte(void)
{
    const sample *const samples = get_samples();
    job *jobs = (job *)(void *)allocate(130 * sizeof *jobs);

    for (size_t before_bytes = 0; before_bytes < 130; before_bytes++) {
        for (size_t i = 0; i < 130; i++) {
            jobs[i] = (job){.of = &samples[before_bytes + i]};
            start_stream(&jobs[i], before_bytes);
        }
        require_jobs(jobs, 130);
    }
    free(jobs);
}

static void test_streams_without_bytes(void)
{
    const sample *const samples = get_samples();
    job *jobs = (job *)(void *)allocate(MOST_COUNT * sizeof *jobs);

    for (size_t i = 0; i < MOST_COUNT; i++) {
        jobs[i] = (job){.of = &samples[i]};
        start_stream(&jobs[i], jobs[i].of->size_bytes);
    }
    require_jobs(jobs, MOST_COUNT);
    jobs[MOST_COUNT / 2] = (job){.of = &huge};
    require_jobs(jobs, MOST_COUNT);
    free(jobs);
}

/* A source that knows how often it was asked, and lets other paths compute each time. */
typedef struct {
    const sample *samples;
    size_t taken;
    uint8_t (*digests)[MD5_DIGEST_BYTES];
    uint32_t seed;
    int changes_mask;
} counted;

static int take_counted(void *source, md5_message *message, uint8_t **digest)
{
    counted *const from = source;

    if (from->changes_mask)
        md5_set_feature_mask(next_random(&from->seed) & MD5_FEATURES_ALL);
    if (from->taken == SAMPLE_COUNT)
        return 0;
    *message = whole(&from->samples[from->taken]);
    *digest = from->digests[from->taken++];
    return 1;
}

static void require_source(int changes_mask)
{
    uint8_t (*digests)[MD5_DIGEST_BYTES] = (void *)allocate(SAMPLE_COUNT * sizeof *digests);
    counted source = {get_samples(), 0, digests, 11, changes_mask};

    REQUIRE(md5_batch_from(take_counted, &source) == 0);
    REQUIRE(source.taken == SAMPLE_COUNT);
    for (size_t i = 0; i < SAMPLE_COUNT; i++)
        REQUIRE(memcmp(digests[i], source.samples[i].digest, sizeof *digests) == 0);
    free(digests);
}

static void test_source_is_emptied(void)
{
    require_source(0);
}

static void test_mask_may_change_within_a_batch(void)
{
    require_source(1);
    md5_set_feature_mask(current_mask);
}

const test_case batch_tests[] = {
    {"no messages", test_no_messages},
    {"every length in one batch", test_every_length_in_one_batch},
    {"every count", test_every_count},
    {"one huge among small", test_one_huge_among_small},
    {"joined messages", test_joined_messages},
    {"streams beside messages", test_streams_beside_messages},
    {"streams at every byte", test_streams_at_every_byte},
    {"streams without bytes", test_streams_without_bytes},
    {"source is emptied", test_source_is_emptied},
    {"mask may change within a batch", test_mask_may_change_within_a_batch},
    {NULL, NULL},
};
