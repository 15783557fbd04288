/*
 * The parts of crc64_selftest, each of which is run for all sets of features.
 */
#ifndef CRC64_SELFTEST_H
#define CRC64_SELFTEST_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;
    void (*run)(void);
} test_case;

/* Ends with a name that is NULL. */
extern const test_case broken_tests[]; /* crc64_selftest_broken.c */

/* The value as its definition says, bit by bit; it has nothing in common with the core. */
uint64_t reference_crc64(const uint8_t *data, size_t size_bytes);

#endif
