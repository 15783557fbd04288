"""
Take all rights from this process but to read what is open, to compute, and to answer.

A library that reads hostile files may be taken over by one. What remains then can open, write and run nothing where the
kernel has Landlock (5.13), and as another user nothing of root's where it does not.
"""

from __future__ import annotations

import ctypes
import os
import resource
from contextlib import suppress

_NOBODY = 65534
_PR_SET_NO_NEW_PRIVS, _PR_SET_DUMPABLE = 38, 4
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446  # one number on all architectures
_ALL_FILES, _ALL_NETWORK = 0x1FFF, 0x3  # of the first version, and TCP of the fourth
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION_3 = 0x20080522

MEMORY_BYTES = 1536 << 20
_EXTRA_CPU_S = 1
_NICE = 5


def confine() -> None:
    """Give up rights for good. What the checks import must be imported before."""
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_DATA, MEMORY_BYTES),  # py7zr asks for this one, or else for /proc
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 16),
    ):
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _drop_capabilities(libc)
    _forbid_files(libc)
    with suppress(OSError):
        os.nice(_NICE)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Drop those that a service passes on to its children."""
    if (number := _CAPSET.get(os.uname().machine)) is not None:
        header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
        libc.syscall(number, header, (ctypes.c_uint32 * 6)())


def _forbid_files(libc: ctypes.CDLL) -> None:
    """Open, make, change and run no file, and connect to nothing, as far as this kernel can forbid it."""
    for handled in ((ctypes.c_uint64 * 2)(_ALL_FILES, _ALL_NETWORK), (ctypes.c_uint64 * 1)(_ALL_FILES)):
        rules = libc.syscall(_LANDLOCK_CREATE, handled, ctypes.c_size_t(ctypes.sizeof(handled)), 0)
        if rules >= 0:
            libc.syscall(_LANDLOCK_RESTRICT, rules, 0)
            os.close(rules)
            return


def limit_cpu(seconds: float) -> None:
    """Have the kernel end this process after so many more seconds of computing."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime + seconds) + _EXTRA_CPU_S
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))
