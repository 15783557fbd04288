/*
 * 4 or 8 MD5 chains in parallel with NEON, which every ARM64 processor has.
 *
 * Loads bytes and reinterprets them as words, which permits any alignment on little endian machines. Big endian ARM64
 * uses portable C.
 */
#include "md5_steps.h"

#if MD5_HAS_NEON

#include <arm_neon.h>

#define VECTOR uint32x4_t
#define VECTOR_LANES 4
#define V_LOAD(from) vld1q_u32(from)
#define V_STORE(to, v) vst1q_u32(to, v)
#define V_SET(constant) vdupq_n_u32(constant)
#define V_ADD(v, w) vaddq_u32(v, w)
/* Shift left, then insert the high bits on the right. */
#define V_ROTATE(v, bits) vsriq_n_u32(vshlq_n_u32(v, bits), v, 32 - (bits))

/* vbslq selects bitwise: b ? c : d, and d ? b : c. vornq is OR NOT. */
#define V_MIX_F(a, b, c, d) V_ADD(a, vbslq_u32(b, c, d))
#define V_MIX_G(a, b, c, d) V_ADD(a, vbslq_u32(d, b, c))
#define V_MIX_H(a, b, c, d) V_ADD(a, veorq_u32(veorq_u32(c, d), b))
#define V_MIX_I(a, b, c, d) V_ADD(a, veorq_u32(vornq_u32(b, d), c))
#define V_I_CONSTANT 0U

static inline __attribute__((always_inline)) uint32x4_t load_words(const uint8_t *from)
{
    return vreinterpretq_u32_u8(vld1q_u8(from));
}

/* Transpose four blocks of 4 rows of 4 words. */
static inline __attribute__((always_inline)) void v_gather(const uint8_t *const *blocks, size_t at, uint32x4_t w[16])
{
    for (int i = 0; i < 4; i++, at += MD5_BLOCK_BYTES / 4) {
        const uint32x4x2_t even = vzipq_u32(load_words(blocks[0] + at), load_words(blocks[2] + at));
        const uint32x4x2_t odd = vzipq_u32(load_words(blocks[1] + at), load_words(blocks[3] + at));
        const uint32x4x2_t front = vzipq_u32(even.val[0], odd.val[0]);
        const uint32x4x2_t back = vzipq_u32(even.val[1], odd.val[1]);

        w[4 * i] = front.val[0];
        w[4 * i + 1] = front.val[1];
        w[4 * i + 2] = back.val[0];
        w[4 * i + 3] = back.val[1];
    }
}

#define SETS 1
#define FUNCTION md5_compress_x4_neon
#include "md5_lanes.h"

#define SETS 2
#define FUNCTION md5_compress_x8_neon
#include "md5_lanes.h"

#endif
