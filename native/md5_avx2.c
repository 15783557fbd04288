/*
 * 8, 16 or 32 MD5 chains in parallel with AVX2.
 *
 * On Zen 5, where a vector instruction takes two cycles, two sets reach 5.5 times the throughput of one chain, and four
 * sets 8.5 times. The 16 state words of four sets occupy all 16 registers, so the compiler spills some of them within
 * the steps. That costs less than the idle slots of two sets.
 */
#include "md5_steps.h"

#if MD5_HAS_AVX2

#include <immintrin.h>

#define PREFETCH_BYTES 256

#define VECTOR __m256i
#define VECTOR_LANES 8
#define V_LOAD(from) _mm256_loadu_si256((const __m256i *)(const void *)(from))
#define V_STORE(to, v) _mm256_storeu_si256((__m256i *)(void *)(to), v)
#define V_SET(constant) _mm256_set1_epi32((int)(constant))
#define V_ADD(v, w) _mm256_add_epi32(v, w)
#define V_ROTATE(v, bits) v_rotate(v, bits)

/*
 * G is a sum whose first term does not depend on b (md5_scalar.c). I avoids NOT: a + (c ^ (b | ~d)) equals
 * a - (c ^ (d & ~b)) - 1, and V_I_CONSTANT subtracts the 1.
 */
#define V_MIX_F(a, b, c, d) \
    V_ADD(a, _mm256_xor_si256(_mm256_and_si256(_mm256_xor_si256(c, d), b), d))
#define V_MIX_G(a, b, c, d) \
    V_ADD(V_ADD(a, _mm256_andnot_si256(d, c)), _mm256_and_si256(d, b))
#define V_MIX_H(a, b, c, d) \
    V_ADD(a, _mm256_xor_si256(_mm256_xor_si256(c, d), b))
#define V_MIX_I(a, b, c, d) \
    _mm256_sub_epi32(a, _mm256_xor_si256(_mm256_andnot_si256(b, d), c))
#define V_I_CONSTANT 0xffffffffU

static inline __attribute__((always_inline)) __m256i v_rotate(__m256i v, int bits)
{
    if (bits == 16) {
        const __m256i halves = _mm256_set_epi8(13, 12, 15, 14, 9, 8, 11, 10, 5, 4, 7, 6, 1, 0, 3, 2, 13, 12, 15, 14, 9,
                                               8, 11, 10, 5, 4, 7, 6, 1, 0, 3, 2);

        return _mm256_shuffle_epi8(v, halves);
    }
    return _mm256_or_si256(_mm256_slli_epi32(v, bits), _mm256_srli_epi32(v, 32 - bits));
}

/* Transpose 8 rows of 8 words: first within 128-bit parts, then the parts. */
static inline __attribute__((always_inline)) void gather_half(const uint8_t *const *blocks, size_t at, __m256i w[8])
{
    __m256i part[8];

    for (int i = 0; i < 8; i += 4) {
        const __m256i r0 = V_LOAD(blocks[i] + at), r1 = V_LOAD(blocks[i + 1] + at);
        const __m256i r2 = V_LOAD(blocks[i + 2] + at), r3 = V_LOAD(blocks[i + 3] + at);
        const __m256i low01 = _mm256_unpacklo_epi32(r0, r1), high01 = _mm256_unpackhi_epi32(r0, r1);
        const __m256i low23 = _mm256_unpacklo_epi32(r2, r3), high23 = _mm256_unpackhi_epi32(r2, r3);

        part[i] = _mm256_unpacklo_epi64(low01, low23);
        part[i + 1] = _mm256_unpackhi_epi64(low01, low23);
        part[i + 2] = _mm256_unpacklo_epi64(high01, high23);
        part[i + 3] = _mm256_unpackhi_epi64(high01, high23);
    }
    for (int j = 0; j < 4; j++) {
        w[j] = _mm256_permute2x128_si256(part[j], part[4 + j], 0x20);
        w[4 + j] = _mm256_permute2x128_si256(part[j], part[4 + j], 0x31);
    }
}

static inline __attribute__((always_inline)) void v_gather(const uint8_t *const *blocks, size_t at, __m256i w[16])
{
    gather_half(blocks, at, w);
    gather_half(blocks, at + MD5_BLOCK_BYTES / 2, w + 8);
    for (int i = 0; i < VECTOR_LANES; i++)
        _mm_prefetch((const char *)blocks[i] + at + PREFETCH_BYTES, _MM_HINT_T0);
}

#define SETS 1
#define FUNCTION md5_compress_x8_avx2
#include "md5_lanes.h"

#define SETS 2
#define FUNCTION md5_compress_x16_avx2
#include "md5_lanes.h"

#define SETS 4
#define FUNCTION md5_compress_x32_avx2
#include "md5_lanes.h"

#endif
