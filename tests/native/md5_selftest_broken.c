/*
 * What keeps a broken path from being used.
 *
 * The linker lets the dispatcher call __wrap_* where it means a path (ld, --wrap; CMakeLists.txt lists them), so that a
 * path can be broken here in the whole program, as a compiler or a processor may break it.
 */
#include "md5_selftest.h"

#include "md5_batch.h"
#include "md5_impl.h"
#include "md5_reference.h"

#include <stdlib.h>
#include <string.h>

/* What a miscompiled path might do, in each of its lanes. */

static size_t broken_lane;

static void compress_in_turn(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    for (size_t lane = 0; lane < MD5_MOST_LANES; lane++) {
        uint32_t chain[4] = {words[0][lane], words[1][lane], words[2][lane], words[3][lane]};

        md5_compress_scalar(chain, starts[lane], count);
        for (size_t i = 0; i < 4; i++)
            words[i][lane] = chain[i];
    }
}

static void flip_one_bit(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    compress_in_turn(words, starts, count);
    words[broken_lane % 4][broken_lane] ^= 1U << broken_lane % 32;
}

static void swap_with_neighbour(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    compress_in_turn(words, starts, count);
    for (size_t i = 0; i < 4; i++) {
        const uint32_t word = words[i][broken_lane];

        words[i][broken_lane] = words[i][broken_lane ^ 1];
        words[i][broken_lane ^ 1] = word;
    }
}

static void borrow_message_of_neighbour(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    const uint8_t *others[MD5_MOST_LANES];

    memcpy(others, starts, sizeof others);
    others[broken_lane] = starts[broken_lane ^ 1];
    compress_in_turn(words, others, count);
}

static void borrow_words_of_neighbour(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    words[broken_lane % 4][broken_lane] = words[broken_lane % 4][broken_lane ^ 1];
    compress_in_turn(words, starts, count);
}

static void forget_one_lane(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    uint32_t before[4];

    for (size_t i = 0; i < 4; i++)
        before[i] = words[i][broken_lane];
    compress_in_turn(words, starts, count);
    for (size_t i = 0; i < 4; i++)
        words[i][broken_lane] = before[i];
}

static void compress_first_block_only_in_one_lane(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts,
                                                  size_t count)
{
    uint32_t chain[4];

    for (size_t i = 0; i < 4; i++)
        chain[i] = words[i][broken_lane];
    compress_in_turn(words, starts, count);
    md5_compress_scalar(chain, starts[broken_lane], count == 0 ? 0 : 1);
    for (size_t i = 0; i < 4; i++)
        words[i][broken_lane] = chain[i];
}

static void test_broken_lanes_fail_their_self_test(void)
{
    static md5_compress_lanes_function *const broken[] = {
        flip_one_bit,    swap_with_neighbour, borrow_message_of_neighbour, borrow_words_of_neighbour,
        forget_one_lane, compress_first_block_only_in_one_lane,
    };

    REQUIRE(md5_self_test_lanes(compress_in_turn, MD5_MOST_LANES) == 0);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        for (broken_lane = 0; broken_lane < MD5_MOST_LANES; broken_lane++) {
            REQUIRE(md5_self_test_lanes(broken[i], MD5_MOST_LANES) == -1);
            REQUIRE(md5_self_test_lanes(broken[i], broken_lane + 1) == -1);
        }
    /* A function answers for its own lanes only. */
    broken_lane = 8;
    REQUIRE(md5_self_test_lanes(flip_one_bit, 8) == 0);
}

static void compress_with_wrong_bit(uint32_t words[4], const uint8_t *blocks, size_t count)
{
    md5_compress_scalar(words, blocks, count);
    words[2] ^= 0x80000000U;
}

static void compress_first_block_only(uint32_t words[4], const uint8_t *blocks, size_t count)
{
    md5_compress_scalar(words, blocks, count == 0 ? 0 : 1);
}

static void test_broken_chains_fail_their_self_test(void)
{
    REQUIRE(md5_self_test(md5_compress) == 0);
    REQUIRE(md5_self_test(md5_compress_scalar) == 0);
    REQUIRE(md5_self_test(compress_with_wrong_bit) == -1);
    REQUIRE(md5_self_test(compress_first_block_only) == -1);
}

/* The paths, each as the rest of the program sees it. */

