/*
 * CRC-64/NVME: the full-object checksum of S3. CRCs of adjacent pieces can be combined.
 *
 * Polynomial 0xad93d23594c93659, reflected, initial value and final XOR all ones. The CRC of "123456789" is
 * 0xae8b14860a799888, of no bytes 0. S3 and the catalog store it most significant byte first; callers convert it.
 *
 * Never prints, aborts, allocates or keeps state. Independent of the machine's byte order.
 */
#ifndef CRC64_H
#define CRC64_H

#include <stddef.h>
#include <stdint.h>

#define CRC64_BYTES 8 /* of a stored CRC */

/* Bits of a feature mask, narrowest path first. The portable path has no bit and is always allowed. */
#define CRC64_FEATURE_CLMUL 1U  /* x86-64 with PCLMULQDQ */
#define CRC64_FEATURE_VCLMUL 2U /* with AVX-512 and VPCLMULQDQ */
#define CRC64_FEATURES_ALL 3U

/* Return 0 if the self-test passed, -1 if no path is usable; then all results below are invalid. */
int crc64_select(void);

/*
 * Return the CRC of a message extended by ${size_bytes} bytes at ${data}. ${crc} is the CRC of the message before, 0
 * for an empty one.
 */
uint64_t crc64_update(uint64_t crc, const uint8_t *data, size_t size_bytes);

/*
 * Write the CRC of each block of ${block_bytes}, at least 1, to ${values}. The last block may be shorter. Zero bytes
 * have no blocks.
 */
void crc64_blocks(const uint8_t *data, size_t size_bytes, size_t block_bytes, uint64_t *values);

/* Return the CRC of two adjacent pieces from their CRCs and the length of the second. */
uint64_t crc64_combine(uint64_t first, uint64_t second, uint64_t second_bytes);

/*
 * Return the CRC of ${count} adjacent pieces, each of ${block_bytes} except the last of ${last_bytes}; 0 if there are
 * none. Much faster than repeated crc64_combine.
 */
uint64_t crc64_combine_blocks(const uint64_t *values, size_t count, uint64_t block_bytes, uint64_t last_bytes);

/*
 * Restrict the whole process to the paths in ${mask}, from the next call on. Thread-safe. Meant for tests that iterate
 * over all paths.
 */
void crc64_set_feature_mask(uint32_t mask);

/* Return the features that are compiled in and supported by this machine, regardless of the mask. */
uint32_t crc64_features(void);

/* Return the features in use: supported, allowed by the mask, and self-tested. */
uint32_t crc64_features_in_use(void);

#endif
