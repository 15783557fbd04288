/*
 * The CRC-64 core by itself, under the sanitizers and on other machines: every path that this one has, against an
 * implementation that shares nothing with it.
 *
 * Everything is tested under each mask. Messages are read from heap blocks of just their size and from the last bytes
 * before a page that nobody may read.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "crc64_selftest.h"

#include "crc64.h"
#include "md5_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL_LENGTHS 600
#define LONGEST_BYTES 5000

uint64_t reference_crc64(const uint8_t *data, size_t size_bytes)
{
    uint64_t state = ~UINT64_C(0);

    /* Highest power first, as the polynomial is written: so each byte, and the state in the end, is turned around. */
    for (size_t at = 0; at < size_bytes; at++)
        for (unsigned bit = 0; bit < 8; bit++) {
            const uint64_t top = state >> 63 ^ (data[at] >> bit & 1U);

            state <<= 1;
            if (top != 0)
                state ^= UINT64_C(0xad93d23594c93659);
        }
    for (unsigned bit = 0; bit < 32; bit++) {
        const uint64_t difference = (state >> bit ^ state >> (63 - bit)) & 1;

        state ^= difference << bit | difference << (63 - bit);
    }
    return ~state;
}

static void test_known_values(void)
{
    REQUIRE(crc64_select() == 0);
    REQUIRE(crc64_update(0, (const uint8_t *)"123456789", 9) == UINT64_C(0xae8b14860a799888));
    REQUIRE(reference_crc64((const uint8_t *)"123456789", 9) == UINT64_C(0xae8b14860a799888));
    REQUIRE(crc64_update(0, NULL, 0) == 0);
    REQUIRE(crc64_update(1234, NULL, 0) == 1234);
}

static void test_every_length(void)
{
    for (size_t size_bytes = 0; size_bytes <= LONGEST_BYTES; size_bytes += size_bytes < ALL_LENGTHS ? 1 : 67) {
        uint8_t *message = make_message(size_bytes, size_bytes);

        REQUIRE(crc64_update(0, message, size_bytes) == reference_crc64(message, size_bytes));
        free(message);
    }
}

static void test_every_alignment(void)
{
    uint8_t *message = make_message(LONGEST_BYTES, 3);

    for (size_t first = 0; first < 64; first++)
        REQUIRE(crc64_update(0, message + first, 2000) == reference_crc64(message + first, 2000));
    free(message);
}

static void test_pieces_of_any_length(void)
{
    uint32_t seed = 7;
    uint8_t *message = make_message(LONGEST_BYTES, 5);
    const uint64_t expected = reference_crc64(message, LONGEST_BYTES);

    for (int round = 0; round < 50; round++) {
        uint64_t streamed = 0, combined = 0;
        size_t at = 0;

        while (at < LONGEST_BYTES) {
            size_t length = next_random(&seed) % (round < 25 ? 2500 : 40);

            if (length > LONGEST_BYTES - at)
                length = LONGEST_BYTES - at;
            streamed = crc64_update(streamed, message + at, length);
            combined = crc64_combine(combined, crc64_update(0, message + at, length), length);
            at += length;
        }
        REQUIRE(streamed == expected);
        REQUIRE(combined == expected);
    }
    free(message);
}

static void test_blocks(void)
{
    static const size_t sizes_bytes[] = {0, 1, 63, 64, 65, 1000, 4096, LONGEST_BYTES};
    static const size_t blocks_bytes[] = {1, 7, 64, 1000, 1024, LONGEST_BYTES, 100000};

    for (size_t i = 0; i < sizeof sizes_bytes / sizeof *sizes_bytes; i++)
        for (size_t j = 0; j < sizeof blocks_bytes / sizeof *blocks_bytes; j++) {
            const size_t size_bytes = sizes_bytes[i], block_bytes = blocks_bytes[j];
            const size_t count = (size_bytes + block_bytes - 1) / block_bytes;
            const size_t last_bytes = count == 0 ? 0 : size_bytes - (count - 1) * block_bytes;
            uint8_t *message = make_message(size_bytes, i);
            uint64_t *values = (uint64_t *)(void *)allocate(count * sizeof *values);

            crc64_blocks(message, size_bytes, block_bytes, values);
            for (size_t block = 0; block < count; block++) {
                const size_t length = block == count - 1 ? last_bytes : block_bytes;

                REQUIRE(values[block] == crc64_update(0, message + block * block_bytes, length));
            }
            REQUIRE(crc64_combine_blocks(values, count, block_bytes, last_bytes) == reference_crc64(message, size_bytes));
            free(values);
            free(message);
        }
}

/* Zeros behind a value leave what the shift by their number leaves, however long: 2^60 is 2^59 twice. */
static void test_combining_over_lengths_that_nobody_can_compute(void)
{
    const uint64_t half = UINT64_C(1) << 59;
    const uint64_t value = UINT64_C(0x0123456789abcdef);

    REQUIRE(crc64_combine(crc64_combine(value, 0, half), 0, half) == crc64_combine(value, 0, 2 * half));
    REQUIRE(crc64_combine(crc64_combine(value, 0, UINT64_MAX), 0, 1) == crc64_combine(crc64_combine(value, 0, 1), 0, UINT64_MAX));
    REQUIRE(crc64_combine(value, 99, 0) == (value ^ 99));
}

static void test_no_byte_beyond_a_message_is_read(void)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = mmap(NULL, 3 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *const page = memory + page_bytes;

    REQUIRE(memory != MAP_FAILED);
    REQUIRE(mprotect(page, page_bytes, PROT_READ | PROT_WRITE) == 0);
    for (size_t i = 0; i < page_bytes; i++)
        page[i] = (uint8_t)(i * 7 % 251);
    for (size_t length = 0; length <= 2500; length += length < ALL_LENGTHS ? 1 : 61) {
        REQUIRE(crc64_update(0, page, length) == reference_crc64(page, length));
        REQUIRE(crc64_update(0, page + (page_bytes - length), length) ==
                reference_crc64(page + (page_bytes - length), length));
    }
    REQUIRE(munmap(memory, 3 * page_bytes) == 0);
}

static const test_case value_tests[] = {
    {"known values", test_known_values},
    {"every length", test_every_length},
    {"every alignment", test_every_alignment},
    {"pieces of any length", test_pieces_of_any_length},
    {"blocks", test_blocks},
    {"combining over lengths that nobody can compute", test_combining_over_lengths_that_nobody_can_compute},
    {"no byte beyond a message is read", test_no_byte_beyond_a_message_is_read},
    {NULL, NULL},
};

static const test_case *const parts[] = {value_tests, broken_tests};

int main(void)
{
    for (current_mask = 0; current_mask <= CRC64_FEATURES_ALL; current_mask++) {
        const uint32_t in_use = crc64_features() & current_mask;

        crc64_set_feature_mask(current_mask);
        current_test = "mask decides what is in use";
        REQUIRE(crc64_features_in_use() == in_use);
        printf("mask %u:%s%s table\n", (unsigned)current_mask, (in_use & CRC64_FEATURE_VCLMUL) != 0 ? " vclmul" : "",
               (in_use & CRC64_FEATURE_CLMUL) != 0 ? " clmul" : "");
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
            for (const test_case *test = parts[part]; test->name != NULL; test++) {
                current_test = test->name;
                test->run();
            }
    }
    return EXIT_SUCCESS;
}
