/*
 * The 64 steps of MD5. md5_scalar.c explains the order of the operations.
 */
#ifndef MD5_STEPS_H
#define MD5_STEPS_H

#include "md5_impl.h"

/* The table of RFC 1321 section 3.4: a, b, c, d, message word, rotation, constant. */
#define ALL_STEPS(F, G, H, I) \
    F(a, b, c, d, 0, 7, 0xd76aa478U) F(d, a, b, c, 1, 12, 0xe8c7b756U) \
    F(c, d, a, b, 2, 17, 0x242070dbU) F(b, c, d, a, 3, 22, 0xc1bdceeeU) \
    F(a, b, c, d, 4, 7, 0xf57c0fafU) F(d, a, b, c, 5, 12, 0x4787c62aU) \
    F(c, d, a, b, 6, 17, 0xa8304613U) F(b, c, d, a, 7, 22, 0xfd469501U) \
    F(a, b, c, d, 8, 7, 0x698098d8U) F(d, a, b, c, 9, 12, 0x8b44f7afU) \
    F(c, d, a, b, 10, 17, 0xffff5bb1U) F(b, c, d, a, 11, 22, 0x895cd7beU) \
    F(a, b, c, d, 12, 7, 0x6b901122U) F(d, a, b, c, 13, 12, 0xfd987193U) \
    F(c, d, a, b, 14, 17, 0xa679438eU) F(b, c, d, a, 15, 22, 0x49b40821U) \
    G(a, b, c, d, 1, 5, 0xf61e2562U) G(d, a, b, c, 6, 9, 0xc040b340U) \
    G(c, d, a, b, 11, 14, 0x265e5a51U) G(b, c, d, a, 0, 20, 0xe9b6c7aaU) \
    G(a, b, c, d, 5, 5, 0xd62f105dU) G(d, a, b, c, 10, 9, 0x02441453U) \
    G(c, d, a, b, 15, 14, 0xd8a1e681U) G(b, c, d, a, 4, 20, 0xe7d3fbc8U) \
    G(a, b, c, d, 9, 5, 0x21e1cde6U) G(d, a, b, c, 14, 9, 0xc33707d6U) \
    G(c, d, a, b, 3, 14, 0xf4d50d87U) G(b, c, d, a, 8, 20, 0x455a14edU) \
    G(a, b, c, d, 13, 5, 0xa9e3e905U) G(d, a, b, c, 2, 9, 0xfcefa3f8U) \
    G(c, d, a, b, 7, 14, 0x676f02d9U) G(b, c, d, a, 12, 20, 0x8d2a4c8aU) \
    H(a, b, c, d, 5, 4, 0xfffa3942U) H(d, a, b, c, 8, 11, 0x8771f681U) \
    H(c, d, a, b, 11, 16, 0x6d9d6122U) H(b, c, d, a, 14, 23, 0xfde5380cU) \
    H(a, b, c, d, 1, 4, 0xa4beea44U) H(d, a, b, c, 4, 11, 0x4bdecfa9U) \
    H(c, d, a, b, 7, 16, 0xf6bb4b60U) H(b, c, d, a, 10, 23, 0xbebfbc70U) \
    H(a, b, c, d, 13, 4, 0x289b7ec6U) H(d, a, b, c, 0, 11, 0xeaa127faU) \
    H(c, d, a, b, 3, 16, 0xd4ef3085U) H(b, c, d, a, 6, 23, 0x04881d05U) \
    H(a, b, c, d, 9, 4, 0xd9d4d039U) H(d, a, b, c, 12, 11, 0xe6db99e5U) \
    H(c, d, a, b, 15, 16, 0x1fa27cf8U) H(b, c, d, a, 2, 23, 0xc4ac5665U) \
    I(a, b, c, d, 0, 6, 0xf4292244U) I(d, a, b, c, 7, 10, 0x432aff97U) \
    I(c, d, a, b, 14, 15, 0xab9423a7U) I(b, c, d, a, 5, 21, 0xfc93a039U) \
    I(a, b, c, d, 12, 6, 0x655b59c3U) I(d, a, b, c, 3, 10, 0x8f0ccc92U) \
    I(c, d, a, b, 10, 15, 0xffeff47dU) I(b, c, d, a, 1, 21, 0x85845dd1U) \
    I(a, b, c, d, 8, 6, 0x6fa87e4fU) I(d, a, b, c, 15, 10, 0xfe2ce6e0U) \
    I(c, d, a, b, 6, 15, 0xa3014314U) I(b, c, d, a, 13, 21, 0x4e0811a1U) \
    I(a, b, c, d, 4, 6, 0xf7537e82U) I(d, a, b, c, 11, 10, 0xbd3af235U) \
    I(c, d, a, b, 2, 15, 0x2ad7d2bbU) I(b, c, d, a, 9, 21, 0xeb86d391U)

