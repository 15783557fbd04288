"""
Numbers of Linux system calls for which Python and the C library have no function.

Sources: the kernel's ``asm/unistd.h`` of each architecture. Calls since Linux 5.1 have one number on all but Alpha.
"""

from __future__ import annotations

import ctypes
import platform

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
