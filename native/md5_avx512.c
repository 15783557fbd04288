/*
 * 16, 32 or 64 MD5 chains in parallel with AVX-512F.
 *
 * A rotation, and any function of three words, is one instruction. A lane of one set runs at less than half the speed
 * of the scalar chain, because a vector instruction takes two cycles instead of one. More sets fill the gaps: one, two
 * and four sets reach 6, 12 and 16 times the throughput of one chain (Zen 5). With four sets, the state words and their
 * copies from before the block fill all 32 registers. Some copies are kept in memory; the 64 steps themselves spill
 * nothing.
 */
#include "md5_steps.h"

#if MD5_HAS_AVX512

#include <immintrin.h>

/* Far enough for the line to arrive in time, near enough to be useful for short messages. */
#define PREFETCH_BYTES 256

#define VECTOR __m512i
#define VECTOR_LANES 16
#define V_LOAD(from) _mm512_loadu_si512(from)
#define V_STORE(to, v) _mm512_storeu_si512(to, v)
#define V_SET(constant) _mm512_set1_epi32((int)(constant))
#define V_ADD(v, w) _mm512_add_epi32(v, w)
#define V_ROTATE(v, bits) _mm512_rol_epi32(v, bits)

/* Truth tables of the mixing functions: bit 4x + 2y + z is the result for bits x, y, z of the three words. */
#define V_MIX_F(a, b, c, d) V_ADD(a, _mm512_ternarylogic_epi32(b, c, d, 0xca))
#define V_MIX_G(a, b, c, d) V_ADD(a, _mm512_ternarylogic_epi32(d, b, c, 0xca))
#define V_MIX_H(a, b, c, d) V_ADD(a, _mm512_ternarylogic_epi32(b, c, d, 0x96))
#define V_MIX_I(a, b, c, d) V_ADD(a, _mm512_ternarylogic_epi32(b, c, d, 0x39))
#define V_I_CONSTANT 0U

/* Transpose 16 rows of 16 words: first within 128-bit parts, then the parts. */
static inline __attribute__((always_inline)) void v_gather(const uint8_t *const *blocks, size_t at, __m512i w[16])
{
    __m512i part[16];

    for (int i = 0; i < 16; i += 4) {
        const __m512i r0 = V_LOAD(blocks[i] + at), r1 = V_LOAD(blocks[i + 1] + at);
        const __m512i r2 = V_LOAD(blocks[i + 2] + at), r3 = V_LOAD(blocks[i + 3] + at);
        const __m512i low01 = _mm512_unpacklo_epi32(r0, r1), high01 = _mm512_unpackhi_epi32(r0, r1);
        const __m512i low23 = _mm512_unpacklo_epi32(r2, r3), high23 = _mm512_unpackhi_epi32(r2, r3);

        /* Part q of part[i + j] now holds word 4 q + j of these four rows. */
        part[i] = _mm512_unpacklo_epi64(low01, low23);
        part[i + 1] = _mm512_unpackhi_epi64(low01, low23);
        part[i + 2] = _mm512_unpacklo_epi64(high01, high23);
        part[i + 3] = _mm512_unpackhi_epi64(high01, high23);
        for (int j = i; j < i + 4; j++)
            _mm_prefetch((const char *)blocks[j] + at + PREFETCH_BYTES, _MM_HINT_T0);
    }
    for (int j = 0; j < 4; j++) {
        const __m512i front0 = _mm512_shuffle_i32x4(part[j], part[4 + j], 0x44);
        const __m512i front1 = _mm512_shuffle_i32x4(part[8 + j], part[12 + j], 0x44);
        const __m512i back0 = _mm512_shuffle_i32x4(part[j], part[4 + j], 0xee);
        const __m512i back1 = _mm512_shuffle_i32x4(part[8 + j], part[12 + j], 0xee);

        w[j] = _mm512_shuffle_i32x4(front0, front1, 0x88);
        w[4 + j] = _mm512_shuffle_i32x4(front0, front1, 0xdd);
        w[8 + j] = _mm512_shuffle_i32x4(back0, back1, 0x88);
        w[12 + j] = _mm512_shuffle_i32x4(back0, back1, 0xdd);
    }
}

#define SETS 1
#define FUNCTION md5_compress_x16_avx512
#include "md5_lanes.h"

#define SETS 2
#define FUNCTION md5_compress_x32_avx512
#include "md5_lanes.h"

#define SETS 4
#define FUNCTION md5_compress_x64_avx512
#include "md5_lanes.h"

#endif
