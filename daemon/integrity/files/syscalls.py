"""
Numbers of Linux system calls for which Python and the C library have no function, and functions that it may lack.

Sources: the kernel's ``asm/unistd.h`` of each architecture. Calls since Linux 5.1 have one number on all but Alpha.
"""

from __future__ import annotations

import ctypes
import errno
import platform
from collections.abc import Callable

OPENAT2 = 437
CACHESTAT = 451

# ioprio_set, ioprio_get. All newer architectures share the generic table.
_IOPRIO = {"x86_64": (251, 252), "i686": (289, 290), "armv7l": (314, 315), "ppc64le": (273, 274), "s390x": (282, 283)}
_IOPRIO |= dict.fromkeys(("aarch64", "riscv64", "loongarch64"), (30, 31))


def find_ioprio() -> tuple[int, int] | None:
    """Return ioprio_set and ioprio_get; None if unknown, as for a process of another word size than the machine."""
    machine = platform.machine()
    if ctypes.sizeof(ctypes.c_void_p) != 8 and machine not in ("i686", "armv7l"):
        return None
    return _IOPRIO.get(machine)


def find_function(name: str, *argtypes: type) -> Callable[..., int]:
    """
    Return a function of the C library that returns -1 and sets errno on failure.

    musl lacks what is new: it has statx since 1.2.5, and renameat2 since 1.2.6. A missing function sets ENOSYS, as a
    kernel without the call does.
    """
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, *argtypes, use_errno=True)
    try:
        return prototype((name, ctypes.CDLL(None)))
    except AttributeError:
        return _fail


def _fail(*_: object) -> int:
    ctypes.set_errno(errno.ENOSYS)
    return -1
