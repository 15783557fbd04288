/*
 * Two or four interleaved MD5 chains: two take the time of one, four that of 2.
 *
 * One chain leaves more than half of the processor idle, because each step depends on the previous one (md5_scalar.c).
 * Independent chains fill the gaps. Two leave some, so the order of operations still matters: with the instructions of
 * both chains in turn they take 1.03 times as long as one, in C or with one asm statement for each 1.08 to 1.15 times.
 * Four leave none, and C is sufficient.
 */
#include "md5_steps.h"

#define ONE(step, chain, a, b, c, d, k, bits, constant) \
    { \
        const uint8_t *const blocks = next##chain; \
        step(a##chain, b##chain, c##chain, d##chain, k, bits, constant) \
    }
#define LOAD(chain) \
    uint32_t a##chain = words[0][chain], b##chain = words[1][chain]; \
    uint32_t c##chain = words[2][chain], d##chain = words[3][chain]; \
    const uint8_t *next##chain = starts[chain];
#define STORE(chain) \
    words[0][chain] = a##chain += words[0][chain]; \
    words[1][chain] = b##chain += words[1][chain]; \
    words[2][chain] = c##chain += words[2][chain]; \
    words[3][chain] = d##chain += words[3][chain]; \
    next##chain += MD5_BLOCK_BYTES;

#define STEP_X2(step, ...) ONE(step, 0, __VA_ARGS__) ONE(step, 1, __VA_ARGS__)
#if MD5_HAS_X86_64
#define TWO(early, late, a, b, c, d, k, bits, constant) \
    { \
        uint32_t t0, t1; \
        __asm__(ASM_ADD_WORD(0) ASM_ADD_WORD(1) early(0) early(1) late(0) late(1) ASM_ROTATE(0) ASM_ROTATE(1) \
                : ASM_RESULTS(0, a##0, t0), ASM_RESULTS(1, a##1, t1) \
                : ASM_CHAIN(0, b##0, c##0, d##0, next0, k), ASM_CHAIN(1, b##1, c##1, d##1, next1, k), \
                  ASM_CONSTANTS(bits, constant) \
                : "cc"); \
    }
#define X2_F(...) TWO(ASM_EARLY_F, ASM_LATE_F, __VA_ARGS__)
#define X2_G(...) TWO(ASM_EARLY_G, ASM_LATE_G, __VA_ARGS__)
#define X2_H(...) TWO(ASM_EARLY_H, ASM_LATE_H, __VA_ARGS__)
#define X2_I(...) TWO(ASM_EARLY_I, ASM_LATE_I, __VA_ARGS__)
#else
#define X2_F(...) STEP_X2(C_F, __VA_ARGS__)
#define X2_G(...) STEP_X2(C_G, __VA_ARGS__)
#define X2_H(...) STEP_X2(C_H, __VA_ARGS__)
#define X2_I(...) STEP_X2(C_I, __VA_ARGS__)
#endif

void md5_compress_x2(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    LOAD(0) LOAD(1)

    for (; count != 0; count--) {
        ALL_STEPS(X2_F, X2_G, X2_H, X2_I)
        STORE(0) STORE(1)
    }
}

#define STEP_X4(step, ...) STEP_X2(step, __VA_ARGS__) ONE(step, 2, __VA_ARGS__) ONE(step, 3, __VA_ARGS__)
#define X4_F(...) STEP_X4(C_F, __VA_ARGS__)
#define X4_G(...) STEP_X4(C_G, __VA_ARGS__)
#define X4_H(...) STEP_X4(C_H, __VA_ARGS__)
#define X4_I(...) STEP_X4(C_I, __VA_ARGS__)

void md5_compress_x4(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count)
{
    LOAD(0) LOAD(1) LOAD(2) LOAD(3)

    for (; count != 0; count--) {
        ALL_STEPS(X4_F, X4_G, X4_H, X4_I)
        STORE(0) STORE(1) STORE(2) STORE(3)
    }
}
