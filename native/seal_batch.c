/*
 * Build each message field by field in the layout of catalog/seal.py, and digest it.
 */
#include "seal_batch.h"

#include <string.h>

#define TOKEN_BYTES 16U
#define FIRST_VERSION 1

/* Message kinds. */
#define FILE_KIND 0x01U
#define FILE_WITH_CRC_KIND 0x04U
#define STATE_KIND 0x06U

/* A message under construction. The longest take 73 + 768 + 40 or 60 + 64 bytes. */
typedef struct {
    uint8_t bytes[BLAKE3_SHORT_MOST_BYTES];
    size_t size_bytes;
} sealed_message;

static void put(sealed_message *to, const void *bytes, size_t size_bytes)
{
    memcpy(to->bytes + to->size_bytes, bytes, size_bytes);
    to->size_bytes += size_bytes;
}

/* Append a number of ${size_bytes} bytes, little endian. */
static void put_number(sealed_message *to, uint64_t value, size_t size_bytes)
{
    for (; size_bytes != 0; size_bytes--, value >>= 8)
        to->bytes[to->size_bytes++] = (uint8_t)value;
}

static void put_i64(sealed_message *to, int64_t value)
{
    put_number(to, (uint64_t)value, 8);
}

static void put_digest(sealed_message *to, const uint8_t *digests, size_t index, size_t size_bytes)
{
    if (digests != NULL)
        put(to, digests + index * size_bytes, size_bytes);
}

static void seal_file(const seal_batch_terms *terms, const seal_batch_files *files, size_t index, const char *path,
                      size_t path_bytes, uint8_t *seal)
{
    sealed_message message;

    message.size_bytes = 0;
    put_number(&message, files->crc64nvmes == NULL ? FILE_KIND : FILE_WITH_CRC_KIND, 1);
    put(&message, terms->root_token, TOKEN_BYTES);
    put_i64(&message, files->sizes_bytes[index]);
    put_i64(&message, files->mtimes_ns[index]);
    put_i64(&message, files->ctimes_ns[index]);
    put_i64(&message, files->inodes[index]);
    put_number(&message, (uint64_t)files->are_racy[index], 1);
    put_i64(&message, -1); /* no blocks */
    put_i64(&message, FIRST_VERSION);
    put_number(&message, path_bytes, 4);
    put_number(&message, files->md5s == NULL ? 0 : MD5_DIGEST_BYTES, 1);
    put_number(&message, files->xxh3_128s == NULL ? 0 : XXH3_128_BYTES, 1);
    put_number(&message, 0, 1); /* no BLAKE3 */
    put(&message, path, path_bytes);
    put_digest(&message, files->md5s, index, MD5_DIGEST_BYTES);
    put_digest(&message, files->xxh3_128s, index, XXH3_128_BYTES);
    put_digest(&message, files->crc64nvmes, index, CRC64_BYTES);
    blake3_short(terms->key, message.bytes, message.size_bytes, seal);
}

static void seal_state(const seal_batch_terms *terms, size_t index, const uint8_t *seal, uint8_t *state_seal)
{
    sealed_message message;

    message.size_bytes = 0;
    put_number(&message, STATE_KIND, 1);
    put_i64(&message, terms->first_id + (int64_t)index);
    put(&message, seal, SEAL_BATCH_BYTES);
    put_i64(&message, terms->recorded_at);
    put_i64(&message, SEAL_BATCH_NONE); /* verified */
    put_i64(&message, terms->boot_id);
    put_number(&message, 0, 1); /* suspect */
    put_number(&message, 0, 1); /* frozen */
    put_number(&message, terms->reason_bytes, 1);
    put(&message, terms->words, terms->words_bytes);
    blake3_short(terms->key, message.bytes, message.size_bytes, state_seal);
}

void seal_batch_new(const seal_batch_terms *terms, const seal_batch_files *files, uint8_t *seals, uint8_t *state_seals,
                    uint8_t tally[SEAL_BATCH_BYTES])
{
    const char *path = files->paths.text;

    memset(tally, 0, SEAL_BATCH_BYTES);
    for (size_t i = 0; i < files->paths.count; i++, seals += SEAL_BATCH_BYTES, state_seals += SEAL_BATCH_BYTES) {
        const size_t path_bytes = strlen(path);

        seal_file(terms, files, i, path, path_bytes, seals);
        seal_state(terms, i, seals, state_seals);
        for (size_t byte = 0; byte < SEAL_BATCH_BYTES; byte++)
            tally[byte] ^= seals[byte];
        path += path_bytes + 1;
    }
}
