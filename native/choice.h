/*
 * Select the usable paths of a core, on first use and again after the mask changed.
 *
 * A path is usable if it is compiled in, the machine supports it, the mask allows it, and it passes its self-test
 * (idea: libcperciva, cpusupport). One atomic caches the result. Threads that race to fill the cache compute the same
 * value.
 */
#ifndef CHOICE_H
#define CHOICE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The paths of one core. Every path except the portable one has a feature bit; the narrowest path has the lowest. */
typedef struct {
    uint32_t all_features;          /* below 2^29 */
    uint32_t (*features)(void);     /* compiled in and supported by this machine */
    int (*is_portable_right)(void); /* return whether the portable path passes its self-test */
    int (*is_right)(uint32_t feature);
    _Atomic uint32_t mask;
    _Atomic uint32_t usable; /* 0: not computed yet, or the mask changed since */
} choice;

/* Bits of ${usable} beside the feature bits. */
#define CHOICE_IS_KNOWN 0x40000000U
#define CHOICE_IS_PORTABLE_RIGHT 0x20000000U

#define CHOICE_MESSAGE_PERIOD 251

static uint32_t choice_find(const choice *paths, uint32_t features)
{
    uint32_t found = CHOICE_IS_KNOWN;

    /* The self-tests of other paths compare with the portable path, so none can run without it. */
    if (!paths->is_portable_right())
        return found;
    found |= CHOICE_IS_PORTABLE_RIGHT;
    for (uint32_t feature = 1; feature <= paths->all_features; feature <<= 1)
        if ((features & feature) != 0 && paths->is_right(feature))
            found |= feature;
    return found;
}

/* Return the usable paths: feature bits and the bits above. */
static inline uint32_t choice_get(choice *paths)
{
    uint32_t found = atomic_load_explicit(&paths->usable, memory_order_relaxed);

    if (found == 0) {
        found = choice_find(paths, paths->features() & atomic_load(&paths->mask));
        atomic_store(&paths->usable, found);
    }
    return found;
}

/*
 * Write a test message of ${size_bytes} bytes to ${message} + 1. The offset of 1 tests that a path needs no alignment.
 * ${first} varies the content. The period is prime, so blocks, words, chains and lanes all get different bytes.
 */
static inline void choice_write_message(uint8_t *message, size_t size_bytes, size_t first)
{
    message[0] = 0;
    for (size_t i = 0; i < size_bytes; i++)
        message[1 + i] = (uint8_t)((first + i) % CHOICE_MESSAGE_PERIOD);
}

static inline void choice_set_mask(choice *paths, uint32_t mask)
{
    atomic_store(&paths->mask, mask);
    atomic_store(&paths->usable, 0);
}

#endif
