/*
 * Select the widest usable path of CRC-64. __builtin_cpu_supports detects CPU features.
 */
#include "crc64_impl.h"

#include "choice.h"

#define TEST_BYTES 2600 /* several steps of the widest path, and remainders of all widths */
#define TEST_STATE UINT64_C(0x0123456789abcdef)

int crc64_self_test_known(crc64_path *path)
{
    static const uint8_t digits[] = {'1', '2', '3', '4', '5', '6', '7', '8', '9'};
    uint8_t message[1 + TEST_BYTES];

    /* The check value of the CRC-64/NVME definition. The other value is from an independent implementation. */
    if (~path(~UINT64_C(0), digits, sizeof digits) != UINT64_C(0xae8b14860a799888))
        return -1;
    choice_write_message(message, TEST_BYTES, 0);
    return ~path(~UINT64_C(0), message + 1, TEST_BYTES) == UINT64_C(0xaf4738a094836f66) ? 0 : -1;
}

int crc64_self_test(crc64_path *path)
{
    uint8_t message[1 + TEST_BYTES];

    choice_write_message(message, TEST_BYTES, 0);
    /* The step is odd, so lengths with all remainders modulo 8, 16 and 64 occur. */
    for (size_t size_bytes = 0; size_bytes <= TEST_BYTES; size_bytes += 37)
        if (path(TEST_STATE, message + 1, size_bytes) != crc64_path_table(TEST_STATE, message + 1, size_bytes))
            return -1;
    return 0;
}

uint32_t crc64_features(void)
{
    uint32_t features = 0;

#if CRC64_HAS_CLMUL
    /* Checks CPUID, and whether the operating system saves the registers. */
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

static int is_table_right(void)
{
    return crc64_self_test_known(crc64_path_table) == 0;
}

static choice paths = {CRC64_FEATURES_ALL, crc64_features, is_table_right, is_right, CRC64_FEATURES_ALL, 0};

int crc64_select(void)
{
    return (choice_get(&paths) & CHOICE_IS_PORTABLE_RIGHT) != 0 ? 0 : -1;
}

void crc64_set_feature_mask(uint32_t mask)
{
    choice_set_mask(&paths, mask);
}

uint32_t crc64_features_in_use(void)
{
    return choice_get(&paths) & CRC64_FEATURES_ALL;
}

uint64_t crc64_advance(uint64_t state, const uint8_t *data, size_t size_bytes)
{
#if CRC64_HAS_VCLMUL
    if ((choice_get(&paths) & CRC64_FEATURE_VCLMUL) != 0)
        return crc64_path_vclmul(state, data, size_bytes);
#endif
#if CRC64_HAS_CLMUL
    if ((choice_get(&paths) & CRC64_FEATURE_CLMUL) != 0)
        return crc64_path_clmul(state, data, size_bytes);
#endif
    return crc64_path_table(state, data, size_bytes);
}
