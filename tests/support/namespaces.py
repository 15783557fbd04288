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


def with_own_devices(folder: AnyPath, links: Mapping[str, AnyPath], *command: AnyPath) -> list[AnyPath]:
    """
    Return an argv that runs ``command`` with an own /dev, as PrivateDevices= makes it, and an empty /run; root only.

    Args:
        folder: an empty one, on which that /dev is prepared.
        links: names in /dev/disk/by-uuid, each with the device that it leads to; the only disks that are there.
        command: found through PATH; keeps its exit code and standard streams.
    """
    dev = shlex.quote(os.fsdecode(folder))
    disks = "".join(
        f" && cp -a {shlex.quote(os.fsdecode(disk))} {dev}/ && mkdir -p {dev}/disk/by-uuid"
        f" && ln -s {shlex.quote(os.fsdecode(disk))} {dev}/disk/by-uuid/{shlex.quote(name)}"
        for name, disk in links.items()
    )
    script = (
        f"mount -t tmpfs tmpfs {dev} && cp -a /dev/null /dev/zero /dev/random /dev/urandom {dev}/{disks}"
        f' && mount --move {dev} /dev && mount -t tmpfs tmpfs /run && exec "$@"'
    )
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command]
