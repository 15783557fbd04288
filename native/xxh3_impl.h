/*
 * Private to XXH3: the header of libxxhash, compiled for the instruction set of the including file.
 */
#ifndef XXH3_IMPL_H
#define XXH3_IMPL_H

#include "xxh3.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= XXH3_STATE_BYTES, "the state fits");
_Static_assert(_Alignof(XXH3_state_t) <= XXH3_ALIGNMENT, "the alignment is sufficient");

static inline XXH3_state_t *align(xxh3_state *state)
{
    const uintptr_t at = (uintptr_t)state->room;

    return (XXH3_state_t *)(void *)(state->room + (XXH3_ALIGNMENT - at % XXH3_ALIGNMENT) % XXH3_ALIGNMENT);
}

static inline void store(XXH128_hash_t hash, uint8_t digest[XXH3_128_BYTES])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, hash);
    for (size_t i = 0; i < XXH3_128_BYTES; i++)
        digest[i] = canonical.digest[i];
}

/* Like xxh3_128 and xxh3_update, with AVX2. The state does not depend on the instruction set. */
void xxh3_128_avx2(const uint8_t *data, size_t size_bytes, uint8_t digest[XXH3_128_BYTES]);
void xxh3_update_avx2(xxh3_state *state, const uint8_t *data, size_t size_bytes);

#endif
