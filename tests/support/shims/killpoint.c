/*
 * Kill this process with SIGKILL right before its n-th system call that changes something; or let this call, and all
 * after it, fail as on a full or a dying disk.
 *
 * A seccomp filter makes each such call raise SIGSYS (SECCOMP_RET_TRAP, seccomp(2)); the handler counts it over all
 * threads, notes its number, and makes the call itself from one address that the filter lets through. The kernel
 * catches the calls, so none escapes, whichever library makes it. Between two of them nothing outside of the process
 * changes, with one exception: stores to mapped memory (SQLite's -shm), which means nothing once nobody has it mapped.
 *
 * If it shall hurry, waits by poll() for one descriptor of a second or more come back at once, as if the time had
 * passed: a command that reads a damaged file again some seconds later does not sleep through a campaign.
 *
 * Can't be undone; children that exec another program don't survive such a call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the registers of this architecture are not known here"
#endif

#define CREATES (O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY))
#define FICLONE_CALL 0x40049409u
#define LONG_WAIT_MS 1000

/* What the campaign and the killed process share. */
struct record {
    uint64_t count;
    uint32_t calls[];
};

static struct record *shared;
static uint64_t kill_at, room;
static int hurries, failure, own_fd;

long killpoint_call(long number, long a, long b, long c, long d, long e, long f);
extern const char killpoint_after_call[];

__asm__(".text\n"
        ".globl killpoint_call\n"
        "killpoint_call:\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  mov %rcx, %rdx\n"
        "  mov %r8, %r10\n"
        "  mov %r9, %r8\n"
        "  mov 8(%rsp), %r9\n"
        "  syscall\n"
        ".globl killpoint_after_call\n"
        "killpoint_after_call:\n"
        "  ret\n");

/* Whether a call does something to a disk: what is printed, told to another thread, or meant for the campaign does not. */
static int concerns_disk(long call, long fd)
{
    struct stat seen;
    if (call == SYS_sync_file_range)
        return 0; /* of files that are read */
    if (call != SYS_write)
        return 1;
    return fd > 2 && fd != own_fd && killpoint_call(SYS_fstat, fd, (long)&seen, 0, 0, 0, 0) == 0 && S_ISREG(seen.st_mode);
}

static void on_trap(int number, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    long call = info->si_syscall;
    (void)number;
    if (call == SYS_poll) {
        regs[REG_RAX] = killpoint_call(call, regs[REG_RDI], regs[REG_RSI], hurries ? 0 : regs[REG_RDX], 0, 0, 0);
        return;
    }
    uint64_t nth = __atomic_add_fetch(&shared->count, 1, __ATOMIC_SEQ_CST);
    if (nth <= room)
        shared->calls[nth - 1] = (uint32_t)call;
    if (failure) {
        if (nth >= kill_at && concerns_disk(call, regs[REG_RDI])) {
            regs[REG_RAX] = -failure;
            return;
        }
    } else if (nth == kill_at)
        killpoint_call(SYS_kill, killpoint_call(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0);
    if (!failure && kill_at && nth >= kill_at) /* another thread, in the moment before the kill reaches it */
        for (;;)
            killpoint_call(SYS_pause, 0, 0, 0, 0, 0, 0);
    regs[REG_RAX] = killpoint_call(call, regs[REG_RDI], regs[REG_RSI], regs[REG_RDX], regs[REG_R10], regs[REG_R8],
                                   regs[REG_R9]);
}

#define DATA(field) (offsetof(struct seccomp_data, field))
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, (value))
#define UNLESS_EQUAL(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define TRAP(call) UNLESS_EQUAL(SYS_##call, 1), RETURN(SECCOMP_RET_TRAP)
/* Trap a call if one of the bits is set in an argument; leave the number loaded otherwise. */
#define TRAP_BITS(call, argument, bits)                                                                                \
    UNLESS_EQUAL(SYS_##call, 4), LOAD(DATA(args[argument])), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, 1),       \
        RETURN(SECCOMP_RET_TRAP), LOAD(DATA(nr))

/*
 * Count the calls of this process into `record`, which has room for so many, and kill it right before the given one
 * (from 1; 0: never), or let it and all later ones fail with an errno, unless that is 0. Returns 0, or an errno.
 */
int killpoint_arm(struct record *record, uint64_t calls, uint64_t at, int is_hurried, int with_errno, int campaigns_fd)
{
    uint64_t here = (uint64_t)(uintptr_t)killpoint_after_call;
    struct sock_filter filter[] = {
        LOAD(DATA(instruction_pointer)), UNLESS_EQUAL((uint32_t)here, 3),
        LOAD(DATA(instruction_pointer) + 4), UNLESS_EQUAL((uint32_t)(here >> 32), 1), RETURN(SECCOMP_RET_ALLOW),
        LOAD(DATA(nr)),
        TRAP(write), TRAP(pwrite64), TRAP(writev), TRAP(pwritev), TRAP(pwritev2),
        TRAP(fsync), TRAP(fdatasync), TRAP(sync_file_range), TRAP(syncfs),
        TRAP(truncate), TRAP(ftruncate), TRAP(fallocate), TRAP(copy_file_range), TRAP(sendfile),
        TRAP(rename), TRAP(renameat), TRAP(renameat2), TRAP(link), TRAP(linkat), TRAP(symlink), TRAP(symlinkat),
        TRAP(unlink), TRAP(unlinkat), TRAP(mkdir), TRAP(mkdirat), TRAP(rmdir),
        TRAP(chmod), TRAP(fchmod), TRAP(fchmodat), TRAP(chown), TRAP(fchown), TRAP(fchownat), TRAP(utimensat),
        TRAP(setxattr), TRAP(fsetxattr), TRAP(lsetxattr), TRAP(removexattr), TRAP(fremovexattr),
        TRAP_BITS(open, 1, CREATES), TRAP_BITS(openat, 2, CREATES),
        /* ioctl(FICLONE) */
        UNLESS_EQUAL(SYS_ioctl, 4), LOAD(DATA(args[1])), UNLESS_EQUAL(FICLONE_CALL, 1), RETURN(SECCOMP_RET_TRAP),
        LOAD(DATA(nr)),
        /* poll(fds, 1, a second or more) */
        UNLESS_EQUAL(SYS_poll, 6), LOAD(DATA(args[1])), UNLESS_EQUAL(1, 4), LOAD(DATA(args[2])),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x80000000u, 2, 0), /* -1: for ever */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, LONG_WAIT_MS, 0, 1), RETURN(SECCOMP_RET_TRAP),
        RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    shared = record;
    room = calls;
    kill_at = at;
    hurries = is_hurried;
    failure = with_errno;
    own_fd = campaigns_fd;
    if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return errno;
    return 0;
}
