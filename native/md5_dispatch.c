/*
 * Select compression functions. The only file of the MD5 core that queries the CPU.
 *
 * Two ladders lead from the best usable path to the portable one: for one chain, and for many.
 */
#include "md5_impl.h"

#include "choice.h"

#if MD5_HAS_AVX2 || MD5_HAS_AVX512
#include <cpuid.h>
#endif

#define TEST_BLOCKS 2
#define TEST_BYTES (TEST_BLOCKS * MD5_BLOCK_BYTES)

int md5_self_test(md5_compress_function *compress)
{
    /* From an independent implementation; the message is 0, 1, ..., 127. */
    static const uint32_t expected[4] = {0xb85e4fd4U, 0xb03ccf42U, 0xfc8d902dU, 0x0e1b9628U};
    uint32_t words[4] = {MD5_INITIAL_A, MD5_INITIAL_B, MD5_INITIAL_C, MD5_INITIAL_D};
    uint8_t message[1 + TEST_BYTES];

    choice_write_message(message, TEST_BYTES, 0);
    compress(words, message + 1, TEST_BLOCKS);
    for (size_t i = 0; i < 4; i++)
        if (words[i] != expected[i])
            return -1;
    return 0;
}

/*
 * Every lane gets a different message and state, so an exchange between lanes is detected. Lanes beyond ${lanes} are
 * initialized but not compared.
 */
int md5_self_test_lanes(md5_compress_lanes_function *compress, size_t lanes)
{
    uint32_t words[4][MD5_MOST_LANES];
    uint8_t messages[MD5_MOST_LANES][1 + TEST_BYTES];
    const uint8_t *starts[MD5_MOST_LANES];

    for (size_t lane = 0; lane < MD5_MOST_LANES; lane++) {
        choice_write_message(messages[lane], TEST_BYTES, lane);
        starts[lane] = messages[lane] + 1;
        for (uint32_t i = 0; i < 4; i++)
            words[i][lane] = MD5_INITIAL_A + 4 * (uint32_t)lane + i;
    }
    compress(words, starts, TEST_BLOCKS);
    for (size_t lane = 0; lane < lanes; lane++) {
        uint32_t expected[4];

        for (uint32_t i = 0; i < 4; i++)
            expected[i] = MD5_INITIAL_A + 4 * (uint32_t)lane + i;
        md5_compress_scalar(expected, starts[lane], TEST_BLOCKS);
        for (size_t i = 0; i < 4; i++)
            if (words[i][lane] != expected[i])
                return -1;
    }
    return 0;
}

#if MD5_HAS_AVX2 || MD5_HAS_AVX512

#define OSXSAVE_BIT (1U << 27) /* CPUID 1, ECX: the operating system has enabled xgetbv */
#define AVX2_BIT (1U << 5)     /* CPUID 7, EBX */
#define AVX512F_BIT (1U << 16)
#define YMM_STATE 0x06U        /* XCR0: xmm, upper halves of ymm */
#define ZMM_STATE 0xe6U        /* and mask registers, upper halves of zmm, zmm16 to zmm31 */

static uint32_t saved_registers(void)
{
    uint32_t low, high;

    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

/* A supported instruction is usable only if the operating system saves its registers on a context switch. */
static uint32_t x86_features(void)
{
    unsigned eax, ebx, ecx, edx;
    uint32_t features = 0;
    uint32_t saved;

    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & OSXSAVE_BIT) == 0)
        return 0;
    saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return 0;
    if (MD5_HAS_AVX2 && (ebx & AVX2_BIT) != 0 && (saved & YMM_STATE) == YMM_STATE)
        features |= MD5_FEATURE_AVX2;
    if (MD5_HAS_AVX512 && (ebx & AVX512F_BIT) != 0 && (saved & ZMM_STATE) == ZMM_STATE)
        features |= MD5_FEATURE_AVX512;
    return features;
}

#endif

uint32_t md5_features(void)
{
    uint32_t features = MD5_FEATURE_INTERLEAVED;

#if MD5_HAS_X86_64
    /* Part of the base architecture, as is NEON on ARM64. */
    features |= MD5_FEATURE_X86_64;
#endif
#if MD5_HAS_NEON
    features |= MD5_FEATURE_NEON;
#endif
#if MD5_HAS_AVX2 || MD5_HAS_AVX512
    features |= x86_features();
#endif
    return features;
}

static int is_right(uint32_t feature)
{
    switch (feature) {
#if MD5_HAS_X86_64
    case MD5_FEATURE_X86_64:
        return md5_self_test(md5_compress_scalar_x86_64) == 0;
#endif
    case MD5_FEATURE_INTERLEAVED:
        return md5_self_test_lanes(md5_compress_x2, 2) == 0 && md5_self_test_lanes(md5_compress_x4, 4) == 0;
#if MD5_HAS_NEON
    case MD5_FEATURE_NEON:
        return md5_self_test_lanes(md5_compress_x4_neon, 4) == 0 && md5_self_test_lanes(md5_compress_x8_neon, 8) == 0;
#endif
#if MD5_HAS_AVX2
    case MD5_FEATURE_AVX2:
        return md5_self_test_lanes(md5_compress_x8_avx2, 8) == 0 &&
               md5_self_test_lanes(md5_compress_x16_avx2, 16) == 0 &&
               md5_self_test_lanes(md5_compress_x32_avx2, 32) == 0;
#endif
#if MD5_HAS_AVX512
    case MD5_FEATURE_AVX512:
        return md5_self_test_lanes(md5_compress_x16_avx512, 16) == 0 &&
               md5_self_test_lanes(md5_compress_x32_avx512, 32) == 0 &&
               md5_self_test_lanes(md5_compress_x64_avx512, 64) == 0;
#endif
    default:
        return 0;
    }
}

