/*
 * Something happens to a file between the read of it and whatever follows, without root and every time.
 *
 *   RIG_MEDDLE_FILE=b.jpg RIG_MEDDLE='mv b.jpg c.jpg' LD_PRELOAD=.../meddler.so python3 ...
 *
 * RIG_MEDDLE is run by the shell, once, after the first read of a file with that name. Reached: preadv2, under both of
 * its names in the C library.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Paths of open files are at most PATH_MAX (4096) long, " (deleted)" included with room to spare. */
enum { PATH_BYTES = 4200 };

static int
is_named(int fd, const char * name)
{
	char link[64], path[PATH_BYTES];
	const char * slash;
	ssize_t length;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return (0);
	path[length] = '\0';
	slash = strrchr(path, '/');
	return (slash != NULL && strcmp(slash + 1, name) == 0);
}

/* Run the command if the file is the one, and never again. */
static void
meddle(int fd)
{
	const char * name = getenv("RIG_MEDDLE_FILE");
	const char * value = getenv("RIG_MEDDLE");
	char * command;

	if (name == NULL || value == NULL || !is_named(fd, name))
		return;
	command = strdup(value);
	unsetenv("RIG_MEDDLE");
	unsetenv("LD_PRELOAD");
	if (command == NULL || system(command) != 0)
		abort();
	free(command);
}

ssize_t
preadv2(int fd, const struct iovec * pieces, int count, off_t offset, int flags)
{
	static ssize_t (*real)(int, const struct iovec *, int, off_t, int);
	ssize_t result;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "preadv2");
	result = real(fd, pieces, count, offset, flags);
	meddle(fd);
	return (result);
}

ssize_t
preadv64v2(int fd, const struct iovec * pieces, int count, off64_t offset, int flags)
{
	static ssize_t (*real)(int, const struct iovec *, int, off64_t, int);
	ssize_t result;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "preadv64v2");
	result = real(fd, pieces, count, offset, flags);
	meddle(fd);
	return (result);
}
