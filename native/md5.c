/*
 * MD5 streams: buffering, padding, export and import. Independent of the CPU.
 */
#include "md5.h"

#include "md5_impl.h"

#include <string.h>

#define LENGTH_FIELD_BYTES 8
#define CHECK_BYTES 8

/* Offsets in the exported state; see the table in md5.h. */
#define AT_VERSION 4
#define AT_WAITING_COUNT 5
#define AT_LENGTH 6
#define AT_WORDS 8
#define AT_BYTE_COUNT 24
#define AT_WAITING 32

static const uint8_t MAGIC[4] = {0x89, 'M', 'D', '5'};

static size_t waiting_count(const md5_context *context)
{
    return (size_t)(context->byte_count % MD5_BLOCK_BYTES);
}

static void start(md5_context *context)
{
    memset(context, 0, sizeof *context);
    context->words[0] = MD5_INITIAL_A;
    context->words[1] = MD5_INITIAL_B;
    context->words[2] = MD5_INITIAL_C;
    context->words[3] = MD5_INITIAL_D;
}

int md5_init(md5_context *context)
{
    if (md5_select() != 0)
        return -1;
    start(context);
    return 0;
}

void md5_update(md5_context *context, const void *data, size_t size_bytes)
{
    const uint8_t *next = data;
    const size_t waiting = waiting_count(context);
    const size_t missing = MD5_BLOCK_BYTES - waiting;

    /* memcpy from NULL is undefined even for no bytes. */
    if (size_bytes == 0)
        return;
    context->byte_count += size_bytes;
    if (size_bytes < missing) {
        memcpy(context->waiting + waiting, next, size_bytes);
        return;
    }
    if (waiting != 0) {
        memcpy(context->waiting + waiting, next, missing);
        md5_compress(context->words, context->waiting, 1);
        next += missing;
        size_bytes -= missing;
    }
    md5_compress(context->words, next, size_bytes / MD5_BLOCK_BYTES);
    next += size_bytes - size_bytes % MD5_BLOCK_BYTES;
    memcpy(context->waiting, next, size_bytes % MD5_BLOCK_BYTES);
}

int md5_begin(md5_context *context, const void *data, size_t size_bytes)
{
    if (md5_init(context) != 0)
        return -1;
    md5_update(context, data, size_bytes);
    return 0;
}

void md5_final(const md5_context *context, uint8_t digest[MD5_DIGEST_BYTES])
{
    /*
     * Padding: one bit, zeros, and the length in bits in the last 8 bytes, one or two blocks in all. md5_batch.c has
     * its own copy: sharing one function makes a digest of 60 bytes 7 % slower.
     */
    uint8_t tail[2 * MD5_BLOCK_BYTES] = {0};
    uint32_t words[4];
    const size_t waiting = waiting_count(context);
    const size_t blocks = waiting + 1 + LENGTH_FIELD_BYTES <= MD5_BLOCK_BYTES ? 1 : 2;

    memcpy(words, context->words, sizeof words);
    memcpy(tail, context->waiting, waiting);
    tail[waiting] = 0x80;
    store_u64(tail + blocks * MD5_BLOCK_BYTES - LENGTH_FIELD_BYTES, context->byte_count << 3);
    md5_compress(words, tail, blocks);
    for (size_t i = 0; i < 4; i++)
        store_u32(digest + 4 * i, words[i]);
}

int md5_digest(const void *data, size_t size_bytes, uint8_t digest[MD5_DIGEST_BYTES])
{
    md5_context context;

    if (md5_begin(&context, data, size_bytes) != 0)
        return -1;
    md5_final(&context, digest);
    return 0;
}

/* The check value is MD5, which needs no second algorithm and is fast enough. */
static void compute_check(const uint8_t *state, size_t size_bytes, uint8_t digest[MD5_DIGEST_BYTES])
{
    md5_context context;

    start(&context);
    md5_update(&context, state, size_bytes);
    md5_final(&context, digest);
}

size_t md5_export(const md5_context *context, uint8_t state[MD5_STATE_MAX_BYTES])
{
    uint8_t digest[MD5_DIGEST_BYTES];
    const size_t waiting = waiting_count(context);
    const size_t check_at = AT_WAITING + waiting;

    memcpy(state, MAGIC, sizeof MAGIC);
    state[AT_VERSION] = MD5_STATE_VERSION;
    state[AT_WAITING_COUNT] = (uint8_t)waiting;
    state[AT_LENGTH] = (uint8_t)(check_at + CHECK_BYTES);
    state[AT_LENGTH + 1] = 0;
    for (size_t i = 0; i < 4; i++)
        store_u32(state + AT_WORDS + 4 * i, context->words[i]);
    store_u64(state + AT_BYTE_COUNT, context->byte_count);
    memcpy(state + AT_WAITING, context->waiting, waiting);
    compute_check(state, check_at, digest);
    memcpy(state + check_at, digest, CHECK_BYTES);
    return check_at + CHECK_BYTES;
}

const char *md5_state_problem(const uint8_t *state, size_t size_bytes)
{
    uint8_t digest[MD5_DIGEST_BYTES];

    if (size_bytes < MD5_STATE_MIN_BYTES)
        return "it is too short";
    if (memcmp(state, MAGIC, sizeof MAGIC) != 0)
        return "it is no MD5 state";
    /* Check the version first: another version may have a different layout. */
    if (state[AT_VERSION] != MD5_STATE_VERSION)
        return "it is of another version";
    if ((size_t)(state[AT_LENGTH] | state[AT_LENGTH + 1] << 8) != size_bytes)
        return "it is of another length than it says";
    if (size_bytes != (size_t)MD5_STATE_MIN_BYTES + state[AT_WAITING_COUNT] ||
        state[AT_WAITING_COUNT] != load_u64(state + AT_BYTE_COUNT) % MD5_BLOCK_BYTES)
        return "its counts contradict each other";
    compute_check(state, size_bytes - CHECK_BYTES, digest);
    if (memcmp(state + size_bytes - CHECK_BYTES, digest, CHECK_BYTES) != 0)
        return "its check value is wrong";
    return NULL;
}

int md5_import(md5_context *context, const uint8_t *state, size_t size_bytes)
{
    if (md5_select() != 0 || md5_state_problem(state, size_bytes) != NULL)
        return -1;
    start(context);
    for (size_t i = 0; i < 4; i++)
        context->words[i] = load_u32(state + AT_WORDS + 4 * i);
    context->byte_count = load_u64(state + AT_BYTE_COUNT);
    memcpy(context->waiting, state + AT_WAITING, waiting_count(context));
    return 0;
}
