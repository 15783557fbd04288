/*
 * Two MD5 chains in one loop, in portable C: two digests for the price of one.
 *
 * A chain leaves half of the processor idle, for each step waits for the one before (md5_scalar.c). The steps of another
 * chain, which wait for none of these, fill the gaps: twice the bytes a second of one chain, with the same compiler.
 * The order of operations matters little then, so that C is enough.
 */
#include "md5_steps.h"

#define BOTH(step, a, b, c, d, k, bits, constant) \
    { \
        const uint8_t *const blocks = one; \
        step(a##0, b##0, c##0, d##0, k, bits, constant) \
    } \
    { \
        const uint8_t *const blocks = other; \
        step(a##1, b##1, c##1, d##1, k, bits, constant) \
    }
#define BOTH_F(a, b, c, d, k, bits, constant) BOTH(C_F, a, b, c, d, k, bits, constant)
#define BOTH_G(a, b, c, d, k, bits, constant) BOTH(C_G, a, b, c, d, k, bits, constant)
#define BOTH_H(a, b, c, d, k, bits, constant) BOTH(C_H, a, b, c, d, k, bits, constant)
#define BOTH_I(a, b, c, d, k, bits, constant) BOTH(C_I, a, b, c, d, k, bits, constant)

void md5_compress_x2(uint32_t one_words[4], const uint8_t *one, uint32_t other_words[4], const uint8_t *other,
                     size_t count)
{
    uint32_t a0 = one_words[0], b0 = one_words[1], c0 = one_words[2], d0 = one_words[3];
    uint32_t a1 = other_words[0], b1 = other_words[1], c1 = other_words[2], d1 = other_words[3];

    for (; count != 0; count--, one += MD5_BLOCK_BYTES, other += MD5_BLOCK_BYTES) {
        ALL_STEPS(BOTH_F, BOTH_G, BOTH_H, BOTH_I)
        one_words[0] = a0 += one_words[0];
        one_words[1] = b0 += one_words[1];
        one_words[2] = c0 += one_words[2];
        one_words[3] = d0 += one_words[3];
        other_words[0] = a1 += other_words[0];
        other_words[1] = b1 += other_words[1];
        other_words[2] = c1 += other_words[2];
        other_words[3] = d1 += other_words[3];
    }
}
