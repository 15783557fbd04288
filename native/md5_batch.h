/*
 * MD5 of many messages in one call, which is where several of them can be computed side by side.
 */
#ifndef MD5_BATCH_H
#define MD5_BATCH_H

#include "md5.h"

/*
 * Bytes that lie in memory as one piece, ${data} may be NULL if there are none: either a whole message, or, with a
 * ${stream}, what is appended to that, as md5_update does.
 */
typedef struct {
    md5_context *stream;
    const uint8_t *data;
    size_t size_bytes;
} md5_message;

/*
 * Work off ${count} messages of any lengths. Write the digest of the i-th to ${digests} + 16 * i if it is a whole one;
 * leave that place as it is if it belongs to a stream. No stream may occur twice.
 *
 * Lanes are filled in the order of the messages: put a long one first that many shorter ones can go beside.
 *
 * Refuse (-1) as md5_init does, without doing anything.
 */
int md5_batch(const md5_message *messages, size_t count, uint8_t *digests);

/*
 * Digest ${count} messages that lie one behind the other from ${data} on, the i-th of ${sizes_bytes}[i]. Write its digest
 * to ${digests} + 16 * i. Refuse (-1) as md5_init does.
 */
int md5_batch_joined(const uint8_t *data, const uint64_t *sizes_bytes, size_t count, uint8_t *digests);

/*
 * Give the next message of ${source}, and the place for its digest if it is a whole one; return 0 when there are no
 * more. Called in the order in which lanes become free.
 */
typedef int md5_take(void *source, md5_message *message, uint8_t **digest);

/* Work off what ${take} gives, as md5_batch does with a list. */
int md5_batch_from(md5_take *take, void *source);

#endif
