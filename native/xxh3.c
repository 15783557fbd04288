/*
 * The header of libxxhash, compiled in: it is faster than memory on any path, so the one of the base architecture does.
 */
#include "xxh3.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void xxh3_128(const uint8_t *data, size_t size_bytes, uint8_t digest[16])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size_bytes));
    for (size_t i = 0; i < sizeof canonical.digest; i++)
        digest[i] = canonical.digest[i];
}
