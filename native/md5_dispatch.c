/*
 * Choose how to compress: the only file that asks the CPU.
 *
 * The ladder goes from the best path to the portable one. A path is used if it is compiled in, the machine has what it
 * needs, the mask allows it, and it passes the self-test (an idea of libcperciva's cpusupport). The choice is kept in
 * one atomic; threads that find it unmade at the same time all make the same one.
 */
#include "md5_impl.h"

#include <stdatomic.h>

enum path {
    PATH_UNKNOWN = 0, /* not chosen yet, or the mask has changed since */
    PATH_NONE,        /* every path failed the self-test */
    PATH_SCALAR,
    PATH_SCALAR_X86_64
};

static _Atomic int chosen_path = PATH_UNKNOWN;
static _Atomic size_t chosen_lanes = 0; /* not chosen yet; portable, so no mask matters */
static _Atomic uint32_t feature_mask = MD5_FEATURES_ALL;

#define TEST_BLOCKS 2
#define TEST_PERIOD 251 /* prime: no two blocks, words or rounds see the same bytes */

int md5_self_test(md5_compress_function *compress)
{
    /* From an independent implementation, over the bytes 0, 1, ..., 250, 0, ... */
    static const uint32_t expected[4] = {0xb85e4fd4U, 0xb03ccf42U, 0xfc8d902dU, 0x0e1b9628U};
    uint32_t words[4] = {MD5_INITIAL_A, MD5_INITIAL_B, MD5_INITIAL_C, MD5_INITIAL_D};
    /* One byte more, and compressed from the second on: a path must not need alignment. */
    uint8_t message[1 + TEST_BLOCKS * MD5_BLOCK_BYTES] = {0};

    for (size_t i = 0; i < TEST_BLOCKS * MD5_BLOCK_BYTES; i++)
        message[1 + i] = (uint8_t)(i % TEST_PERIOD);
    compress(words, message + 1, TEST_BLOCKS);
    for (size_t i = 0; i < 4; i++)
        if (words[i] != expected[i])
            return -1;
    return 0;
}

/* Test each of two chains while the other does something else, so that neither can borrow from its neighbour. */
static void compress_one_of_two(uint32_t words[4], const uint8_t *blocks, size_t count)
{
    uint32_t other[4] = {MD5_INITIAL_D, MD5_INITIAL_C, MD5_INITIAL_B, MD5_INITIAL_A};

    md5_compress_x2(words, blocks, other, blocks, count);
}

static void compress_other_of_two(uint32_t words[4], const uint8_t *blocks, size_t count)
{
    uint32_t one[4] = {MD5_INITIAL_D, MD5_INITIAL_C, MD5_INITIAL_B, MD5_INITIAL_A};

    md5_compress_x2(one, blocks, words, blocks, count);
}

size_t md5_lanes(void)
{
    size_t lanes = atomic_load_explicit(&chosen_lanes, memory_order_relaxed);

    if (lanes == 0) {
        lanes = md5_self_test(compress_one_of_two) == 0 && md5_self_test(compress_other_of_two) == 0 ? 2 : 1;
        atomic_store(&chosen_lanes, lanes);
    }
    return lanes;
}

uint32_t md5_features(void)
{
    uint32_t features = 0;

#if MD5_HAS_X86_64
    /* The path needs nothing beyond the base architecture, so that being compiled in is enough. */
    features |= MD5_FEATURE_X86_64;
#endif
    return features;
}

static enum path choose(uint32_t features)
{
#if MD5_HAS_X86_64
    if ((features & MD5_FEATURE_X86_64) != 0 && md5_self_test(md5_compress_scalar_x86_64) == 0)
        return PATH_SCALAR_X86_64;
#else
    (void)features;
#endif
    if (md5_self_test(md5_compress_scalar) == 0)
        return PATH_SCALAR;
    return PATH_NONE;
}

static enum path current_path(void)
{
    int path = atomic_load_explicit(&chosen_path, memory_order_relaxed);

    if (path == PATH_UNKNOWN) {
        path = (int)choose(md5_features() & atomic_load(&feature_mask));
        atomic_store(&chosen_path, path);
    }
    return (enum path)path;
}

int md5_select(void)
{
    return current_path() == PATH_NONE ? -1 : 0;
}

void md5_set_feature_mask(uint32_t mask)
{
    atomic_store(&feature_mask, mask);
    atomic_store(&chosen_path, PATH_UNKNOWN);
}

const char *md5_path_name(void)
{
    switch (current_path()) {
    case PATH_SCALAR_X86_64:
        return "scalar-x86-64";
    case PATH_SCALAR:
        return "scalar";
    default:
        return NULL;
    }
}

void md5_compress(uint32_t words[4], const uint8_t *blocks, size_t count)
{
#if MD5_HAS_X86_64
    if (current_path() == PATH_SCALAR_X86_64) {
        md5_compress_scalar_x86_64(words, blocks, count);
        return;
    }
#endif
    md5_compress_scalar(words, blocks, count);
}
