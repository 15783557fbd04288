/*
 * Load and store numbers, little endian unless the name says otherwise.
 *
 * Works byte by byte, so alignment and the machine's byte order do not matter. Compilers emit one instruction for each.
 */
#ifndef BYTES_H
#define BYTES_H

#include <stdint.h>

static inline uint32_t load_u32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline uint64_t load_u64(const uint8_t *from)
{
    return (uint64_t)load_u32(from) | (uint64_t)load_u32(from + 4) << 32;
}

static inline void store_u32(uint8_t *to, uint32_t value)
{
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
    to[2] = (uint8_t)(value >> 16);
    to[3] = (uint8_t)(value >> 24);
}

static inline void store_u64(uint8_t *to, uint64_t value)
{
    store_u32(to, (uint32_t)value);
    store_u32(to + 4, (uint32_t)(value >> 32));
}

static inline uint32_t load_u32_be(const uint8_t *from)
{
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | (uint32_t)from[3];
}

/* Most significant byte first, the order in which CRCs are written. */
static inline void store_u64_be(uint8_t *to, uint64_t value)
{
    for (int i = 8; i-- > 0; value >>= 8)
        to[i] = (uint8_t)value;
}

#endif
