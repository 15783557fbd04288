/*
 * XXH3 from the header of libxxhash, compiled for the base architecture, and the choice of a faster path.
 */
#include "xxh3_impl.h"

#include "choice.h"
#include "md5_impl.h"

#include <string.h>

static void digest_base(const uint8_t *data, size_t size_bytes, uint8_t digest[XXH3_128_BYTES])
{
    store(XXH3_128bits(data, size_bytes), digest);
}

void xxh3_reset(xxh3_state *state)
{
    XXH3_128bits_reset(align(state)); /* fails only for NULL */
}

void xxh3_digest(xxh3_state *state, uint8_t digest[XXH3_128_BYTES])
{
    store(XXH3_128bits_digest(align(state)), digest);
}

#if MD5_HAS_AVX2

#define SHORT_BYTES 240U /* up to this length the digest does not depend on the instruction set */
#define TEST_BYTES 3000U /* more than the stripes between two scrambles of the accumulators */

static uint32_t find_features(void)
{
    return md5_features() & MD5_FEATURE_AVX2;
}

static int is_base_right(void)
{
    return 1;
}

static int is_right(uint32_t feature)
{
    uint8_t message[1 + TEST_BYTES];
    uint8_t expected[XXH3_128_BYTES], digest[XXH3_128_BYTES];
    xxh3_state state;

    if (feature != MD5_FEATURE_AVX2)
        return 0;
    choice_write_message(message, TEST_BYTES, 0);
    digest_base(message + 1, TEST_BYTES, expected);
    xxh3_128_avx2(message + 1, TEST_BYTES, digest);
    if (memcmp(digest, expected, sizeof digest) != 0)
        return 0;
    xxh3_reset(&state);
    xxh3_update_avx2(&state, message + 1, TEST_BYTES);
    xxh3_digest(&state, digest);
    return memcmp(digest, expected, sizeof digest) == 0;
}

static choice paths = {MD5_FEATURES_ALL, find_features, is_base_right, is_right, MD5_FEATURES_ALL, 0};

/* The mask of MD5 applies, too. */
static int has_avx2(void)
{
    return (choice_get(&paths) & md5_features_in_use() & MD5_FEATURE_AVX2) != 0;
}

#endif

void xxh3_128(const uint8_t *data, size_t size_bytes, uint8_t digest[XXH3_128_BYTES])
{
#if MD5_HAS_AVX2
    if (size_bytes > SHORT_BYTES && has_avx2()) {
        xxh3_128_avx2(data, size_bytes, digest);
        return;
    }
#endif
    digest_base(data, size_bytes, digest);
}

void xxh3_update(xxh3_state *state, const uint8_t *data, size_t size_bytes)
{
#if MD5_HAS_AVX2
    if (has_avx2()) {
        xxh3_update_avx2(state, data, size_bytes);
        return;
    }
#endif
    XXH3_128bits_update(align(state), data, size_bytes);
}
