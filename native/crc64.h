/*
 * CRC-64/NVME: the checksum that S3 keeps of whole objects, and one that pieces can be put together from.
 *
 * The polynomial is 0xad93d23594c93659, bits are taken lowest first, the register begins and ends inverted. The value of
 * the nine bytes "123456789" is 0xae8b14860a799888, that of no bytes is 0. Where values are written as bytes (S3, the
 * catalog), the most significant byte comes first; that is left to callers.
 *
 * Nothing here prints, aborts, allocates or keeps state, and no machine's byte order matters.
 */
#ifndef CRC64_H
#define CRC64_H

#include <stddef.h>
#include <stdint.h>

#define CRC64_BYTES 8 /* of a value that is written as bytes */

/* The bits of a feature mask, from the narrowest path to the widest. The portable path can't be masked out. */
#define CRC64_FEATURE_CLMUL 1U  /* x86-64 with PCLMULQDQ */
#define CRC64_FEATURE_VCLMUL 2U /* with AVX-512 and VPCLMULQDQ */
#define CRC64_FEATURES_ALL 3U

/* Return 0 if some path can be used, -1 if none passes the self-test: then no value below means anything. */
int crc64_select(void);

/*
 * Return the value of all bytes so far, of which ${crc} is the value without the last ${size_bytes}, at ${data}. The
 * value before the first byte is 0.
 */
uint64_t crc64_update(uint64_t crc, const uint8_t *data, size_t size_bytes);

/*
 * Write the value of each block of ${block_bytes}, at least 1, to ${values}; the last block may be shorter. No bytes
 * have no block.
 */
void crc64_blocks(const uint8_t *data, size_t size_bytes, size_t block_bytes, uint64_t *values);

/* Return the value of two pieces together, from the value of each one and the length of the second. */
uint64_t crc64_combine(uint64_t first, uint64_t second, uint64_t second_bytes);

/*
 * Return the value of ${count} pieces together, each of ${block_bytes} but for the last one of ${last_bytes}: much
 * cheaper than one after the other. No pieces have the value 0.
 */
uint64_t crc64_combine_blocks(const uint64_t *values, size_t count, uint64_t block_bytes, uint64_t last_bytes);

/*
 * Use only paths whose bits are in ${mask}, so that tests can walk through all of them. Meant for the time before
 * threads; afterwards it is safe, too, and takes hold with the next call.
 */
void crc64_set_feature_mask(uint32_t mask);

/* Return the bits of what is compiled in and this machine has, whatever the mask. */
uint32_t crc64_features(void);

/* Return the bits of the paths that are in use: on this machine, under the mask, after the self-test. */
uint32_t crc64_features_in_use(void);

#endif
