"""
Give way to others: the lowest I/O class, and little of the processor.

Only a disk's scheduler knows I/O classes, and most disks have none by default ("none" and old mq-deadline ignore them):
this is a courtesy besides the pace, not instead of it.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import platform

_LOG = logging.getLogger(__name__)

NICENESS = 10
"""Behind whoever somebody waits for, but not starved by a busy machine: the promise is to be kept there, too."""

# linux/ioprio.h
_WHO_PROCESS = 1
_CLASS_SHIFT = 13
_CLASS_IDLE = 3

# asm/unistd.h: ioprio_set, ioprio_get. The generic table serves all newer architectures.
_CALLS = {"x86_64": (251, 252), "i686": (289, 290), "armv7l": (314, 315), "ppc64le": (273, 274), "s390x": (282, 283)}
_GENERIC = frozenset({"aarch64", "riscv64", "loongarch64"})
_GENERIC_CALLS = (30, 31)


def be_idle() -> bool:
    """
    Have this thread, and all that it starts from now on, read only when nobody else does.

    To be called before threads are started: on Linux both belong to a thread and are inherited. It never fails: where
    the system refuses (a seccomp filter of the unit, say) that is logged, and the pace has to do.

    Returns:
        Whether all of it was granted.
    """
    return all([_be_nice(), _set_idle_class()])


def get_io_class() -> int | None:
    """Return the I/O class of the calling thread (0 none, 1 real time, 2 best effort, 3 idle); None: can't tell."""
    calls = _find_calls()
    if calls is None:
        return None
    priority = ctypes.CDLL(None, use_errno=True).syscall(calls[1], _WHO_PROCESS, 0)
    return None if priority < 0 else int(priority) >> _CLASS_SHIFT


def _be_nice() -> bool:
    try:
        if os.getpriority(os.PRIO_PROCESS, 0) < NICENESS:  # a unit may have said more
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    except OSError as error:
        _LOG.warning("niceness refused niceness=%d error=%s", NICENESS, error.strerror)
        return False
    return True


def _set_idle_class() -> bool:
    calls = _find_calls()
    if calls is None:
        _LOG.warning("io class unknown machine=%s", platform.machine())
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(calls[0], _WHO_PROCESS, 0, _CLASS_IDLE << _CLASS_SHIFT) == 0:
        return True
    number = ctypes.get_errno()
    _LOG.warning("io class refused class=idle error=%s", errno.errorcode.get(number, str(number)))
    return False


def _find_calls() -> tuple[int, int] | None:
    """Find the numbers of the calls; None where a process of another word size runs than the machine's."""
    machine = platform.machine()
    if ctypes.sizeof(ctypes.c_void_p) != 8 and machine not in ("i686", "armv7l"):
        return None
    return _GENERIC_CALLS if machine in _GENERIC else _CALLS.get(machine)
