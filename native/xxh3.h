/*
 * XXH3-128 of bytes in memory, without a call of Python for each.
 */
#ifndef XXH3_H
#define XXH3_H

#include <stddef.h>
#include <stdint.h>

/* Write the digest of ${size_bytes} bytes, the most significant byte first, as the xxhash tools print it. */
void xxh3_128(const uint8_t *data, size_t size_bytes, uint8_t digest[16]);

#endif
