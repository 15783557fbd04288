/* The time that only goes forward. Before any other header: #define _GNU_SOURCE. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

/* About the year 2262: the most seconds, both ways, whose nanoseconds fit into 64 bits. */
#define CLOCK_MOST_SECONDS 9223372035

static inline int clock_fits_ns(const struct timespec *time)
{
    return time->tv_sec >= -CLOCK_MOST_SECONDS && time->tv_sec <= CLOCK_MOST_SECONDS;
}

/* Return ${time}, which clock_fits_ns, in nanoseconds. */
static inline int64_t clock_to_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static inline int64_t clock_read_ns(void)
{
    struct timespec now = {0, 0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return clock_to_ns(&now);
}

#endif
