/*
 * Private to the MD5 core: the compression functions.
 *
 * Layers: the streams (md5.c, md5_batch.c) call the dispatcher, and the dispatcher calls the paths. To keep it that
 * way, this header does not include md5.h, which declares the streams.
 */
#ifndef MD5_IMPL_H
#define MD5_IMPL_H

#include "bytes.h"
#include "md5_dispatch.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Which paths are compiled in. The x86-64 path needs GNU assembler syntax and 64-bit registers. The AVX paths need
 * compiler flags that CMakeLists.txt sets for their files only. Define MD5_NO_X86_64, MD5_NO_AVX2, MD5_NO_AVX512 or
 * MD5_NO_NEON to omit one.
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
 * Compress ${count} blocks of 64 bytes at ${blocks}, of any alignment, into ${words}. ${count} may be 0.
 */
typedef void md5_compress_function(uint32_t words[4], const uint8_t *blocks, size_t count);

/* Compress one chain with the best path in use. */
md5_compress_function md5_compress;

/* Portable C. */
md5_compress_function md5_compress_scalar;

#if MD5_HAS_X86_64
/* md5_compress_scalar in assembly, with a fixed order of operations. */
md5_compress_function md5_compress_scalar_x86_64;
#endif

/*
 * Compress ${count} blocks of each lane; the name of the function gives the number of lanes. The words of lane i are
 * ${words}[0][i] to ${words}[3][i], its blocks begin at ${starts}[i]. Lanes may read the same blocks. ${count} may be
 * 0.
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
 * Return the number of lanes that completes ${chains} chains soonest, by the measured costs of the paths in use. There
 * is at least 1 chain; they have ${total_blocks} in all, the longest ${longest_blocks}. The result may be above or below
 * ${chains}.
 */
size_t md5_lanes(size_t chains, uint64_t longest_blocks, uint64_t total_blocks);

/* Return the number of lanes of the path in use with the best throughput, or of a narrower one that is nearly as good. */
size_t md5_most_lanes(void);

/* Compress ${lanes} lanes, a number that md5_lanes returned. */
void md5_compress_lanes(size_t lanes, uint32_t words[4][MD5_MOST_LANES], const uint8_t *const *starts, size_t count);

/* Return 0 if ${compress} computes the known answer, -1 if not. */
int md5_self_test(md5_compress_function *compress);

/* Return 0 if the first ${lanes} lanes of ${compress} agree with md5_compress_scalar, -1 if not. */
int md5_self_test_lanes(md5_compress_lanes_function *compress, size_t lanes);

/* Return 0 if the portable path passes its self-test, -1 if not. */
int md5_select(void);

#endif
