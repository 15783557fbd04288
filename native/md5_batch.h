/*
 * MD5 of many messages, several of them computed side by side: all in one call, or as they come.
 */
#ifndef MD5_BATCH_H
#define MD5_BATCH_H

#include "md5.h"

/*
 * Bytes that lie in memory as one piece, ${data} may be NULL if there are none: either a whole message, or, with a
 * ${stream}, what is appended to that, as md5_update does. ${unfinished}, if it is not NULL, is decremented when the
 * bytes are needed no longer and the digest is written.
 */
typedef struct {
    md5_context *stream;
    const uint8_t *data;
    size_t size_bytes;
    size_t *unfinished;
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

/*
 * Lanes that stay full from one batch to the next: a message may end long after it was submitted, beside messages that
 * came later, so that lanes run empty once, at the end. For one thread at a time.
 */
typedef struct md5_scheduler md5_scheduler;

/* Return how much memory a scheduler takes, aligned as for any type. */
size_t md5_scheduler_bytes(void);

/* Begin without messages. Refuse (-1) as md5_init does. */
int md5_scheduler_init(md5_scheduler *scheduler);

/*
 * Take all messages that ${take} gives, and work as long as every lane has one. What is begun then goes on with the next
 * call: its bytes, its stream and the place for its digest have to stay where they are until it has ended.
 */
void md5_scheduler_submit(md5_scheduler *scheduler, md5_take *take, void *source);

/* Work for a while although not every lane has a message: until one of them has come to its end, or next to it. */
void md5_scheduler_step(md5_scheduler *scheduler);

/* Work off all messages that were submitted. More may be submitted afterwards. */
void md5_scheduler_flush(md5_scheduler *scheduler);

#endif
