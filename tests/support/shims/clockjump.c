/*
 * The wall clock jumps, in one program and its children, at run time; monotonic time, sleeps and the file times that
 * the kernel sets stay real: as when the time is set over the network, or the clock's battery is dead.
 *
 *   echo 0 > offset; RIG_CLOCK=$PWD/offset LD_PRELOAD=.../clockjump.so python3 ...
 *   echo -86400 > offset        from now on it is yesterday for the program
 *
 * libfaketime would fake the monotonic clock as well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Return how many seconds the clock is off: what the file that RIG_CLOCK names says now. */
static long
get_offset_s(void)
{
	static int fd = -2;
	char text[32];
	ssize_t length;

	if (fd == -2) {
		const char * path = getenv("RIG_CLOCK");
		fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	}
	if (fd < 0 || (length = pread(fd, text, sizeof(text) - 1, 0)) <= 0)
		return (0);
	text[length] = '\0';
	return (atol(text));
}

int
clock_gettime(clockid_t clock, struct timespec * now)
{
	static int (*real)(clockid_t, struct timespec *);
	int result;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
	result = real(clock, now);
	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
		now->tv_sec += get_offset_s();
	return (result);
}

time_t
time(time_t * seconds)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (seconds != NULL)
		*seconds = now.tv_sec;
	return (now.tv_sec);
}

int
gettimeofday(struct timeval * restrict now, void * restrict zone)
{
	struct timespec precise;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &precise);
	now->tv_sec = precise.tv_sec;
	now->tv_usec = precise.tv_nsec / 1000;
	return (0);
}
