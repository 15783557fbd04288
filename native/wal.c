#include "wal.h"

#include <string.h>

#include "bytes.h"

#define HEADER_BYTES 32U
#define FRAME_HEADER_BYTES 24U
#define SALTS_BYTES 8U
#define MAGIC 0x377f0682U /* with the lowest bit set: the sums are of big-endian words */

typedef struct {
    uint32_t first, second;
    int is_big;
} sums;

static uint32_t load_word(const uint8_t *at, int is_big)
{
    return is_big ? load_u32_be(at) : load_u32(at);
}

static void add(sums *total, const uint8_t *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 8) {
        total->first += load_word(data + at, total->is_big) + total->second;
        total->second += load_word(data + at + 4, total->is_big) + total->first;
    }
}

static int are_stored(const sums *total, const uint8_t *at)
{
    return load_u32_be(at) == total->first && load_u32_be(at + 4) == total->second;
}

int wal_check(const uint8_t *log, size_t bytes, wal_frames *frames)
{
    memset(frames, 0, sizeof *frames);
    if (bytes < HEADER_BYTES) return bytes == 0;
    sums total = {.is_big = (int)(load_u32_be(log) & 1U)};
    size_t page_bytes = load_u32_be(log + 8);
    add(&total, log, HEADER_BYTES - 8);
    if ((load_u32_be(log) & ~1U) != MAGIC || !are_stored(&total, log + 24)) return 0;
    if (page_bytes < 512 || page_bytes > 65536 || (page_bytes & (page_bytes - 1)) != 0) return 0;
    size_t frame_bytes = FRAME_HEADER_BYTES + page_bytes;
    int is_sound = 1;
    for (size_t at = HEADER_BYTES; bytes - at >= frame_bytes; at += frame_bytes) {
        const uint8_t *frame = log + at;
        if (memcmp(frame + 8, log + 16, SALTS_BYTES) != 0) { /* of an earlier use of the file, or damaged */
            is_sound = 0;
            continue;
        }
        int is_commit = load_u32_be(frame + 4) != 0, was_sound = is_sound;
        if (is_sound) {
            add(&total, frame, 8);
            add(&total, frame + FRAME_HEADER_BYTES, page_bytes);
            is_sound = are_stored(&total, frame + 16);
        }
        if (is_sound) {
            frames->sound++;
        } else if (is_commit && was_sound) {
            frames->is_torn = 1;
        } else if (is_commit) {
            frames->lost++;
        }
    }
    return 1;
}
