/*
 * What the files of the CRC-64 core share and nobody else sees: the paths, and the constants of their folding.
 */
#ifndef CRC64_IMPL_H
#define CRC64_IMPL_H

#include "crc64.h"

/*
 * Which paths are compiled in; they need the compiler flags that CMakeLists.txt gives to their files alone.
 * CRC64_NO_CLMUL and CRC64_NO_VCLMUL leave them out. The second hands short messages to the first.
 */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(CRC64_NO_CLMUL)
#define CRC64_HAS_CLMUL 1
#else
#define CRC64_HAS_CLMUL 0
#endif
#if CRC64_HAS_CLMUL && !defined(CRC64_NO_VCLMUL)
#define CRC64_HAS_VCLMUL 1
#else
#define CRC64_HAS_VCLMUL 0
#endif

/* The polynomial with its lowest power in the highest bit, as all values here; x^64 is left out. */
#define CRC64_POLYNOMIAL UINT64_C(0x9a6c9329ac4bc9b5)

/*
 * Bring ${state} forward by ${size_bytes} at ${data}, which need no alignment. A state is a value inverted.
 */
typedef uint64_t crc64_path(uint64_t state, const uint8_t *data, size_t size_bytes);

/* Portable C. */
crc64_path crc64_path_table;

#if CRC64_HAS_CLMUL
crc64_path crc64_path_clmul;
#endif
#if CRC64_HAS_VCLMUL
crc64_path crc64_path_vclmul;
#endif

/* Advance on the widest path that this machine has, the mask allows and the self-test passed. */
crc64_path crc64_advance;

/* Return 0 if ${path} gives what is known, -1 if not. */
int crc64_self_test_known(crc64_path *path);

/* Return 0 if ${path} gives what the portable path gives for many lengths, -1 if not. */
int crc64_self_test(crc64_path *path);

/*
 * Folding: 16 bytes are the polynomial L x^64 + H, L the first 8 of them. To stand D bits further to the front they are
 * multiplied by x^D, and because only the remainder counts, L x^(D+64) + H x^D may be taken with the powers reduced to
 * 64 bits: 16 bytes again, that can be added to those D bits behind. A carry-less product of two reflected words comes
 * out one bit to the right of where it belongs, hence powers less by one:
 *
 *   CRC64_FOLD_D_FIRST  = x^(D+63) mod P, for L
 *   CRC64_FOLD_D_SECOND = x^(D-1) mod P, for H
 *
 * (V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel, 2009.)
 */
#define CRC64_FOLD_128_FIRST UINT64_C(0xeadc41fd2ba3d420)
#define CRC64_FOLD_128_SECOND UINT64_C(0x21e9761e252621ac)
#define CRC64_FOLD_512_FIRST UINT64_C(0x0c32cdb31e18a84a)
#define CRC64_FOLD_512_SECOND UINT64_C(0x62242240ace5045a)
#define CRC64_FOLD_1024_FIRST UINT64_C(0xa1ca681e733f9c40)
#define CRC64_FOLD_1024_SECOND UINT64_C(0x5f852fb61e8d92dc)
#define CRC64_FOLD_4096_FIRST UINT64_C(0xd0b3aa0ed6d54ae0)
#define CRC64_FOLD_4096_SECOND UINT64_C(0xc2409e2537aa5eb1)

#endif
