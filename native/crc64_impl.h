/*
 * Private to the CRC-64 core: the paths, and their folding constants.
 */
#ifndef CRC64_IMPL_H
#define CRC64_IMPL_H

#include "crc64.h"

/*
 * Which paths are compiled in. Each needs compiler flags that CMakeLists.txt sets for its file only. Define
 * CRC64_NO_CLMUL or CRC64_NO_VCLMUL to omit one. VCLMUL requires CLMUL, which handles its short messages.
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

/* The polynomial without x^64. As in all values here, the lowest power is the highest bit. */
#define CRC64_POLYNOMIAL UINT64_C(0x9a6c9329ac4bc9b5)

/*
 * Advance ${state} by ${size_bytes} bytes at ${data} of any alignment, and return it. A state is an inverted CRC.
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

/* Advance with the widest path in use. */
crc64_path crc64_advance;

/* Return 0 if ${path} computes the known answers, -1 if not. */
int crc64_self_test_known(crc64_path *path);

/* Return 0 if ${path} agrees with the portable path for many lengths, -1 if not. */
int crc64_self_test(crc64_path *path);

/*
 * Folding. 16 bytes are the polynomial L x^64 + H, where L is the first 8 bytes. D bits further ahead in the message,
 * the same bytes have the value L x^(D+64) + H x^D. Only the remainder modulo P matters, so both powers can be reduced
 * to 64 bits. The result has 16 bytes and is added to the 16 bytes D bits behind. The carry-less product of two
 * reflected words is shifted right by one bit, which exponents lower by one compensate:
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
