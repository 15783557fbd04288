/*
 * XXH3-128 of a buffer or a stream, for C code. Digests have the byte order in which xxhsum prints them: most
 * significant byte first.
 */
#ifndef XXH3_H
#define XXH3_H

#include <stddef.h>
#include <stdint.h>

#define XXH3_128_BYTES 16
#define XXH3_ALIGNMENT 64
#define XXH3_STATE_BYTES 576

/* A stream. Must not be moved: the state lies at the first aligned address in it. */
typedef struct {
    uint8_t room[XXH3_STATE_BYTES + XXH3_ALIGNMENT - 1];
} xxh3_state;

/* Write the digest of ${size_bytes} bytes. */
void xxh3_128(const uint8_t *data, size_t size_bytes, uint8_t digest[XXH3_128_BYTES]);

/* Start an empty stream. */
void xxh3_reset(xxh3_state *state);

/* Append ${size_bytes} bytes. */
void xxh3_update(xxh3_state *state, const uint8_t *data, size_t size_bytes);

/* Write the digest of all bytes so far. The stream can continue. */
void xxh3_digest(xxh3_state *state, uint8_t digest[XXH3_128_BYTES]);

#endif
