"""Which paths of a listing are refused: what comes from a store or a manifest was written by anybody."""

from __future__ import annotations

import errno
from typing import Final

from integrity.errors import Unreadable, show_path

LONGEST_PATH_BYTES: Final = 1 << 20
"""Deep trees have paths longer than one system call takes, but not this long: such are made up, to fill memory."""


def find_fault(path: bytes) -> str | None:
    """
    Tell why a path of a listing is refused; None if it is harmless.

    Harmless is what can only mean one file below the copy: relative, each name of it there and neither ``.`` nor
    ``..``, no NUL.
    """
    if not path:
        return "has no name at all"
    if len(path) > LONGEST_PATH_BYTES:
        return f"is longer than {LONGEST_PATH_BYTES} bytes"
    if b"\0" in path:
        return "has a NUL byte in it, which no file system can carry"
    if path.startswith(b"/"):
        return "is absolute: only paths below the copy's folder are looked at"
    # Most paths have nothing of this in them, so splitting is left for the few.
    if b".." in path and b".." in path.split(b"/"):
        return "leads out of the copy by '..'"
    if path.endswith(b"/") or b"//" in path:
        return "has an empty name in it, which no file system can carry"
    if (path.startswith(b".") or b"/." in path) and b"." in path.split(b"/"):
        return "has '.' in it as a name, so it would stand for another path"
    return None


def is_below(path: bytes, prefix: bytes) -> bool:
    """Say whether a path is the prefix or lies below it; whole names count, and everything is below the empty one."""
    return not prefix or path == prefix or (path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] == b"/")


def require_harmless(path: bytes) -> None:
    """
    Let through what may be opened in a copy.

    Raises:
        Unreadable: the path is one that no listing gives.
    """
    fault = find_fault(path)
    if fault is not None:
        raise Unreadable(f"cannot open {show_path(path)}: it {fault}", errno=errno.EINVAL)
