/*
 * XXH3 from the header of libxxhash, compiled for the base architecture: even that path is faster than memory.
 */
#include "xxh3.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= XXH3_STATE_BYTES, "the state fits");
_Static_assert(_Alignof(XXH3_state_t) <= XXH3_ALIGNMENT, "the alignment is sufficient");

static XXH3_state_t *align(xxh3_state *state)
{
    const uintptr_t at = (uintptr_t)state->room;

    return (XXH3_state_t *)(void *)(state->room + (XXH3_ALIGNMENT - at % XXH3_ALIGNMENT) % XXH3_ALIGNMENT);
}

static void store(XXH128_hash_t hash, uint8_t digest[XXH3_128_BYTES])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, hash);
    for (size_t i = 0; i < XXH3_128_BYTES; i++)
        digest[i] = canonical.digest[i];
}

void xxh3_128(const uint8_t *data, size_t size_bytes, uint8_t digest[XXH3_128_BYTES])
{
    store(XXH3_128bits(data, size_bytes), digest);
}

void xxh3_reset(xxh3_state *state)
{
    XXH3_128bits_reset(align(state)); /* fails only for NULL */
}

void xxh3_update(xxh3_state *state, const uint8_t *data, size_t size_bytes)
{
    XXH3_128bits_update(align(state), data, size_bytes);
}

void xxh3_digest(xxh3_state *state, uint8_t digest[XXH3_128_BYTES])
{
    store(XXH3_128bits_digest(align(state)), digest);
}
