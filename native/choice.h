/*
 * Which paths of a core are usable: found when it is first asked for, and anew when the mask has changed.
 *
 * A path is usable if it is compiled in, the machine has what it needs, the mask allows it, and it passes its self-test
 * (an idea of libcperciva's cpusupport). All is kept in one atomic; threads that find it unknown at the same time all
 * find the same.
 */
#ifndef CHOICE_H
#define CHOICE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The paths of one core. Each but the portable one has a feature bit, the lowest for the narrowest. */
typedef struct {
    uint32_t all_features;          /* below 2^29 */
    uint32_t (*features)(void);     /* those that are compiled in and that this machine has */
    int (*is_portable_right)(void); /* whether it passes its self-test */
    int (*is_right)(uint32_t feature);
    _Atomic uint32_t mask;
    _Atomic uint32_t usable; /* 0: not known yet, or the mask has changed since */
} choice;

/* Beside the feature bits in what is usable. */
#define CHOICE_IS_KNOWN 0x40000000U
#define CHOICE_IS_PORTABLE_RIGHT 0x20000000U

#define CHOICE_MESSAGE_PERIOD 251

static uint32_t choice_find(const choice *paths, uint32_t features)
{
    uint32_t found = CHOICE_IS_KNOWN;

    /* The others are held against the portable path: without it nothing is known of any. */
    if (!paths->is_portable_right())
        return found;
    found |= CHOICE_IS_PORTABLE_RIGHT;
    for (uint32_t feature = 1; feature <= paths->all_features; feature <<= 1)
        if ((features & feature) != 0 && paths->is_right(feature))
            found |= feature;
    return found;
}

/* Return what is usable: feature bits, and those above. */
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
 * Write ${size_bytes} bytes for a self-test, others for each ${first}, behind a first one that is not used: a path must
 * not need alignment. Their period is a prime, so that no two blocks, words, chains or lanes see the same bytes.
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
