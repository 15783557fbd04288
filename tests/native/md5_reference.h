/*
 * What the parts of md5_selftest and the fuzz targets share: an MD5 that has nothing in common with the core, messages,
 * and a way to say what does not hold.
 */
#ifndef MD5_REFERENCE_H
#define MD5_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#define REQUIRE(condition) require((condition), #condition, __FILE__, __LINE__)

/* What runs at the moment, for messages. */
extern const char *current_test;
extern uint32_t current_mask;

/* Leave the program with a message unless ${holds}. */
void require(int holds, const char *condition, const char *file, int line);

/* A heap block of just this size, so that the sanitizer sees one byte read too far. The caller frees it. */
uint8_t *allocate(size_t size_bytes);

/* The same ${size_bytes} bytes in every run, others for every ${seed}. The caller frees them. */
uint8_t *make_message(size_t size_bytes, size_t seed);

/* The same numbers in every run. */
uint32_t next_random(uint32_t *seed);

/* Bring ${words} forward by one block. */
void reference_block(uint32_t words[4], const uint8_t block[64]);

/*
 * Write the digest of ${size_bytes} bytes that come behind ${before_bytes} others, a multiple of 64, which have brought
 * the chain to ${words}.
 */
void reference_finish(const uint32_t words[4], uint64_t before_bytes, const uint8_t *message, size_t size_bytes,
                      uint8_t digest[16]);

/* Write the digest of a whole message. */
void reference_digest(const uint8_t *message, size_t size_bytes, uint8_t digest[16]);

#endif
