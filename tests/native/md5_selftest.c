/*
 * The C core by itself, under the sanitizers and on other machines: every path that this one has, against an
 * implementation that shares nothing with it (md5_reference.c).
 *
 * All masks are gone through, and everything is tested under each that differs from those before it in what computes
 * here. Messages are read from heap blocks of just their size and from the last bytes before a page that nobody may read.
 */
#include "md5_selftest.h"

#include "md5.h"
#include "md5_reference.h"

#include <stdio.h>
#include <stdlib.h>

static const struct {
    uint32_t feature;
    const char *name;
} paths[] = {
    {MD5_FEATURE_AVX512, "avx512"},
    {MD5_FEATURE_AVX2, "avx2"},
    {MD5_FEATURE_NEON, "neon"},
    {MD5_FEATURE_INTERLEAVED, "interleaved"},
    {MD5_FEATURE_X86_64, "scalar-x86-64"},
    {0, "scalar"},
};

static const test_case *const parts[] = {stream_tests, lanes_tests,  broken_tests,
                                         batch_tests,  border_tests, scheduler_tests};

static void run_tests(void)
{
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        for (const test_case *test = parts[part]; test->name != NULL; test++) {
            current_test = test->name;
            test->run();
        }
}

/* With any argument only what the processor gets without a mask is tested: enough where another one is emulated. */
int main(int argc, char **argv)
{
    uint32_t is_tested = 0; /* one bit for each set of features */

    (void)argv;

    for (current_mask = 0; current_mask <= MD5_FEATURES_ALL; current_mask++) {
        const uint32_t in_use = md5_features() & current_mask;

        md5_set_feature_mask(current_mask);
        current_test = "mask decides what is in use";
        REQUIRE(md5_features_in_use() == in_use);
        printf("mask %u:", (unsigned)current_mask);
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
            if ((in_use & paths[i].feature) == paths[i].feature)
                printf(" %s", paths[i].name);
        printf("\n");
        if (argc > 1 ? current_mask == MD5_FEATURES_ALL : (is_tested >> in_use & 1) == 0)
            run_tests();
        is_tested |= UINT32_C(1) << in_use;
    }
    return EXIT_SUCCESS;
}
