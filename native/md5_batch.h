/*
 * MD5 of many messages, several computed in parallel lanes: all in one call, or as they arrive.
 */
#ifndef MD5_BATCH_H
#define MD5_BATCH_H

#include "md5.h"

/*
 * ${size_bytes} contiguous bytes at ${data}, which may be NULL if ${size_bytes} is 0. Without a ${stream} they are a
 * whole message. With a ${stream} they are appended to it, as by md5_update. Unless ${unfinished} is NULL, it is
 * decremented when the bytes are no longer needed and the digest is written.
 */
typedef struct {
    md5_context *stream;
    const uint8_t *data;
    size_t size_bytes;
    size_t *unfinished;
} md5_message;

/*
 * Digest ${count} messages of any lengths. Write the digest of whole message i to ${digests} + 16 * i. Leave that place
 * unchanged for a message with a stream. Each stream may occur only once.
 *
 * Lanes are filled in message order, so put long messages first: shorter ones then run beside them.
 *
 * Return 0, or -1 as md5_init does, without any effect.
 */
int md5_batch(const md5_message *messages, size_t count, uint8_t *digests);

/*
 * Digest ${count} adjacent messages at ${data}. Message i has ${sizes_bytes}[i] bytes. Write its digest to ${digests} +
 * 16 * i. Return 0, or -1 as md5_init does.
 */
int md5_batch_joined(const uint8_t *data, const uint64_t *sizes_bytes, size_t count, uint8_t *digests);

/*
 * Set the next message of ${source} and, for a whole message, the place for its digest. Return 1, or 0 if there are no
 * more. Called whenever a lane becomes free.
 */
typedef int md5_take(void *source, md5_message *message, uint8_t **digest);

/* Digest the messages that ${take} returns, as md5_batch does with a list. */
int md5_batch_from(md5_take *take, void *source);

/*
 * A scheduler keeps lanes full across batches: a message may complete beside messages of later batches, so lanes run
 * empty only once, at the flush. Only one thread at a time may use a scheduler.
 */
typedef struct md5_scheduler md5_scheduler;

/* Return the size of a scheduler in bytes. It needs the alignment of malloc(3). */
size_t md5_scheduler_bytes(void);

/* Start without messages. Return 0, or -1 as md5_init does. */
int md5_scheduler_init(md5_scheduler *scheduler);

/*
 * Take all messages that ${take} returns, and work while every lane has a message. Later calls complete the messages
 * that remain in lanes. Keep the bytes, the stream and the place for the digest of a message in place until it
 * completes.
 */
void md5_scheduler_submit(md5_scheduler *scheduler, md5_take *take, void *source);

/* Work with partly filled lanes until one message completes or has only its padding left. */
void md5_scheduler_step(md5_scheduler *scheduler);

/*
 * Work until one of the ${count} counters at ${unfinished}, of messages that were submitted, is 0. There is at least
 * one counter.
 */
void md5_scheduler_wait(md5_scheduler *scheduler, const size_t *const *unfinished, size_t count);

/* Complete all submitted messages. More may be submitted afterwards. */
void md5_scheduler_flush(md5_scheduler *scheduler);

#endif
