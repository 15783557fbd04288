/*
 * The parts of md5_selftest, each of which is run for all sets of features.
 */
#ifndef MD5_SELFTEST_H
#define MD5_SELFTEST_H

typedef struct {
    const char *name;
    void (*run)(void);
} test_case;

/* Each ends with a name that is NULL. */
extern const test_case stream_tests[]; /* md5_selftest_stream.c */
extern const test_case lanes_tests[];  /* md5_selftest_lanes.c */
extern const test_case broken_tests[]; /* md5_selftest_broken.c */
extern const test_case batch_tests[];  /* md5_selftest_batch.c */
extern const test_case border_tests[]; /* md5_selftest_border.c */
extern const test_case scheduler_tests[]; /* md5_selftest_scheduler.c */

#endif
