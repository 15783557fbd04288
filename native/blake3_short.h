/*
 * BLAKE3 of messages of one chunk, for C code. Used to seal rows of the catalog.
 */
#ifndef BLAKE3_SHORT_H
#define BLAKE3_SHORT_H

#include <stddef.h>
#include <stdint.h>

#define BLAKE3_SHORT_MOST_BYTES 1024U
#define BLAKE3_SHORT_KEY_BYTES 32U
#define BLAKE3_SHORT_BYTES 16U

/*
 * Write the first BLAKE3_SHORT_BYTES of the digest of at most BLAKE3_SHORT_MOST_BYTES. Keyed hash with
 * BLAKE3_SHORT_KEY_BYTES at ${key}; plain hash if ${key} is NULL.
 */
void blake3_short(const uint8_t *key, const uint8_t *message, size_t size_bytes, uint8_t digest[BLAKE3_SHORT_BYTES]);

#endif
