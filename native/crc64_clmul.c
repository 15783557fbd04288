/*
 * CRC-64 by carry-less multiplication, 8 x 16 bytes per step (PCLMULQDQ; crc64_impl.h explains the arithmetic).
 *
 * Eight independent chains hide the latency of a multiplication. The table path reduces the final 16 bytes, which saves
 * a second implementation of the reduction.
 */
#include "crc64_impl.h"

#if CRC64_HAS_CLMUL

#include <immintrin.h>

#define CHAINS 8
#define WORTH_BYTES (CHAINS * 16) /* below this size, the tables are as fast */

static inline __m128i load(const uint8_t *from)
{
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

static inline __m128i fold(__m128i chain, __m128i powers, __m128i behind)
{
    const __m128i first = _mm_clmulepi64_si128(chain, powers, 0x00);
    const __m128i second = _mm_clmulepi64_si128(chain, powers, 0x11);

    return _mm_xor_si128(_mm_xor_si128(first, second), behind);
}

uint64_t crc64_path_clmul(uint64_t state, const uint8_t *data, size_t size_bytes)
{
    const __m128i by_1024 = _mm_set_epi64x((long long)CRC64_FOLD_1024_SECOND, (long long)CRC64_FOLD_1024_FIRST);
    const __m128i by_128 = _mm_set_epi64x((long long)CRC64_FOLD_128_SECOND, (long long)CRC64_FOLD_128_FIRST);
    __m128i chains[CHAINS];
    uint8_t rest[16];

    if (size_bytes < WORTH_BYTES)
        return crc64_path_table(state, data, size_bytes);
    for (int i = 0; i < CHAINS; i++)
        chains[i] = load(data + 16 * i);
    chains[0] = _mm_xor_si128(chains[0], _mm_cvtsi64_si128((long long)state));
    for (data += WORTH_BYTES, size_bytes -= WORTH_BYTES; size_bytes >= WORTH_BYTES;
         data += WORTH_BYTES, size_bytes -= WORTH_BYTES)
        for (int i = 0; i < CHAINS; i++)
            chains[i] = fold(chains[i], by_1024, load(data + 16 * i));
    for (int i = 1; i < CHAINS; i++)
        chains[0] = fold(chains[0], by_128, chains[i]);
    for (; size_bytes >= 16; data += 16, size_bytes -= 16)
        chains[0] = fold(chains[0], by_128, load(data));
    _mm_storeu_si128((__m128i *)(void *)rest, chains[0]);
    return crc64_path_table(crc64_path_table(0, rest, sizeof rest), data, size_bytes);
}

#endif
