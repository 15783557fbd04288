/*
 * The compression functions for many chains one by one, and which of them the dispatcher chooses.
 */
#include "md5_selftest.h"

#include "md5_impl.h"
#include "md5_reference.h"

#include <stdlib.h>
#include <string.h>

#define MOST_BLOCKS 5
#define LANE_BYTES (1 + MOST_BLOCKS * MD5_BLOCK_BYTES)

typedef struct {
    uint32_t feature;
    size_t lanes;
    md5_compress_lanes_function *compress;
} lanes_path;

static const lanes_path lanes_paths[] = {
    {MD5_FEATURE_INTERLEAVED, 2, md5_compress_x2},
    {MD5_FEATURE_INTERLEAVED, 4, md5_compress_x4},
#if MD5_HAS_NEON
    {MD5_FEATURE_NEON, 4, md5_compress_x4_neon},
    {MD5_FEATURE_NEON, 8, md5_compress_x8_neon},
#endif
#if MD5_HAS_AVX2
    {MD5_FEATURE_AVX2, 8, md5_compress_x8_avx2},
    {MD5_FEATURE_AVX2, 16, md5_compress_x16_avx2},
    {MD5_FEATURE_AVX2, 32, md5_compress_x32_avx2},
#endif
#if MD5_HAS_AVX512
    {MD5_FEATURE_AVX512, 16, md5_compress_x16_avx512},
    {MD5_FEATURE_AVX512, 32, md5_compress_x32_avx512},
    {MD5_FEATURE_AVX512, 64, md5_compress_x64_avx512},
#endif
};

#define PATH_COUNT (sizeof lanes_paths / sizeof *lanes_paths)

/* Words, no two alike, as they may stand in the middle of a message. */
static void fill_words(uint32_t words[4][MD5_MOST_LANES])
{
    uint32_t seed = 7;

    for (size_t i = 0; i < 4; i++)
        for (size_t lane = 0; lane < MD5_MOST_LANES; lane++)
            words[i][lane] = next_random(&seed);
}

static void require_lane(const uint32_t before[4][MD5_MOST_LANES], const uint32_t after[4][MD5_MOST_LANES], size_t lane,
                         const uint8_t *blocks, size_t count)
{
    uint32_t chain[4] = {before[0][lane], before[1][lane], before[2][lane], before[3][lane]};

    for (size_t block = 0; block < count; block++)
        reference_block(chain, blocks + block * MD5_BLOCK_BYTES);
    for (size_t i = 0; i < 4; i++)
        REQUIRE(after[i][lane] == chain[i]);
}

/* ${starts} has one place for each lane and no more: a function must not look at others. */
static void require_path(const lanes_path *path, const uint8_t *const *starts, size_t count)
{
    uint32_t before[4][MD5_MOST_LANES];
    uint32_t after[4][MD5_MOST_LANES];

    fill_words(before);
    memcpy(after, before, sizeof after);
    path->compress(after, starts, count);
    for (size_t lane = 0; lane < path->lanes; lane++)
        require_lane(before, after, lane, starts[lane], count);
    /* Nothing is said of the lanes behind; that they stay as they are is how all paths happen to be. */
    for (size_t i = 0; i < 4; i++)
        for (size_t lane = path->lanes; lane < MD5_MOST_LANES; lane++)
            REQUIRE(after[i][lane] == before[i][lane]);
}

static void test_each_lane_of_each_path(void)
{
    for (size_t p = 0; p < PATH_COUNT; p++) {
        const lanes_path *const path = &lanes_paths[p];
        uint8_t *messages[MD5_MOST_LANES];
        const uint8_t **starts = (const uint8_t **)(void *)allocate(path->lanes * sizeof *starts);

        if ((md5_features() & path->feature) == 0) {
            free(starts);
            continue;
        }
        for (size_t count = 0; count <= MOST_BLOCKS; count++) {
            /* Blocks that end where their memory does and begin at any address. */
            for (size_t lane = 0; lane < path->lanes; lane++) {
                messages[lane] = make_message(lane % 67 + count * MD5_BLOCK_BYTES, lane);
                starts[lane] = messages[lane] + lane % 67;
            }
            require_path(path, starts, count);
            for (size_t lane = 0; lane < path->lanes; lane++)
                starts[lane] = starts[0];
            require_path(path, starts, count);
            for (size_t lane = 0; lane < path->lanes; lane++)
                free(messages[lane]);
        }
        free(starts);
    }
}

static int has_path(uint32_t mask, size_t lanes)
{
    if (lanes == 1)
        return 1;
    for (size_t p = 0; p < PATH_COUNT; p++)
        if (lanes_paths[p].lanes == lanes && (mask & lanes_paths[p].feature) != 0)
            return 1;
    return 0;
}

static void test_only_lanes_of_paths_in_use_are_chosen(void)
{
    static const uint64_t blocks[] = {1, 2, 3, 1000, UINT64_C(1) << 40};
    const uint32_t in_use = md5_features_in_use();
    const size_t most = md5_most_lanes();

    REQUIRE(has_path(in_use, most));
    for (size_t chains = 1; chains <= MD5_MOST_LANES; chains++)
        for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
            REQUIRE(has_path(in_use, md5_lanes(chains, blocks[i], blocks[i] * chains)));
            REQUIRE(has_path(in_use, md5_lanes(chains, blocks[i], blocks[i] + chains - 1)));
        }
    /* A single one, however long: by itself or beside nothing. */
    REQUIRE(md5_lanes(1, 1000000, 1000000) <= 2);
}

const test_case lanes_tests[] = {
    {"each lane of each path", test_each_lane_of_each_path},
    {"only lanes of paths in use are chosen", test_only_lanes_of_paths_in_use_are_chosen},
    {NULL, NULL},
};