static inline uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

/* One step in portable C. Reads the message at ${blocks}. */
#define C_STEP(mix, a, b, k, bits, constant) \
    a += load_u32(blocks + 4 * (k)) + (constant); \
    a = rotate(a + (mix), bits) + b;
#define C_F(a, b, c, d, k, bits, constant) C_STEP(((c ^ d) & b) ^ d, a, b, k, bits, constant)
#define C_G(a, b, c, d, k, bits, constant) C_STEP((~d & c) + (d & b), a, b, k, bits, constant)
#define C_H(a, b, c, d, k, bits, constant) C_STEP((c ^ d) ^ b, a, b, k, bits, constant)
#define C_I(a, b, c, d, k, bits, constant) C_STEP((~d | b) ^ c, a, b, k, bits, constant)

#if MD5_HAS_X86_64

/* Memory operand of 4 bytes. uint8_t permits any alignment and may alias any type. */
typedef uint8_t md5_word_bytes[4];

/*
 * One step in x86-64 assembly, as parts of an asm statement for one chain or several, each with a number ${n}: a +=
 * message word + constant; EARLY, which does not read b; LATE, which reads b; a = rotate(a) + b.
 */
#define ASM_ADD_WORD(n) "addl %[word" #n "], %[a" #n "]\n\tleal %c[add](%q[a" #n "]), %k[a" #n "]\n\t"
#define ASM_EARLY_F(n) "movl %[c" #n "], %[t" #n "]\n\txorl %[d" #n "], %[t" #n "]\n\t"
#define ASM_LATE_F(n) \
    "andl %[b" #n "], %[t" #n "]\n\txorl %[d" #n "], %[t" #n "]\n\taddl %[t" #n "], %[a" #n "]\n\t"
#define ASM_EARLY_G(n) \
    "movl %[d" #n "], %[t" #n "]\n\tnotl %[t" #n "]\n\tandl %[c" #n "], %[t" #n "]\n\t" \
    "addl %[t" #n "], %[a" #n "]\n\tmovl %[d" #n "], %[t" #n "]\n\t"
#define ASM_LATE_G(n) "andl %[b" #n "], %[t" #n "]\n\taddl %[t" #n "], %[a" #n "]\n\t"
#define ASM_EARLY_H(n) ASM_EARLY_F(n)
#define ASM_LATE_H(n) "xorl %[b" #n "], %[t" #n "]\n\taddl %[t" #n "], %[a" #n "]\n\t"
#define ASM_EARLY_I(n) "movl %[d" #n "], %[t" #n "]\n\tnotl %[t" #n "]\n\t"
#define ASM_LATE_I(n) \
    "orl %[b" #n "], %[t" #n "]\n\txorl %[c" #n "], %[t" #n "]\n\taddl %[t" #n "], %[a" #n "]\n\t"
#define ASM_ROTATE(n) "roll %[by], %[a" #n "]\n\taddl %[b" #n "], %[a" #n "]\n\t"

#define ASM_RESULTS(n, sum, temporary) [a##n] "+&r"(sum), [t##n] "=&r"(temporary)
#define ASM_CHAIN(n, second, third, fourth, blocks, k) \
    [b##n] "r"(second), [c##n] "r"(third), [d##n] "r"(fourth), \
    [word##n] "m"(*(const md5_word_bytes *)((blocks) + 4 * (k)))
#define ASM_CONSTANTS(bits, constant) [add] "i"((int32_t)(constant)), [by] "i"(bits)

#endif

#endif
