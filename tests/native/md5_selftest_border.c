/*
 * Messages that end where memory does: the page behind them, and the one before, can't be read. A path that takes one
 * byte too much dies here, also one whose loads no sanitizer sees (another machine's, assembly).
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include "md5_selftest.h"

#include "md5_batch.h"
#include "md5_reference.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONGEST_BYTES 330

typedef struct {
    uint8_t *memory;
    size_t page_bytes;
} island;

/* One page between two that nobody may touch. */
static island make_island(void)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = mmap(NULL, 3 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    REQUIRE(memory != MAP_FAILED);
    REQUIRE(mprotect(memory + page_bytes, page_bytes, PROT_READ | PROT_WRITE) == 0);
    for (size_t i = 0; i < page_bytes; i++)
        memory[page_bytes + i] = (uint8_t)(i * 7 % 251);
    return (island){memory, page_bytes};
}

static void require_digest(const md5_message *message, const uint8_t actual[MD5_DIGEST_BYTES])
{
    uint8_t expected[MD5_DIGEST_BYTES];

    reference_digest(message->data, message->size_bytes, expected);
    REQUIRE(memcmp(expected, actual, sizeof expected) == 0);
}

/* Of all lengths in one batch, at the end of the page and at its beginning; they may overlap. */
static void require_batch(const island *at, int is_at_end)
{
    const uint8_t *const first = at->memory + at->page_bytes;
    md5_message messages[LONGEST_BYTES + 1];
    uint8_t digests[LONGEST_BYTES + 1][MD5_DIGEST_BYTES];

    for (size_t i = 0; i <= LONGEST_BYTES; i++)
        messages[i] = (md5_message){NULL, is_at_end ? first + (at->page_bytes - i) : first, i, NULL};
    REQUIRE(md5_batch(messages, LONGEST_BYTES + 1, digests[0]) == 0);
    for (size_t i = 0; i <= LONGEST_BYTES; i++)
        require_digest(&messages[i], digests[i]);
}

static void require_streams(const island *at)
{
    const uint8_t *const end = at->memory + 2 * at->page_bytes;
    md5_context contexts[LONGEST_BYTES + 1];
    md5_message messages[LONGEST_BYTES + 1];
    uint8_t unused[LONGEST_BYTES + 1][MD5_DIGEST_BYTES];

    for (size_t i = 0; i <= LONGEST_BYTES; i++) {
        REQUIRE(md5_init(&contexts[i]) == 0);
        md5_update(&contexts[i], end - i, i / 3);
        messages[i] = (md5_message){&contexts[i], end - i + i / 3, i - i / 3, NULL};
    }
    REQUIRE(md5_batch(messages, LONGEST_BYTES + 1, unused[0]) == 0);
    for (size_t i = 0; i <= LONGEST_BYTES; i++) {
        const md5_message message = {NULL, end - i, i, NULL};
        uint8_t digest[MD5_DIGEST_BYTES];

        md5_final(&contexts[i], digest);
        require_digest(&message, digest);
    }
}

static void test_no_byte_beyond_a_message_is_read(void)
{
    const island at = make_island();

    require_batch(&at, 1);
    require_batch(&at, 0);
    require_streams(&at);
    REQUIRE(munmap(at.memory, 3 * at.page_bytes) == 0);
}

const test_case border_tests[] = {
    {"no byte beyond a message is read", test_no_byte_beyond_a_message_is_read},
    {NULL, NULL},
};
