/*
 * Choose the path: what md5_dispatch.c does for MD5, for CRC-64.
 *
 * A path is used if it is compiled in, the machine has what it needs, the mask allows it, and it passes the self-test.
 * What is usable is kept in one atomic; threads that find it unknown at the same time all find the same.
 */
#include "crc64_impl.h"

#include <stdatomic.h>

/* Beside the feature bits in what is usable. */
#define IS_KNOWN 0x40000000U
#define IS_TABLE_RIGHT 0x20000000U

static _Atomic uint32_t usable = 0; /* not known yet, or the mask has changed since */
static _Atomic uint32_t feature_mask = CRC64_FEATURES_ALL;

#define TEST_BYTES 2600 /* several steps of the widest path, and rests of all widths */
#define TEST_PERIOD 251 /* prime: no two chains, steps or words see the same bytes */
#define TEST_STATE UINT64_C(0x0123456789abcdef)

/* One byte more, and taken from the second on: a path must not need alignment. */
static void write_test_message(uint8_t message[1 + TEST_BYTES])
{
    message[0] = 0;
    for (size_t i = 0; i < TEST_BYTES; i++)
        message[1 + i] = (uint8_t)(i % TEST_PERIOD);
}

int crc64_self_test_known(crc64_path *path)
{
    static const uint8_t digits[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
    uint8_t message[1 + TEST_BYTES];

    /* The check value of the CRC's definition; the other one is from an independent implementation. */
    if (~path(~UINT64_C(0), digits, sizeof digits) != UINT64_C(0xae8b14860a799888))
        return -1;
    write_test_message(message);
    return ~path(~UINT64_C(0), message + 1, TEST_BYTES) == UINT64_C(0xaf4738a094836f66) ? 0 : -1;
}

int crc64_self_test(crc64_path *path)
{
    uint8_t message[1 + TEST_BYTES];

    write_test_message(message);
    /* The step is prime, too: lengths of all remainders by 8, 16, 64 come up. */
    for (size_t size_bytes = 0; size_bytes <= TEST_BYTES; size_bytes += 37)
        if (path(TEST_STATE, message + 1, size_bytes) != crc64_path_table(TEST_STATE, message + 1, size_bytes))
            return -1;
    return 0;
}

uint32_t crc64_features(void)
{
    uint32_t features = 0;

#if CRC64_HAS_CLMUL
    /* The compiler's library asks for the instructions and whether the operating system saves their registers. */
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul"))
        features |= CRC64_FEATURE_CLMUL;
#endif
#if CRC64_HAS_VCLMUL
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f"))
        features |= CRC64_FEATURE_VCLMUL;
#endif
    return features;
}

static int is_right(uint32_t feature)
{
    switch (feature) {
#if CRC64_HAS_CLMUL
    case CRC64_FEATURE_CLMUL:
        return crc64_self_test(crc64_path_clmul) == 0;
#endif
#if CRC64_HAS_VCLMUL
    case CRC64_FEATURE_VCLMUL:
        return crc64_self_test(crc64_path_vclmul) == 0;
#endif
    default:
        return 0;
    }
}

static uint32_t find_usable(uint32_t features)
{
    uint32_t found = IS_KNOWN;

    /* The others are held against the portable path: without it nothing is known of any. */
    if (crc64_self_test_known(crc64_path_table) != 0)
        return found;
    found |= IS_TABLE_RIGHT;
    for (uint32_t feature = 1; feature <= CRC64_FEATURES_ALL; feature <<= 1)
        if ((features & feature) != 0 && is_right(feature))
            found |= feature;
    return found;
}

static uint32_t get_usable(void)
{
    uint32_t found = atomic_load_explicit(&usable, memory_order_relaxed);

    if (found == 0) {
        found = find_usable(crc64_features() & atomic_load(&feature_mask));
        atomic_store(&usable, found);
    }
    return found;
}

int crc64_select(void)
{
    return (get_usable() & IS_TABLE_RIGHT) != 0 ? 0 : -1;
}

void crc64_set_feature_mask(uint32_t mask)
{
    atomic_store(&feature_mask, mask);
    atomic_store(&usable, 0);
}

uint32_t crc64_features_in_use(void)
{
    return get_usable() & CRC64_FEATURES_ALL;
}

uint64_t crc64_advance(uint64_t state, const uint8_t *data, size_t size_bytes)
{
#if CRC64_HAS_VCLMUL
    if ((get_usable() & CRC64_FEATURE_VCLMUL) != 0)
        return crc64_path_vclmul(state, data, size_bytes);
#endif
#if CRC64_HAS_CLMUL
    if ((get_usable() & CRC64_FEATURE_CLMUL) != 0)
        return crc64_path_clmul(state, data, size_bytes);
#endif
    return crc64_path_table(state, data, size_bytes);
}
