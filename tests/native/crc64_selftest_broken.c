/*
 * What keeps a broken path from being used.
 *
 * The linker lets the dispatcher call __wrap_* where it means a path (ld, --wrap; CMakeLists.txt lists them), so that a
 * path can be broken here in the whole program, as a compiler or a processor may break it.
 */
#include "crc64_selftest.h"

#include "crc64_impl.h"
#include "md5_reference.h"

#include <stdlib.h>

/* The shortest message for which a path is wrong; those of no bytes are always right. */
static size_t broken_from;

static uint64_t flip_one_bit(uint64_t state, const uint8_t *data, size_t size_bytes)
{
    return crc64_path_table(state, data, size_bytes) ^ (size_bytes >= broken_from ? UINT64_C(1) << 40 : 0);
}

static uint64_t forget_the_state(uint64_t state, const uint8_t *data, size_t size_bytes)
{
    return crc64_path_table(size_bytes >= broken_from ? 0 : state, data, size_bytes);
}

static uint64_t forget_the_last_byte(uint64_t state, const uint8_t *data, size_t size_bytes)
{
    return crc64_path_table(state, data, size_bytes >= broken_from ? size_bytes - 1 : size_bytes);
}

static void test_broken_paths_fail_their_self_test(void)
{
    static crc64_path *const broken[] = {flip_one_bit, forget_the_state, forget_the_last_byte};

    REQUIRE(crc64_self_test_known(crc64_path_table) == 0);
    REQUIRE(crc64_self_test(crc64_path_table) == 0);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        for (broken_from = 1; broken_from < 2560; broken_from += 101)
            REQUIRE(crc64_self_test(broken[i]) == -1);
        broken_from = 9;
        REQUIRE(crc64_self_test_known(broken[i]) == -1);
        broken_from = 1000;
        REQUIRE(crc64_self_test_known(broken[i]) == -1);
    }
}

/* The paths, each as the rest of the program sees it. */

#define WRAP(name) \
    static int is_broken_##name = 0; \
    crc64_path __real_##name, __wrap_##name; \
    uint64_t __wrap_##name(uint64_t state, const uint8_t *data, size_t size_bytes) \
    { \
        return __real_##name(state, data, size_bytes) ^ (is_broken_##name ? 1 : 0); \
    }

WRAP(crc64_path_table)
#if CRC64_HAS_CLMUL
WRAP(crc64_path_clmul)
#endif
#if CRC64_HAS_VCLMUL
WRAP(crc64_path_vclmul)
#endif

#if CRC64_HAS_CLMUL
static void require_values_are_right(void)
{
    for (size_t size_bytes = 0; size_bytes < 3000; size_bytes += 499) {
        uint8_t *message = make_message(size_bytes, 1);

        REQUIRE(crc64_update(0, message, size_bytes) == reference_crc64(message, size_bytes));
        free(message);
    }
}

static void test_broken_path_is_not_used(void)
{
    const uint32_t in_use = crc64_features_in_use();

#if CRC64_HAS_VCLMUL
    is_broken_crc64_path_vclmul = 1;
    crc64_set_feature_mask(current_mask); /* what the self-test found is forgotten */
    REQUIRE(crc64_features_in_use() == (in_use & ~CRC64_FEATURE_VCLMUL));
    require_values_are_right();
    is_broken_crc64_path_vclmul = 0;
#endif
    /* The wide path hands short messages to the narrow one, so that they fall together. */
    is_broken_crc64_path_clmul = 1;
    crc64_set_feature_mask(current_mask);
    REQUIRE(crc64_features_in_use() == 0);
    require_values_are_right();
    is_broken_crc64_path_clmul = 0;
    crc64_set_feature_mask(current_mask);
    REQUIRE(crc64_features_in_use() == in_use);
}
#endif

static void test_nothing_is_in_use_where_even_the_portable_path_is_broken(void)
{
    is_broken_crc64_path_table = 1;
    crc64_set_feature_mask(current_mask);
    REQUIRE(crc64_select() == -1);
    REQUIRE(crc64_features_in_use() == 0);
    is_broken_crc64_path_table = 0;
    crc64_set_feature_mask(current_mask);
    REQUIRE(crc64_select() == 0);
}

const test_case broken_tests[] = {
    {"broken paths fail their self-test", test_broken_paths_fail_their_self_test},
#if CRC64_HAS_CLMUL
    {"broken path is not used", test_broken_path_is_not_used},
#endif
    {"nothing is in use where even the portable path is broken",
     test_nothing_is_in_use_where_even_the_portable_path_is_broken},
    {NULL, NULL},
};
