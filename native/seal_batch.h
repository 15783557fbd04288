/*
 * Seal the catalog rows of many new files in one call. daemon/integrity/catalog/seal.py specifies the sealed messages.
 */
#ifndef SEAL_BATCH_H
#define SEAL_BATCH_H

#include "blake3_short.h"
#include "file_batch.h"

#define SEAL_BATCH_BYTES BLAKE3_SHORT_BYTES
#define SEAL_BATCH_MOST_PATH_BYTES 768U
#define SEAL_BATCH_MOST_WORDS_BYTES 64U
#define SEAL_BATCH_NONE INT64_MIN /* stands for NULL in the catalog */

/* The values that all files share. */
typedef struct {
    const uint8_t *key; /* BLAKE3_SHORT_KEY_BYTES; NULL: unkeyed */
    const uint8_t *root_token; /* 16 bytes */
    int64_t first_id;
    int64_t recorded_at;
    int64_t boot_id; /* or SEAL_BATCH_NONE */
    const char *words; /* the reason, then the way of reading; at most SEAL_BATCH_MOST_WORDS_BYTES */
    size_t reason_bytes;
    size_t words_bytes;
} seal_batch_terms;

/* The files, by column. NULL for a digest that no file has. */
typedef struct {
    file_batch_paths paths; /* none longer than SEAL_BATCH_MOST_PATH_BYTES */
    const int64_t *sizes_bytes;
    const int64_t *mtimes_ns;
    const int64_t *ctimes_ns;
    const int64_t *inodes;
    const int64_t *are_racy;
    const uint8_t *md5s;
    const uint8_t *xxh3_128s;
    const uint8_t *crc64nvmes;
} seal_batch_files;

/*
 * Seal the first versions of files without block digests. Write SEAL_BATCH_BYTES per baseline to ${seals}, and as many
 * per state to ${state_seals}. Write the XOR of all baseline seals to ${tally}.
 */
void seal_batch_new(const seal_batch_terms *terms, const seal_batch_files *files, uint8_t *seals, uint8_t *state_seals,
                    uint8_t tally[SEAL_BATCH_BYTES]);

#endif
