/*
 * BLAKE3 of a single chunk, after sections 2.1 to 2.4 of the BLAKE3 paper: no tree, one output block.
 */
#include "blake3_short.h"

#include "bytes.h"

#include <string.h>

#define BLOCK_BYTES 64U
#define ROUNDS 7

/* Block flags (table 3). */
#define CHUNK_START 1U
#define CHUNK_END 2U
#define ROOT 8U
#define KEYED_HASH 16U

static const uint32_t IV[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                               0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};

/* Message word order of each round: the permutation of table 2, applied once more per round. */
static const uint8_t ORDER[ROUNDS][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13},
};

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value >> bits | value << (32 - bits);
}

static void mix(uint32_t v[16], unsigned a, unsigned b, unsigned c, unsigned d, uint32_t x, uint32_t y)
{
    v[a] += v[b] + x;
    v[d] = rotate(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 12);
    v[a] += v[b] + y;
    v[d] = rotate(v[d] ^ v[a], 8);
    v[c] += v[d];
    v[b] = rotate(v[b] ^ v[c], 7);
}

static void compress(uint32_t chain[8], const uint8_t block[BLOCK_BYTES], uint32_t size_bytes, uint32_t flags)
{
    uint32_t m[16];
    uint32_t v[16] = {chain[0], chain[1], chain[2], chain[3], chain[4], chain[5], chain[6],   chain[7],
                      IV[0],    IV[1],    IV[2],    IV[3],    0,        0,        size_bytes, flags};

    for (unsigned i = 0; i < 16; i++)
        m[i] = load_u32(block + 4 * i);
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint8_t *const o = ORDER[round];

        mix(v, 0, 4, 8, 12, m[o[0]], m[o[1]]);
        mix(v, 1, 5, 9, 13, m[o[2]], m[o[3]]);
        mix(v, 2, 6, 10, 14, m[o[4]], m[o[5]]);
        mix(v, 3, 7, 11, 15, m[o[6]], m[o[7]]);
        mix(v, 0, 5, 10, 15, m[o[8]], m[o[9]]);
        mix(v, 1, 6, 11, 12, m[o[10]], m[o[11]]);
        mix(v, 2, 7, 8, 13, m[o[12]], m[o[13]]);
        mix(v, 3, 4, 9, 14, m[o[14]], m[o[15]]);
    }
    for (unsigned i = 0; i < 8; i++)
        chain[i] = v[i] ^ v[i + 8];
}

void blake3_short(const uint8_t *key, const uint8_t *message, size_t size_bytes, uint8_t digest[BLAKE3_SHORT_BYTES])
{
    const uint32_t keyed = key == NULL ? 0 : KEYED_HASH;
    uint8_t last[BLOCK_BYTES] = {0};
    uint32_t chain[8];
    uint32_t start = CHUNK_START;

    for (unsigned i = 0; i < 8; i++)
        chain[i] = key == NULL ? IV[i] : load_u32(key + 4 * i);
    for (; size_bytes > BLOCK_BYTES; size_bytes -= BLOCK_BYTES, message += BLOCK_BYTES, start = 0)
        compress(chain, message, BLOCK_BYTES, keyed | start);
    memcpy(last, message, size_bytes);
    compress(chain, last, (uint32_t)size_bytes, keyed | start | CHUNK_END | ROOT);
    for (unsigned i = 0; i < BLAKE3_SHORT_BYTES / 4; i++)
        store_u32(digest + 4 * i, chain[i]);
}