static int is_scalar_right(void)
{
    return md5_self_test(md5_compress_scalar) == 0;
}

static choice paths = {MD5_FEATURES_ALL, md5_features, is_scalar_right, is_right, MD5_FEATURES_ALL, 0};

int md5_select(void)
{
    return (choice_get(&paths) & CHOICE_IS_PORTABLE_RIGHT) != 0 ? 0 : -1;
}

void md5_set_feature_mask(uint32_t mask)
{
    choice_set_mask(&paths, mask);
}

uint32_t md5_features_in_use(void)
{
    return choice_get(&paths) & MD5_FEATURES_ALL;
}

void md5_compress(uint32_t words[4], const uint8_t *blocks, size_t count)
{
#if MD5_HAS_X86_64
    if ((choice_get(&paths) & MD5_FEATURE_X86_64) != 0) {
        md5_compress_scalar_x86_64(words, blocks, count);
        return;
    }
#endif
    md5_compress_scalar(words, blocks, count);
}

/* Time to compress one block in each lane, in tenths of the time of md5_compress for one block. */
struct cost {
    uint32_t feature;
    uint32_t lanes;
    uint32_t tenths;
};

/*
 * Measured on Zen 5; NEON estimated. A lane of a wide function is slower than a single chain, so a narrow function
 * suits a message much longer than all others.
 */
static const struct cost costs[] = {
    {0, 1, 10},
    {MD5_FEATURE_INTERLEAVED, 2, 10},
    {MD5_FEATURE_INTERLEAVED, 4, 16},
    {MD5_FEATURE_NEON, 4, 20},
    {MD5_FEATURE_NEON, 8, 24},
    {MD5_FEATURE_AVX2, 8, 29},
    {MD5_FEATURE_AVX2, 16, 30},
    {MD5_FEATURE_AVX2, 32, 38},
    {MD5_FEATURE_AVX512, 16, 23},
    {MD5_FEATURE_AVX512, 32, 25},
    {MD5_FEATURE_AVX512, 64, 37},
};

#define COST_COUNT (sizeof costs / sizeof *costs)

size_t md5_lanes(size_t chains, uint64_t longest_blocks, uint64_t total_blocks)
{
    const uint32_t features = choice_get(&paths);
    uint64_t least = UINT64_MAX;
    size_t lanes = 1;

    for (size_t i = 0; i < COST_COUNT; i++) {
        const size_t worked = chains < costs[i].lanes ? chains : costs[i].lanes;
        const uint64_t share = total_blocks / worked;
        uint64_t cost;

        if ((features & costs[i].feature) != costs[i].feature)
            continue;
        cost = (share > longest_blocks ? share : longest_blocks) * costs[i].tenths;
        if (cost < least) {
            least = cost;
            lanes = costs[i].lanes;
        }
    }
    return lanes;
}

size_t md5_most_lanes(void)
{
    const uint32_t features = choice_get(&paths);
    size_t lanes = 1;

    for (size_t i = 0; i < COST_COUNT; i++)
        if ((features & costs[i].feature) == costs[i].feature && costs[i].lanes > lanes)
            lanes = costs[i].lanes;
    return lanes;
}

/* One chain after the other. Needed if the mask has changed since md5_lanes returned ${lanes}. */
static void compress_in_turn(size_t lanes, uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts,
                             size_t count)
{
    for (size_t lane = 0; lane < lanes; lane++) {
        uint32_t chain[4] = {words[0][lane], words[1][lane], words[2][lane], words[3][lane]};

        md5_compress(chain, starts[lane], count);
        for (size_t i = 0; i < 4; i++)
            words[i][lane] = chain[i];
    }
}

#if MD5_HAS_AVX2
static void compress_avx2(size_t lanes, uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    if (lanes == 8)
        md5_compress_x8_avx2(words, starts, count);
    else if (lanes == 16)
        md5_compress_x16_avx2(words, starts, count);
    else
        md5_compress_x32_avx2(words, starts, count);
}
#endif

#if MD5_HAS_AVX512
static void compress_avx512(size_t lanes, uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    if (lanes == 16)
        md5_compress_x16_avx512(words, starts, count);
    else if (lanes == 32)
        md5_compress_x32_avx512(words, starts, count);
    else
        md5_compress_x64_avx512(words, starts, count);
}
#endif

void md5_compress_lanes(size_t lanes, uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    const uint32_t features = choice_get(&paths);

    if (lanes <= 4 && lanes != 1 && (features & MD5_FEATURE_INTERLEAVED) != 0) {
        if (lanes == 2)
            md5_compress_x2(words, starts, count);
        else
            md5_compress_x4(words, starts, count);
        return;
    }
#if MD5_HAS_AVX512
    if (lanes >= 16 && (features & MD5_FEATURE_AVX512) != 0) {
        compress_avx512(lanes, words, starts, count);
        return;
    }
#endif
#if MD5_HAS_AVX2
    if (lanes >= 8 && lanes <= 32 && (features & MD5_FEATURE_AVX2) != 0) {
        compress_avx2(lanes, words, starts, count);
        return;
    }
#endif
#if MD5_HAS_NEON
    if ((lanes == 4 || lanes == 8) && (features & MD5_FEATURE_NEON) != 0) {
        if (lanes == 4)
            md5_compress_x4_neon(words, starts, count);
        else
            md5_compress_x8_neon(words, starts, count);
        return;
    }
#endif
    compress_in_turn(lanes, words, starts, count);
}
