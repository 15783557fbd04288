"""What /proc/self/mountinfo says, with the kernel's escapes undone (proc(5), "/proc/pid/mountinfo")."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from support import AnyPath


class Mount(NamedTuple):
    """One line of mountinfo."""

    id: int
    point: bytes
    fs_type: str
    source: bytes


def _unescape(field: bytes) -> bytes:
    """Undo the octal escapes of space, tab, newline and backslash."""
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), field)


def find_mounts() -> Iterator[Mount]:
    """Yield the mounts of this process's namespace, oldest first."""
    with open("/proc/self/mountinfo", "rb") as lines:
        for line in lines:
            fields = line.split()
            dash = fields.index(b"-")
            fs_type, source = fields[dash + 1 : dash + 3]
            yield Mount(int(fields[0]), _unescape(fields[4]), fs_type.decode(), _unescape(source))


def is_mounted(point: AnyPath) -> bool:
    """Tell whether something is mounted at ``point``, without touching what is mounted there (it may hang)."""
    wanted = os.path.abspath(os.fsencode(point))
    return any(mount.point == wanted for mount in find_mounts())


def get_mount(path: AnyPath) -> Mount:
    """Get the mount that ``path`` lies on: by mount id, so that what is mounted over another mount is told apart."""
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW)
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as lines:
            mount_id = next(int(line.split()[1]) for line in lines if line.startswith("mnt_id:"))
    finally:
        os.close(fd)
    return next(mount for mount in find_mounts() if mount.id == mount_id)
