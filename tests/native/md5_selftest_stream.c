/*
 * One stream: updates, digests, and states that are saved and taken up again.
 */
#include "md5_selftest.h"

#include "md5.h"
#include "md5_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_BYTES 1100
#define RESUMED_BYTES 300
#define SPLIT_ROUNDS 100

static void require_digest(const md5_context *context, const uint8_t *message, size_t size_bytes)
{
    uint8_t expected[MD5_DIGEST_BYTES];
    uint8_t actual[MD5_DIGEST_BYTES];

    reference_digest(message, size_bytes, expected);
    md5_final(context, actual);
    REQUIRE(memcmp(expected, actual, sizeof expected) == 0);
}

/* RFC 1321 appendix A.5. */
static void test_vectors(void)
{
    static const char *const vectors[][2] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };

    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        md5_context context;
        uint8_t digest[MD5_DIGEST_BYTES];
        char text[2 * MD5_DIGEST_BYTES + 1];

        REQUIRE(md5_init(&context) == 0);
        md5_update(&context, vectors[i][0], strlen(vectors[i][0]));
        md5_final(&context, digest);
        for (size_t j = 0; j < MD5_DIGEST_BYTES; j++)
            snprintf(text + 2 * j, 3, "%02x", digest[j]);
        REQUIRE(strcmp(text, vectors[i][1]) == 0);
    }
}

static void test_every_length(void)
{
    for (size_t size_bytes = 0; size_bytes <= LONGEST_BYTES; size_bytes++) {
        md5_context context;
        uint8_t *message = make_message(size_bytes, 0);

        REQUIRE(md5_init(&context) == 0);
        md5_update(&context, message, size_bytes);
        require_digest(&context, message, size_bytes);
        /* The digest must not have disturbed the stream. */
        require_digest(&context, message, size_bytes);
        /* Begun with all of its bytes, or with the first half. */
        REQUIRE(md5_begin(&context, message, size_bytes) == 0);
        require_digest(&context, message, size_bytes);
        REQUIRE(md5_begin(&context, message, size_bytes / 2) == 0);
        md5_update(&context, message + size_bytes / 2, size_bytes - size_bytes / 2);
        require_digest(&context, message, size_bytes);
        free(message);
    }
}

static void test_null_without_bytes(void)
{
    md5_context context;

    REQUIRE(md5_init(&context) == 0);
    md5_update(&context, NULL, 0);
    require_digest(&context, NULL, 0);
    REQUIRE(md5_begin(&context, NULL, 0) == 0);
    require_digest(&context, NULL, 0);
}

static void test_random_splits(void)
{
    uint8_t *message = make_message(LONGEST_BYTES, 0);
    uint32_t seed = 1;

    for (int round = 0; round < SPLIT_ROUNDS; round++) {
        md5_context context;
        const size_t longest_piece = 1 + next_random(&seed) % 200;

        REQUIRE(md5_init(&context) == 0);
        for (size_t at = 0; at < LONGEST_BYTES;) {
            size_t piece_bytes = next_random(&seed) % (longest_piece + 1);
            uint8_t *piece;

            if (piece_bytes > LONGEST_BYTES - at)
                piece_bytes = LONGEST_BYTES - at;
            piece = allocate(piece_bytes);
            if (piece_bytes != 0)
                memcpy(piece, message + at, piece_bytes);
            md5_update(&context, piece, piece_bytes);
            free(piece);
            at += piece_bytes;
        }
        require_digest(&context, message, LONGEST_BYTES);
    }
    free(message);
}

/* Export after ${at} bytes into a heap block of just the state's length. */
static uint8_t *make_state(const uint8_t *message, size_t at, size_t *length)
{
    md5_context context;
    uint8_t state[MD5_STATE_MAX_BYTES];
    uint8_t *exact;

    REQUIRE(md5_init(&context) == 0);
    md5_update(&context, message, at);
    *length = md5_export(&context, state);
    REQUIRE(*length == MD5_STATE_MIN_BYTES + at % MD5_BLOCK_BYTES);
    exact = allocate(*length);
    memcpy(exact, state, *length);
    return exact;
}

static void test_resumed_at_every_byte(void)
{
    uint8_t *message = make_message(RESUMED_BYTES, 0);

    for (size_t at = 0; at <= RESUMED_BYTES; at++) {
        md5_context resumed;
        size_t length;
        uint8_t *state = make_state(message, at, &length);

        REQUIRE(md5_state_problem(state, length) == NULL);
        REQUIRE(md5_import(&resumed, state, length) == 0);
        md5_update(&resumed, message + at, RESUMED_BYTES - at);
        require_digest(&resumed, message, RESUMED_BYTES);
        free(state);
    }
    free(message);
}

/* A refused import says why, and leaves the context as it was. */
static void require_refused(const uint8_t *state, size_t length)
{
    md5_context context;
    md5_context before;

    REQUIRE(md5_init(&context) == 0);
    md5_update(&context, "x", 1);
    before = context;
    REQUIRE(md5_state_problem(state, length) != NULL);
    REQUIRE(md5_import(&context, state, length) == -1);
    REQUIRE(memcmp(&before, &context, sizeof context) == 0);
}

static void test_damaged_states_refused(void)
{
    static const size_t positions[] = {0, 1, 55, 63, 64, 100, 299};
    uint8_t *message = make_message(RESUMED_BYTES, 0);

    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        size_t length;
        uint8_t *state = make_state(message, positions[i], &length);

        for (size_t bit = 0; bit < 8 * length; bit++) {
            state[bit / 8] ^= (uint8_t)(1U << bit % 8);
            require_refused(state, length);
            state[bit / 8] ^= (uint8_t)(1U << bit % 8);
        }
        REQUIRE(md5_state_problem(state, length) == NULL);
        free(state);
    }
    free(message);
}

static void test_states_of_wrong_length_refused(void)
{
    uint8_t *message = make_message(RESUMED_BYTES, 0);
    size_t length;
    uint8_t *state = make_state(message, RESUMED_BYTES, &length);
    uint8_t *longer = allocate(length + 1);

    for (size_t cut = 0; cut < length; cut++) {
        uint8_t *truncated = allocate(cut);

        if (cut != 0)
            memcpy(truncated, state, cut);
        require_refused(truncated, cut);
        free(truncated);
    }
    memcpy(longer, state, length);
    longer[length] = 0;
    require_refused(longer, length + 1);
    free(longer);
    free(state);
    free(message);
}

/* Keep in step with md5.h. */
static void test_worked_example(void)
{
    static const uint8_t expected[] = {
        0x89, 0x4d, 0x44, 0x35, 0x01, 0x03, 0x2b, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd,
        0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x61, 0x62, 0x63, 0xb8, 0x11, 0xd2, 0xdc, 0xbe, 0xcc, 0x81, 0xf8,
    };
    size_t length;
    uint8_t *state = make_state((const uint8_t *)"abc", 3, &length);

    REQUIRE(length == sizeof expected);
    REQUIRE(memcmp(state, expected, length) == 0);
    free(state);
}

const test_case stream_tests[] = {
    {"vectors", test_vectors},
    {"every length", test_every_length},
    {"NULL without bytes", test_null_without_bytes},
    {"random splits", test_random_splits},
    {"resumed at every byte", test_resumed_at_every_byte},
    {"damaged states refused", test_damaged_states_refused},
    {"states of wrong length refused", test_states_of_wrong_length_refused},
    {"worked example", test_worked_example},
    {NULL, NULL},
};
