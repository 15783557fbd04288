/*
 * The features that select MD5 paths. Implemented by md5_dispatch.c, which is independent of the streams in md5.h.
 */
#ifndef MD5_DISPATCH_H
#define MD5_DISPATCH_H

#include <stdint.h>

/* RFC 1321 section 3.4. */
#define MD5_BLOCK_BYTES 64

/*
 * Bits of a feature mask, narrowest path first. The portable path for one chain has no bit and is always allowed.
 * MD5_FEATURE_INTERLEAVED stands for the portable paths for two and four chains.
 */
#define MD5_FEATURE_X86_64 1U
#define MD5_FEATURE_INTERLEAVED 2U
#define MD5_FEATURE_NEON 4U
#define MD5_FEATURE_AVX2 8U
#define MD5_FEATURE_AVX512 16U
#define MD5_FEATURES_ALL 31U

/*
 * Restrict the whole process to the features in ${mask}, from the next block on. MD5_FEATURES_ALL lifts the
 * restriction. Meant for tests, which iterate over all masks. Digests do not depend on the path.
 */
void md5_set_feature_mask(uint32_t mask);

/* Return the features that the build, the processor and the operating system support, regardless of the mask. */
uint32_t md5_features(void);

/* Return the features in use: supported, allowed by the mask, and self-tested. */
uint32_t md5_features_in_use(void);

#endif
