/*
 * A fuzz target for saved states: whatever is taken for one is one, and goes on as it should.
 *
 * The first byte says under which feature mask and how far the rest is mended to look like a state, for no fuzzer finds
 * a check value by itself.
 */
#include "md5.h"
#include "md5_reference.h"

#include <stdlib.h>
#include <string.h>

#define MENDS_CHECK 1U
#define MENDS_COUNTS 2U
#define MENDS_HEAD 4U
#define MASK_SHIFT 3

#define CHECK_BYTES 8
#define FIXED_BYTES 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static uint64_t load(const uint8_t *from, size_t size_bytes)
{
    uint64_t value = 0;

    while (size_bytes-- != 0)
        value = value << 8 | from[size_bytes];
    return value;
}

static void mend(uint8_t *state, size_t length, unsigned how)
{
    uint8_t digest[MD5_DIGEST_BYTES];

    if (length < FIXED_BYTES)
        return;
    if ((how & MENDS_HEAD) != 0)
        memcpy(state, "\x89MD5\x01", 5);
    if ((how & MENDS_COUNTS) != 0) {
        state[5] = (uint8_t)(length - FIXED_BYTES);
        state[6] = (uint8_t)length;
        state[7] = (uint8_t)(length >> 8);
        state[24] = (uint8_t)((state[24] & 0xc0) | ((length - FIXED_BYTES) & 0x3f));
    }
    if ((how & MENDS_CHECK) != 0) {
        reference_digest(state, length - CHECK_BYTES, digest);
        memcpy(state + length - CHECK_BYTES, digest, CHECK_BYTES);
    }
}

/* The table in md5.h, read anew. */
static int is_state(const uint8_t *state, size_t length)
{
    uint8_t digest[MD5_DIGEST_BYTES];

    if (length < FIXED_BYTES || length > FIXED_BYTES + 63 || memcmp(state, "\x89MD5\x01", 5) != 0)
        return 0;
    if (state[5] != length - FIXED_BYTES || load(state + 6, 2) != length || load(state + 24, 8) % 64 != state[5])
        return 0;
    reference_digest(state, length - CHECK_BYTES, digest);
    return memcmp(state + length - CHECK_BYTES, digest, CHECK_BYTES) == 0;
}

static void require_refused(const uint8_t *state, size_t length)
{
    md5_context context;
    md5_context before;

    REQUIRE(md5_init(&context) == 0);
    before = context;
    REQUIRE(md5_import(&context, state, length) == -1);
    REQUIRE(memcmp(&before, &context, sizeof context) == 0);
}

/* What was exported is exported again, and with ${more} appended it has the digest of the whole. */
static void require_resumed(const uint8_t *state, size_t length, const uint8_t *more, size_t more_bytes)
{
    const size_t waiting = length - FIXED_BYTES;
    uint8_t exported[MD5_STATE_MAX_BYTES];
    uint8_t expected[MD5_DIGEST_BYTES];
    uint8_t actual[MD5_DIGEST_BYTES];
    uint8_t *rest = allocate(waiting + more_bytes + 1);
    md5_context context;
    uint32_t words[4];

    REQUIRE(md5_import(&context, state, length) == 0);
    REQUIRE(md5_export(&context, exported) == length);
    REQUIRE(memcmp(exported, state, length) == 0);
    for (size_t i = 0; i < 4; i++)
        words[i] = (uint32_t)load(state + 8 + 4 * i, 4);
    memcpy(rest, state + 32, waiting);
    if (more_bytes != 0)
        memcpy(rest + waiting, more, more_bytes);
    reference_finish(words, load(state + 24, 8) - waiting, rest, waiting + more_bytes, expected);
    md5_update(&context, more, more_bytes);
    md5_final(&context, actual);
    REQUIRE(memcmp(expected, actual, sizeof expected) == 0);
    free(rest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    uint8_t *state;

    if (size_bytes == 0)
        return 0;
    current_mask = data[0] >> MASK_SHIFT;
    md5_set_feature_mask(current_mask);
    state = allocate(size_bytes - 1);
    if (size_bytes > 1)
        memcpy(state, data + 1, size_bytes - 1);
    mend(state, size_bytes - 1, data[0]);
    REQUIRE((md5_state_problem(state, size_bytes - 1) == NULL) == is_state(state, size_bytes - 1));
    if (is_state(state, size_bytes - 1))
        require_resumed(state, size_bytes - 1, data, size_bytes);
    else
        require_refused(state, size_bytes - 1);
    free(state);
    return 0;
}
