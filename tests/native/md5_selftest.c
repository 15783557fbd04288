/*
 * The C core under the sanitisers, on every path that this machine has, against an implementation of its own that
 * shares nothing with it: the constants come from sin(), the words from shifts, the padding from a whole copy.
 *
 * Inputs live in heap blocks of just their size, so that one byte read too far is seen.
 */
#include "md5_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_BYTES 1100
#define RESUMED_BYTES 300
#define SPLIT_ROUNDS 500

#define REQUIRE(condition) require((condition), #condition, __LINE__)

static const char *current_test = "";
static uint32_t current_mask;

static void require(int holds, const char *condition, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s, feature mask %u, line %d: not so: %s\n", current_test, (unsigned)current_mask, line, condition);
    exit(EXIT_FAILURE);
}

static void *allocate(size_t size_bytes)
{
    void *memory = malloc(size_bytes);

    /* malloc(0) may answer NULL. */
    REQUIRE(memory != NULL || size_bytes == 0);
    return memory;
}

/* The same bytes in every run; a prime period, so that no two blocks are alike. */
static uint8_t *make_message(size_t size_bytes)
{
    uint8_t *message = allocate(size_bytes);

    for (size_t i = 0; i < size_bytes; i++)
        message[i] = (uint8_t)(i * 7 % 251);
    return message;
}

static uint32_t reference_mix(unsigned step, uint32_t b, uint32_t c, uint32_t d)
{
    switch (step / 16) {
    case 0:
        return (b & c) | (~b & d);
    case 1:
        return (d & b) | (~d & c);
    case 2:
        return b ^ c ^ d;
    default:
        return c ^ (b | ~d);
    }
}

static void reference_block(uint32_t words[4], const uint8_t block[64])
{
    static const unsigned rotations[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    static const unsigned factors[4] = {1, 5, 3, 7};
    static const unsigned offsets[4] = {0, 1, 5, 0};
    uint32_t a = words[0], b = words[1], c = words[2], d = words[3];

    for (unsigned step = 0; step < 64; step++) {
        const uint32_t constant = (uint32_t)floor(fabs(sin((double)step + 1)) * 4294967296.0);
        const unsigned bits = rotations[step / 16][step % 4];
        const unsigned at = 4 * ((factors[step / 16] * step + offsets[step / 16]) % 16);
        uint32_t word = 0;
        uint32_t sum;

        for (unsigned i = 4; i-- > 0;)
            word = word << 8 | block[at + i];
        sum = a + reference_mix(step, b, c, d) + word + constant;
        a = d;
        d = c;
        c = b;
        b += sum << bits | sum >> (32 - bits);
    }
    words[0] += a;
    words[1] += b;
    words[2] += c;
    words[3] += d;
}

static void reference_digest(const uint8_t *message, size_t size_bytes, uint8_t digest[16])
{
    const size_t padded_bytes = (size_bytes + 8) / 64 * 64 + 64;
    uint8_t *padded = calloc(padded_bytes, 1);
    uint32_t words[4] = {0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U};

    REQUIRE(padded != NULL);
    for (size_t i = 0; i < size_bytes; i++)
        padded[i] = message[i];
    padded[size_bytes] = 0x80;
    for (size_t i = 0; i < 8; i++)
        padded[padded_bytes - 8 + i] = (uint8_t)((uint64_t)size_bytes * 8 >> 8 * i);
    for (size_t at = 0; at < padded_bytes; at += 64)
        reference_block(words, padded + at);
    free(padded);
    for (size_t i = 0; i < 16; i++)
        digest[i] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
}

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
        uint8_t *message = make_message(size_bytes);

        REQUIRE(md5_init(&context) == 0);
        md5_update(&context, message, size_bytes);
        require_digest(&context, message, size_bytes);
        /* The digest must not have disturbed the stream. */
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
}

static uint32_t next_random(uint32_t *seed)
{
    /* xorshift32 (Marsaglia, Xorshift RNGs, 2003): the same splits in every run. */
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static void test_random_splits(void)
{
    uint8_t *message = make_message(LONGEST_BYTES);
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
    uint8_t *message = make_message(RESUMED_BYTES);

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
    uint8_t *message = make_message(RESUMED_BYTES);

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
    uint8_t *message = make_message(RESUMED_BYTES);
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

/* What a miscompiled path might do. */
static void compress_with_wrong_bit(uint32_t words[4], const uint8_t *blocks, size_t count)
{
    md5_compress_scalar(words, blocks, count);
    words[2] ^= 0x80000000U;
}

static void compress_first_block_only(uint32_t words[4], const uint8_t *blocks, size_t count)
{
    md5_compress_scalar(words, blocks, count == 0 ? 0 : 1);
}

static void test_broken_paths_fail_their_self_test(void)
{
    REQUIRE(md5_self_test(md5_compress) == 0);
    REQUIRE(md5_self_test(md5_compress_scalar) == 0);
    REQUIRE(md5_self_test(compress_with_wrong_bit) == -1);
    REQUIRE(md5_self_test(compress_first_block_only) == -1);
}

static void test_mask_decides_the_path(void)
{
    const int allows_x86_64 = (md5_features() & current_mask & MD5_FEATURE_X86_64) != 0;

    REQUIRE(md5_path_name() != NULL);
    REQUIRE(strcmp(md5_path_name(), allows_x86_64 ? "scalar-x86-64" : "scalar") == 0);
}

typedef struct {
    const char *name;
    void (*run)(void);
} test_case;

static const test_case tests[] = {
    {"vectors", test_vectors},
    {"every length", test_every_length},
    {"NULL without bytes", test_null_without_bytes},
    {"random splits", test_random_splits},
    {"resumed at every byte", test_resumed_at_every_byte},
    {"damaged states refused", test_damaged_states_refused},
    {"states of wrong length refused", test_states_of_wrong_length_refused},
    {"worked example", test_worked_example},
    {"broken paths fail their self-test", test_broken_paths_fail_their_self_test},
    {"mask decides the path", test_mask_decides_the_path},
};

int main(void)
{
    for (current_mask = 0; current_mask <= MD5_FEATURES_ALL; current_mask++) {
        md5_set_feature_mask(current_mask);
        printf("mask %u: %s\n", (unsigned)current_mask, md5_path_name());
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
            current_test = tests[i].name;
            tests[i].run();
        }
    }
    return EXIT_SUCCESS;
}
