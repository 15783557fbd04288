"""Say where on their device files begin: in that order a rotational disk reads them without going back and forth."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from integrity.files.devices import physical_position
from integrity.files.open_beneath import open_beneath

_AT_ONCE = 100
"""So many are opened between two looks at whether the run is to end: each may cost a disk some milliseconds."""


def find_positions(root_fd: int, paths: Sequence[bytes], is_over: Callable[[], bool]) -> list[int]:
    """
    Find the positions of files, in bytes; see ``devices.physical_position``.

    Args:
        root_fd: the root's folder.
        paths: relative to it.
        is_over: says that nobody needs the rest any more.

    Returns:
        One for each path; 0 where none can be told, or none is needed.
    """
    find = _choose_way()
    positions: list[int] = []
    for start in range(0, len(paths), _AT_ONCE):
        if is_over():
            break
        positions += find(root_fd, paths[start : start + _AT_ONCE])
    return positions + [0] * (len(paths) - len(positions))


def _choose_way() -> Callable[[int, Sequence[bytes]], list[int]]:
    if os.environ.get("INTEGRITY_NATIVE") == "off":
        return find_singly
    try:
        import integrity._native  # noqa: F401 - can it be loaded?
    except ImportError:
        return find_singly  # the program says why where it shows its version
    return find_in_batch


def find_in_batch(root_fd: int, paths: Sequence[bytes]) -> list[int]:
    """Find the positions of some files in one call of the C core, which has to be there."""
    from integrity._native import ffi, lib

    text = b"\0".join(paths) + b"\0"
    if text.count(b"\0") != len(paths):
        return [0] * len(paths)  # one of them is none that any file can have, and all behind it would be mistaken
    positions, held = ffi.new("uint64_t[]", len(paths)), ffi.from_buffer(text)
    lib.position_batch_find(root_fd, ffi.new("file_batch_paths *", (held, len(text), len(paths))), positions)
    return memoryview(ffi.buffer(positions)).cast("B").cast("Q").tolist()


def find_singly(root_fd: int, paths: Sequence[bytes]) -> list[int]:
    """Do the same without it."""
    return [_find(root_fd, path) for path in paths]


def _find(root_fd: int, path: bytes) -> int:
    try:
        fd = open_beneath(root_fd, path, os.O_RDONLY)
    except OSError:
        return 0  # reading it will say what is wrong
    try:
        return physical_position(fd) or 0
    except OSError:
        return 0  # the same
    finally:
        os.close(fd)
