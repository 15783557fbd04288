/*
 * MD5 (RFC 1321) as a stream whose state can be exported and imported.
 *
 * Never prints, aborts or allocates. All buffers belong to the caller. Functions that can fail return 0 for success and
 * -1 for failure. Only one thread at a time may use a context. Contexts are independent of each other.
 *
 * Format of the exported state. All numbers are little endian on every machine. B is the number of bytes in the last,
 * partial block.
 *
 *   OFFSET  SIZE  DESCRIPTION
 *        0     4  magic: 0x89 'M' 'D' '5' (the first byte is not ASCII, so no text file matches)
 *        4     1  version: 1
 *        5     1  B, 0 to 63; always the byte count modulo 64
 *        6     2  length of the whole state: 40 + B
 *        8    16  chaining words A, B, C, D after the full blocks (RFC 1321 section 3.4), 4 bytes each
 *       24     8  byte count: bytes hashed so far, including the B waiting bytes
 *       32     B  the waiting bytes
 *     32+B     8  check value: the first 8 bytes of the MD5 of bytes 0 to 31+B
 *
 * The check value detects damage, not tampering: anyone with write access to the catalog can compute a valid state.
 *
 * Example: the state after the three bytes "abc". No block is full, so the words are the initial ones of RFC 1321
 * section 3.3.
 *
 *   89 4d 44 35  01  03  2b 00                              magic, version 1, B = 3, length 43
 *   01 23 45 67  89 ab cd ef  fe dc ba 98  76 54 32 10      A, B, C, D
 *   03 00 00 00 00 00 00 00                                 3 bytes so far
 *   61 62 63                                                "abc"
 *   b8 11 d2 dc be cc 81 f8                                 check value
 */
#ifndef MD5_H
#define MD5_H

#include "md5_dispatch.h"

#include <stddef.h>
#include <stdint.h>

#define MD5_DIGEST_BYTES 16
#define MD5_STATE_VERSION 1
#define MD5_STATE_MIN_BYTES 40
#define MD5_STATE_MAX_BYTES 103

/*
 * Public so that callers can allocate it; only the core accesses its fields. Assignment copies the stream.
 */
typedef struct {
    uint32_t words[4];                /* A, B, C, D after the full blocks */
    uint64_t byte_count;              /* modulo 2^64; RFC 1321 uses the bit count modulo 2^64 */
    uint8_t waiting[MD5_BLOCK_BYTES]; /* the first byte_count % 64 bytes are valid */
} md5_context;

/*
 * Start an empty stream. Return 0, or -1 if no path passes the self-test on this machine; then no result of this
 * library can be trusted.
 */
int md5_init(md5_context *context);

/* Append ${size_bytes} bytes from ${data}. ${data} may be NULL if ${size_bytes} is 0. */
void md5_update(md5_context *context, const void *data, size_t size_bytes);

/* md5_init and md5_update in one call. Return 0, or -1 as md5_init does. */
int md5_begin(md5_context *context, const void *data, size_t size_bytes);

/* Write the digest of all bytes so far. ${context} does not change and can be updated further. */
void md5_final(const md5_context *context, uint8_t digest[MD5_DIGEST_BYTES]);

/* Write the digest of ${size_bytes} bytes. Return 0, or -1 as md5_init does. */
int md5_digest(const void *data, size_t size_bytes, uint8_t digest[MD5_DIGEST_BYTES]);

/* Write the state in the format above. Return its length in bytes. */
size_t md5_export(const md5_context *context, uint8_t state[MD5_STATE_MAX_BYTES]);

/*
 * Set ${context} to the exported stream. Return 0, or -1 if md5_state_problem finds a problem or md5_init would fail;
 * then ${context} does not change.
 */
int md5_import(md5_context *context, const uint8_t *state, size_t size_bytes);

/* Return a short English description of what is wrong with ${state} of ${size_bytes}; NULL for a valid state. */
const char *md5_state_problem(const uint8_t *state, size_t size_bytes);

#endif
