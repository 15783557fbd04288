/* Monotonic clock, and timespec in nanoseconds. Define _GNU_SOURCE before any other header. */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

/* The range of int64_t in nanoseconds, rounded down to seconds: until about the year 2262. */
#define CLOCK_MOST_SECONDS 9223372035

static inline int clock_fits_ns(const struct timespec *time)
{
    const int64_t seconds = time->tv_sec; /* time_t may have 32 bits, which always fit */

    return seconds >= -CLOCK_MOST_SECONDS && seconds <= CLOCK_MOST_SECONDS;
}

/* Convert to nanoseconds. ${time} must pass clock_fits_ns. */
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
