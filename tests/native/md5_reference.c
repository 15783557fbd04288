/*
 * MD5 once more, in a way that shares nothing with the core: the constants come from the sine, the words from shifts,
 * the padding from a whole copy.
 */
#include "md5_reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *current_test = "";
uint32_t current_mask;

void require(int holds, const char *condition, const char *file, int line)
{
    const char *name = strrchr(file, '/');

    if (holds)
        return;
    fprintf(stderr, "%s, feature mask %u, %s:%d: not so: %s\n", current_test, (unsigned)current_mask,
            name == NULL ? file : name + 1, line, condition);
    exit(EXIT_FAILURE);
}

uint8_t *allocate(size_t size_bytes)
{
    uint8_t *memory = malloc(size_bytes);

    /* malloc(0) may answer NULL. */
    REQUIRE(memory != NULL || size_bytes == 0);
    return memory;
}

uint8_t *make_message(size_t size_bytes, size_t seed)
{
    uint8_t *message = allocate(size_bytes);

    /* A prime period, so that no two blocks are alike. */
    for (size_t i = 0; i < size_bytes; i++)
        message[i] = (uint8_t)((seed * 13 + i * 7) % 251);
    return message;
}

uint32_t next_random(uint32_t *seed)
{
    /* xorshift32 (Marsaglia, Xorshift RNGs, 2003). */
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

/* Terms of the Taylor series of the sine and the cosine of 1 that a double sees. */
#define TAYLOR_TERMS 24

/*
 * The integer part of 2^32 |sin(step + 1)| (RFC 1321 section 3.4). The C library's sine is not asked, which not every
 * emulator can run: a vector is turned by 1 radian for each step, by the angle sum formulas.
 */
static void fill_constants(uint32_t constants[64])
{
    double parts[2] = {0, 0}; /* cosine and sine of 1 */
    double term = 1;
    double cosine = 1, sine = 0;

    for (int i = 0; i < TAYLOR_TERMS; i++) {
        parts[i % 2] += i / 2 % 2 == 0 ? term : -term;
        term /= i + 1;
    }
    for (unsigned step = 0; step < 64; step++) {
        const double turned = cosine * parts[0] - sine * parts[1];

        sine = sine * parts[0] + cosine * parts[1];
        cosine = turned;
        constants[step] = (uint32_t)((sine < 0 ? -sine : sine) * 4294967296.0);
    }
}

static uint32_t get_constant(unsigned step)
{
    static uint32_t constants[64];

    if (constants[0] == 0)
        fill_constants(constants);
    return constants[step];
}

static uint32_t mix(unsigned step, uint32_t b, uint32_t c, uint32_t d)
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

void reference_block(uint32_t words[4], const uint8_t block[64])
{
    static const unsigned rotations[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    static const unsigned factors[4] = {1, 5, 3, 7};
    static const unsigned offsets[4] = {0, 1, 5, 0};
    uint32_t a = words[0], b = words[1], c = words[2], d = words[3];

    for (unsigned step = 0; step < 64; step++) {
        const unsigned bits = rotations[step / 16][step % 4];
        const unsigned at = 4 * ((factors[step / 16] * step + offsets[step / 16]) % 16);
        uint32_t word = 0;
        uint32_t sum;

        for (unsigned i = 4; i-- > 0;)
            word = word << 8 | block[at + i];
        sum = a + mix(step, b, c, d) + word + get_constant(step);
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

void reference_finish(const uint32_t words[4], uint64_t before_bytes, const uint8_t *message, size_t size_bytes,
                      uint8_t digest[16])
{
    const size_t padded_bytes = (size_bytes + 8) / 64 * 64 + 64;
    uint8_t *padded = calloc(padded_bytes, 1);
    uint32_t chain[4] = {words[0], words[1], words[2], words[3]};

    REQUIRE(padded != NULL);
    for (size_t i = 0; i < size_bytes; i++)
        padded[i] = message[i];
    padded[size_bytes] = 0x80;
    for (size_t i = 0; i < 8; i++)
        padded[padded_bytes - 8 + i] = (uint8_t)((before_bytes + size_bytes) * 8 >> 8 * i);
    for (size_t at = 0; at < padded_bytes; at += 64)
        reference_block(chain, padded + at);
    free(padded);
    for (size_t i = 0; i < 16; i++)
        digest[i] = (uint8_t)(chain[i / 4] >> 8 * (i % 4));
}

void reference_digest(const uint8_t *message, size_t size_bytes, uint8_t digest[16])
{
    static const uint32_t initial[4] = {0x67452301U, 0xefcdab89U, 0x98badcfeU, 0x10325476U};

    reference_finish(initial, 0, message, size_bytes, digest);
}
