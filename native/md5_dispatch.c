/*
 * Select compression functions. The only file of the MD5 core that queries the CPU.
 *
 * Two ladders lead from the best usable path to the portable one: for one chain, and for many.
 */
#define _GNU_SOURCE

#include "md5_impl.h"

#include "choice.h"
#include "clock.h"

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

/*
 * A compression function for several chains. ${cost_ps} is the time for one block in each lane, in picoseconds; 0 until
 * it is measured.
 */
struct lane_path {
    uint32_t feature;
    uint32_t lanes;
    md5_compress_lanes_function *compress;
    _Atomic uint32_t cost_ps;
};

/* Of two paths with as many lanes, the later one is used. */
static struct lane_path lane_paths[] = {
    {MD5_FEATURE_INTERLEAVED, 2, md5_compress_x2, 0},
    {MD5_FEATURE_INTERLEAVED, 4, md5_compress_x4, 0},
#if MD5_HAS_NEON
    {MD5_FEATURE_NEON, 4, md5_compress_x4_neon, 0},
    {MD5_FEATURE_NEON, 8, md5_compress_x8_neon, 0},
#endif
#if MD5_HAS_AVX2
    {MD5_FEATURE_AVX2, 8, md5_compress_x8_avx2, 0},
    {MD5_FEATURE_AVX2, 16, md5_compress_x16_avx2, 0},
    {MD5_FEATURE_AVX2, 32, md5_compress_x32_avx2, 0},
#endif
#if MD5_HAS_AVX512
    {MD5_FEATURE_AVX512, 16, md5_compress_x16_avx512, 0},
    {MD5_FEATURE_AVX512, 32, md5_compress_x32_avx512, 0},
    {MD5_FEATURE_AVX512, 64, md5_compress_x64_avx512, 0},
#endif
};

#define LANE_PATH_COUNT (sizeof lane_paths / sizeof *lane_paths)

static int is_right(uint32_t feature)
{
#if MD5_HAS_X86_64
    if (feature == MD5_FEATURE_X86_64)
        return md5_self_test(md5_compress_scalar_x86_64) == 0;
#endif
    for (size_t i = 0; i < LANE_PATH_COUNT; i++)
        if (lane_paths[i].feature == feature && md5_self_test_lanes(lane_paths[i].compress, lane_paths[i].lanes) != 0)
            return 0;
    return 1;
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

static void compress_one(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    compress_in_turn(1, words, starts, count);
}

/* The cost changes with the mask, which can exclude the assembly. */
static struct lane_path one_chain = {0, 1, compress_one, 0};

void md5_set_feature_mask(uint32_t mask)
{
    choice_set_mask(&paths, mask);
    atomic_store(&one_chain.cost_ps, 0);
}

#define TIMED_BLOCKS 16
#define TIMED_ROUNDS 4 /* the first one loads the code, and any of them may be interrupted */

static uint32_t measure(md5_compress_lanes_function *compress)
{
    static const uint8_t blocks[TIMED_BLOCKS * MD5_BLOCK_BYTES];
    uint32_t words[4][MD5_MOST_LANES] = {{0}};
    const uint8_t *starts[MD5_MOST_LANES];
    int64_t least_ns = INT32_MAX;

    for (size_t lane = 0; lane < MD5_MOST_LANES; lane++)
        starts[lane] = blocks;
    for (size_t round = 0; round < TIMED_ROUNDS; round++) {
        const int64_t begun_ns = clock_read_ns();
        int64_t taken_ns;

        compress(words, starts, TIMED_BLOCKS);
        taken_ns = clock_read_ns() - begun_ns;
        if (taken_ns < least_ns)
            least_ns = taken_ns;
    }
    if (least_ns < 1)
        least_ns = 1; /* a coarse clock */
    return (uint32_t)(least_ns < INT32_MAX / 1000 ? least_ns * 1000 / TIMED_BLOCKS : INT32_MAX);
}

/*
 * Return the cost of a path. It is measured, because processors differ: eight lanes of AVX2 take 1.6 times as long as
 * one chain on Zen 4, and 2.9 times on Zen 5. Measuring all paths takes about 0.1 ms. Threads that race
 * may measure twice.
 */
static uint32_t find_cost(struct lane_path *path)
{
    uint32_t cost_ps = atomic_load_explicit(&path->cost_ps, memory_order_relaxed);

    if (cost_ps == 0) {
        cost_ps = measure(path->compress);
        atomic_store_explicit(&path->cost_ps, cost_ps, memory_order_relaxed);
    }
    return cost_ps;
}

static int is_in_use(const struct lane_path *path, uint32_t features)
{
    return (features & path->feature) != 0;
}

size_t md5_lanes(size_t chains, uint64_t longest_blocks, uint64_t total_blocks)
{
    const uint32_t features = choice_get(&paths);
    double least = (double)find_cost(&one_chain) * (double)total_blocks;
    size_t lanes = 1;

    for (size_t i = 0; i < LANE_PATH_COUNT; i++) {
        struct lane_path *const path = &lane_paths[i];
        const uint64_t share = total_blocks / (chains < path->lanes ? chains : path->lanes);
        double cost;

        if (!is_in_use(path, features))
            continue;
        cost = (double)(share > longest_blocks ? share : longest_blocks) * (double)find_cost(path);
        if (cost < least) {
            least = cost;
            lanes = path->lanes;
        }
    }
    return lanes;
}

/* The part of the best throughput that fewer lanes may cost: they run empty sooner, and each of them is faster. */
#define WIDTH_ALLOWANCE 16

size_t md5_most_lanes(void)
{
    const uint32_t features = choice_get(&paths);
    uint64_t best_ps = find_cost(&one_chain); /* per lane */
    size_t lanes = 1;

    for (size_t i = 0; i < LANE_PATH_COUNT; i++)
        if (is_in_use(&lane_paths[i], features) && find_cost(&lane_paths[i]) / lane_paths[i].lanes < best_ps)
            best_ps = find_cost(&lane_paths[i]) / lane_paths[i].lanes;
    best_ps += best_ps / WIDTH_ALLOWANCE;
    for (size_t i = LANE_PATH_COUNT; i-- > 0;)
        if (is_in_use(&lane_paths[i], features) && (lanes == 1 || lane_paths[i].lanes < lanes) &&
            find_cost(&lane_paths[i]) / lane_paths[i].lanes <= best_ps)
            lanes = lane_paths[i].lanes;
    return lanes;
}

void md5_compress_lanes(size_t lanes, uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    const uint32_t features = choice_get(&paths);

    for (size_t i = LANE_PATH_COUNT; i-- > 0;)
        if (lane_paths[i].lanes == lanes && is_in_use(&lane_paths[i], features)) {
            lane_paths[i].compress(words, starts, count);
            return;
        }
    compress_in_turn(lanes, words, starts, count);
}
