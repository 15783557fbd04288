/*
 * What the files of the MD5 core share and nobody else sees: the compression functions.
 *
 * Calls go one way: the streams (md5.c, md5_batch.c) call the dispatcher, and the dispatcher the paths. So md5.h, which
 * declares the streams, is not included here.
 */
#ifndef MD5_IMPL_H
#define MD5_IMPL_H

#include "bytes.h"
#include "md5_dispatch.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Which paths are compiled in. The one for x86-64 needs GNU assembler syntax and 64-bit registers; the wide ones need
 * the compiler flags that CMakeLists.txt gives to their files alone. MD5_NO_X86_64, MD5_NO_AVX2, MD5_NO_AVX512 and
 * MD5_NO_NEON leave them out.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(MD5_NO_X86_64)
#define MD5_HAS_X86_64 1
#else
#define MD5_HAS_X86_64 0
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(MD5_NO_AVX2)
#define MD5_HAS_AVX2 1
#else
#define MD5_HAS_AVX2 0
#endif
#if defined(__x86_64__) && defined(__GNUC__) && !defined(MD5_NO_AVX512)
#define MD5_HAS_AVX512 1
#else
#define MD5_HAS_AVX512 0
#endif
#if defined(__aarch64__) && defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && !defined(MD5_NO_NEON)
#define MD5_HAS_NEON 1
#else
#define MD5_HAS_NEON 0
#endif

#define MD5_MOST_LANES 64

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

#if MD5_HAS_X86_64
/* md5_compress_scalar with the order of operations held fast. */
md5_compress_function md5_compress_scalar_x86_64;
#endif

/*
 * Bring as many chains forward by ${count} blocks each as the function's name says, one for each lane: the words of
 * lane i stand in ${words}[0][i] to ${words}[3][i], its blocks begin at ${starts}[i]. Chains may read the same blocks.
 * ${count} may be 0.
 */
typedef void md5_compress_lanes_function(uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts,
                                         size_t count);

/* Portable C. */
md5_compress_lanes_function md5_compress_x2, md5_compress_x4;

#if MD5_HAS_AVX2
md5_compress_lanes_function md5_compress_x8_avx2, md5_compress_x16_avx2, md5_compress_x32_avx2;
#endif
#if MD5_HAS_AVX512
md5_compress_lanes_function md5_compress_x16_avx512, md5_compress_x32_avx512, md5_compress_x64_avx512;
#endif
#if MD5_HAS_NEON
md5_compress_lanes_function md5_compress_x4_neon, md5_compress_x8_neon;
#endif

/*
 * Return how many lanes to take for ${chains} chains, at least 1, that have ${total_blocks} to be worked off, the longest
 * of them ${longest_blocks}: so that all is done soonest, going by what the functions cost that this machine has, the
 * mask allows and the self-test passed. May be less than ${chains}, or more.
 */
size_t md5_lanes(size_t chains, uint64_t longest_blocks, uint64_t total_blocks);

/* Return how many lanes the widest function has. */
size_t md5_most_lanes(void);

/* Compress with the function of so many ${lanes}, which md5_lanes has named, or with one that does the same. */
void md5_compress_lanes(size_t lanes, uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count);

/* Return 0 if ${compress} gives the known answer, -1 if not. */
int md5_self_test(md5_compress_function *compress);

/* Return 0 if the first ${lanes} lanes of ${compress} each give what md5_compress_scalar gives, -1 if not. */
int md5_self_test_lanes(md5_compress_lanes_function *compress, size_t lanes);

/* Return 0 if some path can be used, -1 if none passes the self-test. */
int md5_select(void);

#endif
