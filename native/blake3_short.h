/*
 * BLAKE3 of messages of one chunk, without a call of Python for each: what rows of the catalog are sealed with.
 */
#ifndef BLAKE3_SHORT_H
#define BLAKE3_SHORT_H

#include <stddef.h>
#include <stdint.h>

#define BLAKE3_SHORT_MOST_BYTES 1024U
#define BLAKE3_SHORT_KEY_BYTES 32U
#define BLAKE3_SHORT_BYTES 16U

/* Write the first bytes of the digest of at most BLAKE3_SHORT_MOST_BYTES, keyed unless ${key} is NULL. */
void blake3_short(const uint8_t *key, const uint8_t *message, size_t size_bytes, uint8_t digest[BLAKE3_SHORT_BYTES]);

#endif
