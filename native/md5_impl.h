/*
 * What the files of the MD5 core share and nobody else sees: loads and stores, and the compression functions.
 */
#ifndef MD5_IMPL_H
#define MD5_IMPL_H

#include "md5.h"

/*
 * GNU assembler syntax and 64-bit registers are all that the x86-64 path needs. MD5_NO_X86_64 compiles it out.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(MD5_NO_X86_64)
#define MD5_HAS_X86_64 1
#else
#define MD5_HAS_X86_64 0
#endif

/* RFC 1321 section 3.3. */
#define MD5_INITIAL_A 0x67452301U
#define MD5_INITIAL_B 0xefcdab89U
#define MD5_INITIAL_C 0x98badcfeU
#define MD5_INITIAL_D 0x10325476U

/*
 * Bring ${words} forward by ${count} blocks of 64 bytes at ${blocks}, which need no alignment. ${count} may be 0.
 */
typedef void md5_compress_function(uint32_t words[4], const uint8_t *blocks, size_t count);

/* Compress on the widest path that this machine has, the mask allows and the self-test passed. */
md5_compress_function md5_compress;

/* Portable C. */
md5_compress_function md5_compress_scalar;

/*
 * Bring two chains forward by ${count} blocks each, as md5_compress does one; the two share no words, and the blocks may
 * be the same ones.
 */
typedef void md5_compress_x2_function(uint32_t one_words[4], const uint8_t *one, uint32_t other_words[4],
                                      const uint8_t *other, size_t count);

/* Portable C. */
md5_compress_x2_function md5_compress_x2;

#if MD5_HAS_X86_64
/* md5_compress_scalar with the order of operations held fast. */
md5_compress_function md5_compress_scalar_x86_64;
#endif

/* Return 0 if ${compress} gives the known answer, -1 if not. */
int md5_self_test(md5_compress_function *compress);

/* Return how many chains are to be brought forward at once: 2 if md5_compress_x2 passes the self-test, else 1. */
size_t md5_lanes(void);

/* Return 0 if some path can be used, -1 if none passes the self-test. */
int md5_select(void);

/* Byte by byte, so that neither alignment nor byte order matters; compilers make one instruction of each. */
static inline uint32_t md5_load_u32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline uint64_t md5_load_u64(const uint8_t *from)
{
    return (uint64_t)md5_load_u32(from) | (uint64_t)md5_load_u32(from + 4) << 32;
}

static inline void md5_store_u32(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
    to[2] = (uint8_t)(value >> 16);
    to[3] = (uint8_t)(value >> 24);
}

static inline void md5_store_u64(uint8_t *to, uint64_t value)
{
    md5_store_u32(to, (uint32_t)value);
    md5_store_u32(to + 4, (uint32_t)(value >> 32));
}

#endif
