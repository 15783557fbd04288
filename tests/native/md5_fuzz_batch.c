/*
 * A fuzz target for batches: any number of messages and streams of any lengths.
 *
 * The first byte is the feature mask. Each two bytes behind it are one message: flags and a length.
 */
#include "md5_batch.h"
#include "md5_reference.h"

#include <stdlib.h>
#include <string.h>

#define IS_STREAM 1U
#define IS_LONG 2U     /* the length counts blocks, up to 31, not bytes */
#define BEFORE_SHIFT 2 /* what the stream has seen: 0 to 63 bytes, and a block more for an odd length */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

typedef struct {
    int is_stream;
    size_t before_bytes;
    size_t size_bytes;
    uint8_t *bytes; /* what the stream has seen, too */
    md5_context context;
} job;

static void make_job(job *made, const uint8_t code[2], size_t seed)
{
    made->is_stream = (code[0] & IS_STREAM) != 0;
    made->before_bytes = made->is_stream ? (code[0] >> BEFORE_SHIFT) + (size_t)(code[1] % 2) * 64 : 0;
    made->size_bytes = (code[0] & IS_LONG) != 0 ? (size_t)(code[1] % 32) * 64 + code[0] : code[1];
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
    }
    REQUIRE(md5_batch(messages, count, digests) == 0);
    for (size_t i = 0; i < count; i++)
        require_job(&jobs[i], digests + i * MD5_DIGEST_BYTES);
    free(digests);
    free(messages);
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
    require_joined(jobs, count);
    for (size_t i = 0; i < count; i++)
        free(jobs[i].bytes);
    free(jobs);
    return 0;
}
