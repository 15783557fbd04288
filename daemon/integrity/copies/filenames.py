"""
Names in copies: which paths of a listing are refused.

Listings of stores and manifests are written by anybody, so their paths are checked.
"""

from __future__ import annotations

import errno
from typing import Final

from integrity.errors import Unreadable, show_path

LONGEST_PATH_BYTES: Final = 1 << 20
"""Deep trees exceed PATH_MAX (4096), but not this: a longer path is made up, to fill memory."""


def find_fault(path: bytes) -> str | None:
    """
    Return why a path of a listing is refused; None if it is harmless.

    A harmless path can only mean one file below the copy: it is relative, and none of its names is empty, ``.``, ``..``
    or contains NUL.
    """
    if not path:
        return "has no name at all"
    if len(path) > LONGEST_PATH_BYTES:
        return f"is longer than {LONGEST_PATH_BYTES} bytes"
    if b"\0" in path:
        return "has a NUL byte in it, which no file system can carry"
    if path.startswith(b"/"):
        return "is absolute: only paths below the copy's folder are looked at"
    # The substring test is cheap and excludes nearly all paths; only the others are split.
    if b".." in path and b".." in path.split(b"/"):
        return "leads out of the copy by '..'"
    if path.endswith(b"/") or b"//" in path:
        return "has an empty name in it, which no file system can carry"
    if (path.startswith(b".") or b"/." in path) and b"." in path.split(b"/"):
        return "has '.' in it as a name, so it would stand for another path"
    return None


def is_below(path: bytes, prefix: bytes) -> bool:
    """Return whether a path is the prefix or lies below it, by whole names; the empty prefix is above all."""
    return not prefix or path == prefix or (path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] == b"/")


def require_harmless(path: bytes) -> None:
    """
    Check a path before it is opened in a copy.

    Raises:
        Unreadable: the path is one that no listing contains.
    """
    fault = find_fault(path)
    if fault is not None:
        raise Unreadable(f"cannot open {show_path(path)}: it {fault}", errno=errno.EINVAL)
