"""Mount namespaces: what is mounted there nobody else sees, and it goes with the last process."""

from __future__ import annotations

import ctypes
import os
import shlex
from collections.abc import Mapping

from support import AnyPath
from support.programs import sh

_CLONE_NEWNS = 0x0002_0000  # linux/sched.h
_libc = ctypes.CDLL(None, use_errno=True)


def enter_private_mounts() -> None:
    """
    Give this process and its children mounts of their own; root only.

    The whole test run does this first: what a killed run had mounted, the kernel unmounts.
    """
    if _libc.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), f"unshare: {os.strerror(ctypes.get_errno())}")
    sh("mount", "--make-rprivate", "/")


def with_binds(binds: Mapping[AnyPath, AnyPath], *command: AnyPath) -> list[AnyPath]:
    """
    Return an argv that runs ``command`` where each key of ``binds`` shows what its value holds; root only.

    Args:
        binds: an existing target (say /proc/sys/kernel/random/boot_id) to the file or folder that is shown instead.
        command: found through PATH; keeps its exit code, signals and standard streams.
    """
    mounts = "".join(
        f"mount --bind -- {shlex.quote(os.fsdecode(shown))} {shlex.quote(os.fsdecode(target))} && "
        for target, shown in binds.items()
    )
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mounts}exec "$@"', "sh", *command]
