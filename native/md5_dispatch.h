/*
 * The paths that compute MD5, and which of them are in use. Implemented in md5_dispatch.c, which knows no stream.
 */
#ifndef MD5_DISPATCH_H
#define MD5_DISPATCH_H

#include <stdint.h>

/* What a path compresses at a time (RFC 1321 section 3.4). */
#define MD5_BLOCK_BYTES 64

/*
 * The bits of a feature mask, from the narrowest path to the widest. The portable path of one chain needs none of them
 * and can't be masked out; MD5_FEATURE_INTERLEAVED are its forms for two and for four chains.
 */
#define MD5_FEATURE_X86_64 1U
#define MD5_FEATURE_INTERLEAVED 2U
#define MD5_FEATURE_NEON 4U
#define MD5_FEATURE_AVX2 8U
#define MD5_FEATURE_AVX512 16U
#define MD5_FEATURES_ALL 31U

/*
 * Let only the features in ${mask} be used from the next block on, in the whole process; MD5_FEATURES_ALL lifts the
 * limit. Meant for tests, which walk through all masks; a stream gives the same digest whatever path computes it.
 */
void md5_set_feature_mask(uint32_t mask);

/* Return the features that this build, the processor and the operating system have, whatever the mask. */
uint32_t md5_features(void);

/* Return those of them that the mask allows and that passed the self-test: the ones that compute. */
uint32_t md5_features_in_use(void);

#endif