#define WRAP_LANES(name) \
    static int is_broken_##name = 0; \
    md5_compress_lanes_function __real_##name, __wrap_##name; \
    void __wrap_##name(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count) \
    { \
        __real_##name(words, starts, count); \
        if (is_broken_##name) \
            words[1][0] ^= 1; \
    }
#define WRAP_CHAIN(name) \
    static int is_broken_##name = 0; \
    md5_compress_function __real_##name, __wrap_##name; \
    void __wrap_##name(uint32_t words[4], const uint8_t *blocks, size_t count) \
    { \
        __real_##name(words, blocks, count); \
        if (is_broken_##name) \
            words[1] ^= 1; \
    }

WRAP_CHAIN(md5_compress_scalar)
WRAP_LANES(md5_compress_x2)
WRAP_LANES(md5_compress_x4)
#if MD5_HAS_X86_64
WRAP_CHAIN(md5_compress_scalar_x86_64)
#endif
#if MD5_HAS_AVX2
WRAP_LANES(md5_compress_x8_avx2)
WRAP_LANES(md5_compress_x16_avx2)
WRAP_LANES(md5_compress_x32_avx2)
#endif
#if MD5_HAS_AVX512
WRAP_LANES(md5_compress_x16_avx512)
WRAP_LANES(md5_compress_x32_avx512)
WRAP_LANES(md5_compress_x64_avx512)
#endif
#if MD5_HAS_NEON
WRAP_LANES(md5_compress_x4_neon)
WRAP_LANES(md5_compress_x8_neon)
#endif

static const struct {
    uint32_t feature;
    int *is_broken;
} breakable[] = {
    {MD5_FEATURE_INTERLEAVED, &is_broken_md5_compress_x2},
    {MD5_FEATURE_INTERLEAVED, &is_broken_md5_compress_x4},
#if MD5_HAS_X86_64
    {MD5_FEATURE_X86_64, &is_broken_md5_compress_scalar_x86_64},
#endif
#if MD5_HAS_AVX2
    {MD5_FEATURE_AVX2, &is_broken_md5_compress_x8_avx2},
    {MD5_FEATURE_AVX2, &is_broken_md5_compress_x16_avx2},
    {MD5_FEATURE_AVX2, &is_broken_md5_compress_x32_avx2},
#endif
#if MD5_HAS_AVX512
    {MD5_FEATURE_AVX512, &is_broken_md5_compress_x16_avx512},
    {MD5_FEATURE_AVX512, &is_broken_md5_compress_x32_avx512},
    {MD5_FEATURE_AVX512, &is_broken_md5_compress_x64_avx512},
#endif
#if MD5_HAS_NEON
    {MD5_FEATURE_NEON, &is_broken_md5_compress_x4_neon},
    {MD5_FEATURE_NEON, &is_broken_md5_compress_x8_neon},
#endif
};

#define BATCH_COUNT 70

/* As many messages as there are lanes, and some more. */
static void require_batch_is_right(void)
{
    uint8_t *bytes = make_message(300, 1);
    md5_message messages[BATCH_COUNT];
    uint8_t digests[BATCH_COUNT][MD5_DIGEST_BYTES];

    for (size_t i = 0; i < BATCH_COUNT; i++)
        messages[i] = (md5_message){NULL, bytes + i, 150 + i, NULL};
    REQUIRE(md5_batch(messages, BATCH_COUNT, digests[0]) == 0);
    for (size_t i = 0; i < BATCH_COUNT; i++) {
        uint8_t expected[MD5_DIGEST_BYTES];

        reference_digest(messages[i].data, messages[i].size_bytes, expected);
        REQUIRE(memcmp(expected, digests[i], sizeof expected) == 0);
    }
    free(bytes);
}

static void test_broken_path_is_not_used(void)
{
    const uint32_t in_use = md5_features_in_use();

    for (size_t i = 0; i < sizeof breakable / sizeof *breakable; i++) {
        *breakable[i].is_broken = 1;
        /* What the self-test found is forgotten. */
        md5_set_feature_mask(current_mask);
        if ((md5_features() & breakable[i].feature) != 0)
            REQUIRE(md5_features_in_use() == (in_use & ~breakable[i].feature));
        require_batch_is_right();
        *breakable[i].is_broken = 0;
    }
    md5_set_feature_mask(current_mask);
    REQUIRE(md5_features_in_use() == in_use);
}

static void test_nothing_is_computed_where_even_the_portable_path_is_broken(void)
{
    const uint64_t size_bytes = 3;
    uint8_t digest[MD5_DIGEST_BYTES] = {0};
    uint8_t state[MD5_STATE_MAX_BYTES];
    const uint8_t *bytes = (const uint8_t *)"abc";
    const md5_message message = {NULL, bytes, 3, NULL};
    md5_context context;
    size_t length;

    REQUIRE(md5_init(&context) == 0);
    length = md5_export(&context, state);
    is_broken_md5_compress_scalar = 1;
    md5_set_feature_mask(current_mask);
    REQUIRE(md5_features_in_use() == 0);
    REQUIRE(md5_init(&context) == -1);
    REQUIRE(md5_begin(&context, bytes, size_bytes) == -1);
    REQUIRE(md5_import(&context, state, length) == -1);
    REQUIRE(md5_batch(&message, 1, digest) == -1);
    REQUIRE(md5_batch_joined(bytes, &size_bytes, 1, digest) == -1);
    for (size_t i = 0; i < sizeof digest; i++)
        REQUIRE(digest[i] == 0);
    is_broken_md5_compress_scalar = 0;
    md5_set_feature_mask(current_mask);
    REQUIRE(md5_init(&context) == 0);
}

const test_case broken_tests[] = {
    {"broken lanes fail their self-test", test_broken_lanes_fail_their_self_test},
    {"broken chains fail their self-test", test_broken_chains_fail_their_self_test},
    {"broken path is not used", test_broken_path_is_not_used},
    {"nothing is computed where even the portable path is broken",
     test_nothing_is_computed_where_even_the_portable_path_is_broken},
    {NULL, NULL},
};
