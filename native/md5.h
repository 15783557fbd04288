/*
 * MD5 (RFC 1321) as a stream whose state can be stored and taken up again.
 *
 * Nothing here prints, aborts or allocates: every buffer is the caller's. Functions that can refuse return 0 for done
 * and -1 for refused. A context belongs to one thread at a time; different contexts never share anything.
 *
 * The exported state. All numbers are little endian on every machine. B is the number of bytes that wait for their
 * block to become full.
 *
 *   OFFSET  SIZE  DESCRIPTION
 *        0     4  magic: 0x89 'M' 'D' '5' (the first byte is no text, so no text file is taken for a state)
 *        4     1  version: 1
 *        5     1  B, 0 to 63; always the byte count modulo 64
 *        6     2  length of the whole state: 40 + B
 *        8    16  chaining words A, B, C, D after the full blocks (RFC 1321 section 3.4), 4 bytes each
 *       24     8  byte count: bytes hashed so far, the B waiting ones included
 *       32     B  the waiting bytes
 *     32+B     8  check value: the first 8 bytes of the MD5 of bytes 0 to 31+B
 *
 * The check value finds damage, not malice: who can write to the catalog can make a valid state.
 *
 * Worked example: the state after the three bytes "abc". The words are still those of RFC 1321 section 3.3, since no
 * block is full.
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
 * Public so that callers can place it where they like; its fields are the core's alone. Copying it by assignment copies
 * the stream.
 */
typedef struct {
    uint32_t words[4];                /* A, B, C, D after the full blocks */
    uint64_t byte_count;              /* modulo 2^64, which RFC 1321 reduces further to 2^64 bits */
    uint8_t waiting[MD5_BLOCK_BYTES]; /* the first byte_count % 64 of them are in use */
} md5_context;

/*
 * Make ${context} the stream of no bytes. Refuse (-1) if no path of this machine passes the self-test: then nothing
 * that this library computes can be trusted.
 */
int md5_init(md5_context *context);

/* Append ${size_bytes} bytes from ${data}, which may be NULL if there are none. */
void md5_update(md5_context *context, const void *data, size_t size_bytes);

/* Make ${context} the stream of these bytes: md5_init and md5_update in one call. Refuse (-1) as md5_init does. */
int md5_begin(md5_context *context, const void *data, size_t size_bytes);

/* Write the digest of everything so far. ${context} is left as it was and can be updated further. */
void md5_final(const md5_context *context, uint8_t digest[MD5_DIGEST_BYTES]);

/* Write the digest of ${size_bytes} bytes. Return 0, or -1 if no path passes its self-test. */
int md5_digest(const void *data, size_t size_bytes, uint8_t digest[MD5_DIGEST_BYTES]);

/* Write the state as in the table above; return its length in bytes. */
size_t md5_export(const md5_context *context, uint8_t state[MD5_STATE_MAX_BYTES]);

/*
 * Make ${context} the stream that was exported. Refuse (-1), leaving ${context} as it was, if md5_state_problem has
 * anything to say or if md5_init would refuse.
 */
int md5_import(md5_context *context, const uint8_t *state, size_t size_bytes);

/* Say in a few English words what is wrong with ${size_bytes} bytes of ${state}; NULL if nothing is. */
const char *md5_state_problem(const uint8_t *state, size_t size_bytes);

#endif
