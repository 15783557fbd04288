/*
 * Read errors without root or FUSE, for programs that read through libc, as Python does.
 *
 *   RIG_EIO='b.jpg:8192:4096:5;*c.iso:0:0:116' LD_PRELOAD=.../eioshim.so python3 ...
 *
 * RIG_EIO holds rules "GLOB:OFFSET:LENGTH:ERRNO", separated by ';'. GLOB (fnmatch) is tried on the whole path of the
 * open file and on its last part; LENGTH 0 means to the end. RIG_EIO_AFTER=N lets the first N matching reads pass.
 *
 * Reached: read, pread, readv, preadv, preadv2 of regular files; mmap of a matching file fails with ENODEV, so that
 * nobody slips past. Not reached: stdio's fread, static programs, io_uring, sendfile, copy_file_range, syscall(2).
 * A real fault (flakydisk, faultfs) is the proof; this is for tests that must run without root.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Paths of open files are at most PATH_MAX (4096) long, " (deleted)" included with room to spare. */
enum { PATH_BYTES = 4200, RULES_BYTES = 8192, GLOB_BYTES = 1024 };

static long matches_seen;

/* Return whether one rule applies to [offset, offset + size) of path; its errno goes to *error. */
static int
rule_matches(const char * rule, const char * path, off_t offset, size_t size, int * error)
{
	char glob[GLOB_BYTES];
	long long start, length;
	const char * slash = strrchr(path, '/');

	if (sscanf(rule, "%1023[^:]:%lld:%lld:%d", glob, &start, &length, error) != 4)
		return (0);
	if (fnmatch(glob, path, 0) && (slash == NULL || fnmatch(glob, slash + 1, 0)))
		return (0);
	return (offset + (long long)size > start && (length == 0 || offset < start + length));
}

/* Return the errno that a read of size bytes at offset must fail with, or 0. */
static int
find_error(int fd, off_t offset, size_t size)
{
	const char * env = getenv("RIG_EIO");
	const char * after = getenv("RIG_EIO_AFTER");
	char link[64], path[PATH_BYTES], rules[RULES_BYTES];
	char * rest = NULL;
	struct stat status;
	ssize_t length;
	int error;

	if (env == NULL || offset < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return (0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if ((length = readlink(link, path, sizeof(path) - 1)) < 0)
		return (0);
	path[length] = '\0';
	snprintf(rules, sizeof(rules), "%s", env);
	for (char * rule = strtok_r(rules, ";", &rest); rule != NULL; rule = strtok_r(NULL, ";", &rest)) {
		if (!rule_matches(rule, path, offset, size, &error))
			continue;
		if (after != NULL && __sync_fetch_and_add(&matches_seen, 1) < atol(after))
			continue;
		return (error);
	}
	return (0);
}

/* Return the number of bytes that count vectors hold. */
static size_t
total(const struct iovec * vectors, int count)
{
	size_t sum = 0;

	for (int i = 0; i < count; i++)
		sum += vectors[i].iov_len;
	return (sum);
}

/* Look the next library's function of the same name up, once. */
#define REAL(name)                                          \
	static __typeof__(name) * real;                     \
	if (real == NULL)                                   \
		*(void **)&real = dlsym(RTLD_NEXT, #name)

/* Fail as the rules say, or go on. */
#define FAIL_OR_GO_ON(fd, offset, size)                             \
	do {                                                        \
		int error_ = find_error((fd), (offset), (size));    \
		if (error_ != 0) {                                  \
			errno = error_;                             \
			return (-1);                                \
		}                                                   \
	} while (0)

ssize_t
read(int fd, void * buffer, size_t size)
{
	REAL(read);
	FAIL_OR_GO_ON(fd, lseek(fd, 0, SEEK_CUR), size);
	return (real(fd, buffer, size));
}

ssize_t
pread(int fd, void * buffer, size_t size, off_t offset)
{
	REAL(pread);
	FAIL_OR_GO_ON(fd, offset, size);
	return (real(fd, buffer, size, offset));
}

ssize_t
pread64(int fd, void * buffer, size_t size, off64_t offset)
{
	REAL(pread64);
	FAIL_OR_GO_ON(fd, offset, size);
	return (real(fd, buffer, size, offset));
}

ssize_t
readv(int fd, const struct iovec * vectors, int count)
{
	REAL(readv);
	FAIL_OR_GO_ON(fd, lseek(fd, 0, SEEK_CUR), total(vectors, count));
	return (real(fd, vectors, count));
}

ssize_t
preadv(int fd, const struct iovec * vectors, int count, off_t offset)
{
	REAL(preadv);
	FAIL_OR_GO_ON(fd, offset, total(vectors, count));
	return (real(fd, vectors, count, offset));
}

ssize_t
preadv64(int fd, const struct iovec * vectors, int count, off64_t offset)
{
	REAL(preadv64);
	FAIL_OR_GO_ON(fd, offset, total(vectors, count));
	return (real(fd, vectors, count, offset));
}

ssize_t
preadv2(int fd, const struct iovec * vectors, int count, off_t offset, int flags)
{
	REAL(preadv2);
	FAIL_OR_GO_ON(fd, offset < 0 ? lseek(fd, 0, SEEK_CUR) : offset, total(vectors, count));
	return (real(fd, vectors, count, offset, flags));
}

ssize_t
preadv64v2(int fd, const struct iovec * vectors, int count, off64_t offset, int flags)
{
	REAL(preadv64v2);
	FAIL_OR_GO_ON(fd, offset < 0 ? lseek(fd, 0, SEEK_CUR) : offset, total(vectors, count));
	return (real(fd, vectors, count, offset, flags));
}

void *
mmap(void * address, size_t size, int protection, int flags, int fd, off_t offset)
{
	REAL(mmap);
	if (fd >= 0 && find_error(fd, offset, size) != 0) {
		errno = ENODEV;
		return (MAP_FAILED);
	}
	return (real(address, size, protection, flags, fd, offset));
}

void *
mmap64(void * address, size_t size, int protection, int flags, int fd, off64_t offset)
{
	REAL(mmap64);
	if (fd >= 0 && find_error(fd, offset, size) != 0) {
		errno = ENODEV;
		return (MAP_FAILED);
	}
	return (real(address, size, protection, flags, fd, offset));
}
