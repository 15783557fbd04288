/*
 * A fuzz target for batches: any number of messages and streams of any lengths.
 *
 * The first byte is the feature mask. Each two bytes behind it are one message: flags and a length. Bits of the length
 * also say where a submission to the scheduler ends, and where it is flushed.
 */
#include "md5_batch.h"
#include "md5_reference.h"

#include <stdlib.h>
#include <string.h>

#define IS_STREAM 1U
#define IS_LONG 2U     /* the length counts blocks, up to 31, not bytes */
#define ENDS_SUBMISSION 64U /* of the length */
#define IS_FLUSHED 128U
#define BEFORE_SHIFT 2 /* what the stream has seen: 0 to 63 bytes, and a block more for an odd length */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

typedef struct {
    int is_stream;
    size_t before_bytes;
    size_t size_bytes;
    uint8_t *bytes; /* what the stream has seen, too */
    unsigned ending; /* of the submission that this one ends; 0: it does not */
    md5_context context;
} job;

static void make_job(job *made, const uint8_t code[2], size_t seed)
{
    made->is_stream = (code[0] & IS_STREAM) != 0;
    made->before_bytes = made->is_stream ? (code[0] >> BEFORE_SHIFT) + (size_t)(code[1] % 2) * 64 : 0;
    made->size_bytes = (code[0] & IS_LONG) != 0 ? (size_t)(code[1] % 32) * 64 + code[0] : code[1];
    made->ending = code[1] & (ENDS_SUBMISSION | IS_FLUSHED);
    made->bytes = make_message(made->before_bytes + made->size_bytes, seed);
    if (made->is_stream) {
        REQUIRE(md5_init(&made->context) == 0);
        md5_update(&made->context, made->bytes, made->before_bytes);
    }
}

static void require_job(const job *done, const uint8_t digest[MD5_DIGEST_BYTES])
{
    uint8_t expected[MD5_DIGEST_BYTES];
    uint8_t actual[MD5_DIGEST_BYTES];

    reference_digest(done->bytes, done->before_bytes + done->size_bytes, expected);
    if (done->is_stream)
        md5_final(&done->context, actual);
    else
        memcpy(actual, digest, sizeof actual);
    REQUIRE(memcmp(expected, actual, sizeof expected) == 0);
}

static void require_batch(job *jobs, size_t count)
{
    md5_message *messages = (md5_message *)(void *)allocate(count * sizeof *messages);
    uint8_t *digests = allocate(count * MD5_DIGEST_BYTES);

    for (size_t i = 0; i < count; i++) {
        messages[i].stream = jobs[i].is_stream ? &jobs[i].context : NULL;
        messages[i].data = jobs[i].size_bytes == 0 ? NULL : jobs[i].bytes + jobs[i].before_bytes;
        messages[i].size_bytes = jobs[i].size_bytes;
        messages[i].unfinished = NULL;
    }
    REQUIRE(md5_batch(messages, count, digests) == 0);
    for (size_t i = 0; i < count; i++)
        require_job(&jobs[i], digests + i * MD5_DIGEST_BYTES);
    free(digests);
    free(messages);
}

/* A submission: what is left of it. */
typedef struct {
    job *next;
    job *end;
    uint8_t *digest;
    size_t unfinished;
} submission;

static int take_job(void *source, md5_message *message, uint8_t **digest)
{
    submission *const from = source;
    job *const next = from->next;

    if (next == from->end)
        return 0;
    message->stream = next->is_stream ? &next->context : NULL;
    message->data = next->size_bytes == 0 ? NULL : next->bytes + next->before_bytes;
    message->size_bytes = next->size_bytes;
    message->unfinished = &from->unfinished;
    *digest = from->digest;
    from->next++;
    from->digest += MD5_DIGEST_BYTES;
    return 1;
}

/* The same as submissions to a scheduler. */
static void require_submissions(job *jobs, size_t count)
{
    md5_scheduler *scheduler = (md5_scheduler *)(void *)allocate(md5_scheduler_bytes());
    submission *submissions = (submission *)(void *)allocate(count * sizeof *submissions);
    uint8_t *digests = allocate(count * MD5_DIGEST_BYTES);
    size_t made = 0;

    REQUIRE(md5_scheduler_init(scheduler) == 0);
    for (size_t first = 0, i = 0; i < count; i++) {
        if (jobs[i].ending == 0 && i + 1 < count)
            continue;
        submissions[made] = (submission){jobs + first, jobs + i + 1, digests + first * MD5_DIGEST_BYTES, i + 1 - first};
        md5_scheduler_submit(scheduler, take_job, &submissions[made]);
        if ((jobs[i].ending & IS_FLUSHED) != 0)
            md5_scheduler_flush(scheduler);
        REQUIRE((jobs[i].ending & IS_FLUSHED) == 0 || submissions[made].unfinished == 0);
        made++;
        first = i + 1;
    }
    md5_scheduler_flush(scheduler);
    for (size_t i = 0; i < made; i++)
        REQUIRE(submissions[i].unfinished == 0);
    for (size_t i = 0; i < count; i++)
        require_job(&jobs[i], digests + i * MD5_DIGEST_BYTES);
    free(digests);
    free(submissions);
    free(scheduler);
}

/* The streams as they were before they were given anything. */
static void restart_streams(job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[i].is_stream) {
            REQUIRE(md5_init(&jobs[i].context) == 0);
            md5_update(&jobs[i].context, jobs[i].bytes, jobs[i].before_bytes);
        }
}

/* The lengths once more, one behind the other in one piece of memory. */
static void require_joined(const job *jobs, size_t count)
{
    uint64_t *sizes_bytes = (uint64_t *)(void *)allocate(count * sizeof *sizes_bytes);
    uint8_t *digests = allocate(count * MD5_DIGEST_BYTES);
    const uint8_t *next;
    uint8_t *joined;
    size_t total_bytes = 0;

    for (size_t i = 0; i < count; i++)
        total_bytes += (size_t)(sizes_bytes[i] = jobs[i].size_bytes);
    next = joined = make_message(total_bytes, count);
    REQUIRE(md5_batch_joined(joined, sizes_bytes, count, digests) == 0);
    for (size_t i = 0; i < count; i++) {
        uint8_t expected[MD5_DIGEST_BYTES];

        reference_digest(next, jobs[i].size_bytes, expected);
        REQUIRE(memcmp(expected, digests + i * MD5_DIGEST_BYTES, sizeof expected) == 0);
        next += jobs[i].size_bytes;
    }
    free(joined);
    free(digests);
    free(sizes_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    const size_t count = size_bytes == 0 ? 0 : (size_bytes - 1) / 2;
    job *jobs;

    if (count == 0)
        return 0;
    current_mask = data[0] & MD5_FEATURES_ALL;
    md5_set_feature_mask(current_mask);
    jobs = (job *)(void *)allocate(count * sizeof *jobs);
    for (size_t i = 0; i < count; i++)
        make_job(&jobs[i], data + 1 + 2 * i, i);
    require_batch(jobs, count);
    restart_streams(jobs, count);
    require_submissions(jobs, count);
    require_joined(jobs, count);
    for (size_t i = 0; i < count; i++)
        free(jobs[i].bytes);
    free(jobs);
    return 0;
}
