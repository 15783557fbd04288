/*
 * One MD5 chain over full blocks (RFC 1321 section 3.4), in portable C and in x86-64 assembly.
 *
 * Each of the 64 steps computes the next b from a, and depends on the b of the previous step. The operations between b
 * and the next b form the critical path; all others run in parallel to it. So each step uses b as late as possible:
 *
 * - G is the sum (~d & c) + (d & b), whose terms share no bit. The first term is added before b is known. This leaves
 *   four operations after b, where OR leaves five (technique: animetosho, md5-optimisation, "G shortcut").
 * - F and H compute c ^ d first. I applies NOT to d, which has been known for two steps.
 *
 * This takes 4.5 cycles per byte as long as the order is kept. Additions commute, so compilers reorder them: the C form
 * is as fast as the assembly with gcc 12 -O3, 15 % slower with -march=native added, and 25 % slower with clang 14.
 * Hence one asm statement per step fixes the order. The compiler still assigns registers and addresses, and the
 * processor still overlaps steps. The C form serves all other machines, and x86-64 if the assembly fails its self-test.
 */
#include "md5_steps.h"

void md5_compress_scalar(uint32_t words[4], const uint8_t *blocks, size_t count)
{
    uint32_t a = words[0], b = words[1], c = words[2], d = words[3];

    for (; count != 0; count--, blocks += MD5_BLOCK_BYTES) {
        const uint32_t a0 = a, b0 = b, c0 = c, d0 = d;

        ALL_STEPS(C_F, C_G, C_H, C_I)
        a += a0;
        b += b0;
        c += c0;
        d += d0;
    }
    words[0] = a;
    words[1] = b;
    words[2] = c;
    words[3] = d;
}

#if MD5_HAS_X86_64

#define ONE(early, late, a, b, c, d, k, bits, constant) \
    { \
        uint32_t t; \
        __asm__(ASM_ADD_WORD(0) early(0) late(0) ASM_ROTATE(0) \
                : ASM_RESULTS(0, a, t) \
                : ASM_CHAIN(0, b, c, d, blocks, k), ASM_CONSTANTS(bits, constant) \
                : "cc"); \
    }
#define ONE_F(...) ONE(ASM_EARLY_F, ASM_LATE_F, __VA_ARGS__)
#define ONE_G(...) ONE(ASM_EARLY_G, ASM_LATE_G, __VA_ARGS__)
#define ONE_H(...) ONE(ASM_EARLY_H, ASM_LATE_H, __VA_ARGS__)
#define ONE_I(...) ONE(ASM_EARLY_I, ASM_LATE_I, __VA_ARGS__)

void md5_compress_scalar_x86_64(uint32_t words[4], const uint8_t *blocks, size_t count)
{
    uint32_t a = words[0], b = words[1], c = words[2], d = words[3];

    for (; count != 0; count--, blocks += MD5_BLOCK_BYTES) {
        const uint32_t a0 = a, b0 = b, c0 = c, d0 = d;

        ALL_STEPS(ONE_F, ONE_G, ONE_H, ONE_I)
        a += a0;
        b += b0;
        c += c0;
        d += d0;
    }
    words[0] = a;
    words[1] = b;
    words[2] = c;
    words[3] = d;
}

#endif
