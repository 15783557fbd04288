/*
 * The method of crc64_clmul.c with four chains per register (AVX-512 with VPCLMULQDQ): 8 registers, 512 bytes per step.
 */
#include "crc64_impl.h"

#if CRC64_HAS_VCLMUL

#include <immintrin.h>

#define CHAINS 8
#define STEP_BYTES (CHAINS * 64)
#define WORTH_BYTES (2 * STEP_BYTES) /* below this size, the narrower path is as fast */
#define XOR_OF_3 0x96                /* truth table */

static inline __m512i load(const uint8_t *from)
{
    return _mm512_loadu_si512((const void *)from);
}

static inline __m512i repeat(uint64_t first, uint64_t second)
{
    return _mm512_broadcast_i32x4(_mm_set_epi64x((long long)second, (long long)first));
}

static inline __m512i fold(__m512i chain, __m512i powers, __m512i behind)
{
    const __m512i first = _mm512_clmulepi64_epi128(chain, powers, 0x00);
    const __m512i second = _mm512_clmulepi64_epi128(chain, powers, 0x11);

    return _mm512_ternarylogic_epi64(first, second, behind, XOR_OF_3);
}

uint64_t crc64_path_vclmul(uint64_t state, const uint8_t *data, size_t size_bytes)
{
    const __m512i by_4096 = repeat(CRC64_FOLD_4096_FIRST, CRC64_FOLD_4096_SECOND);
    const __m512i by_512 = repeat(CRC64_FOLD_512_FIRST, CRC64_FOLD_512_SECOND);
    __m512i chains[CHAINS];
    uint8_t rest[64];

    if (size_bytes < WORTH_BYTES)
        return crc64_path_clmul(state, data, size_bytes);
    for (int i = 0; i < CHAINS; i++)
        chains[i] = load(data + 64 * i);
    chains[0] = _mm512_xor_si512(chains[0], _mm512_zextsi128_si512(_mm_cvtsi64_si128((long long)state)));
    for (data += STEP_BYTES, size_bytes -= STEP_BYTES; size_bytes >= STEP_BYTES;
         data += STEP_BYTES, size_bytes -= STEP_BYTES)
        for (int i = 0; i < CHAINS; i++)
            chains[i] = fold(chains[i], by_4096, load(data + 64 * i));
    for (int i = 1; i < CHAINS; i++)
        chains[0] = fold(chains[0], by_512, chains[i]);
    for (; size_bytes >= 64; data += 64, size_bytes -= 64)
        chains[0] = fold(chains[0], by_512, load(data));
    /* These 64 bytes have the same remainder as the whole message so far. Continue with them in its place. */
    _mm512_storeu_si512((void *)rest, chains[0]);
    return crc64_path_table(crc64_path_table(0, rest, sizeof rest), data, size_bytes);
}

#endif
