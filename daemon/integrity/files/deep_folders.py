"""
Open folders far below a root without resolving all of their paths each time.

The kernel resolves a path component by component: in a chain of n folders, opening each from the root costs n * n / 2
steps. So some of the folders on the way to the last one opened stay open. Used while a tree is walked depth first, when
what lies on the way was open a moment ago anyway.
"""

from __future__ import annotations

import os

from integrity.files.open_beneath import STAY_ON_MOUNT, open_beneath, open_noatime

_SHALLOW_BYTES = 1024
"""Shorter paths are resolved from the root: that is fast, and notices a folder on the way that was renamed."""

_MOST_OPEN = 16

_PASS = os.O_PATH | os.O_DIRECTORY


class DeepFolders:
    """
    Keep folders open on the way to the last one that was opened.

    Args:
        root_fd: of the root; stays the caller's.
        flags: for opening folders, STAY_ON_MOUNT among them if they are to lie on the root's mount.
    """

    def __init__(self, root_fd: int, flags: int) -> None:
        self._root_fd = root_fd
        self._flags = flags
        self._on_the_way: list[tuple[bytes, int]] = []  # paths with a slash at their ends, the outermost first

    def open(self, folder: bytes) -> int:
        """Open a folder, as ``open_noatime`` does; of an error's path only the last part is told."""
        if len(folder) <= _SHALLOW_BYTES:
            return open_noatime(self._root_fd, folder, self._flags)
        while self._on_the_way and not folder.startswith(self._on_the_way[-1][0]):
            os.close(self._on_the_way.pop()[1])
        if len(self._on_the_way) >= _MOST_OPEN:
            self.close()  # and have fewer, further apart
        step_bytes = max(_SHALLOW_BYTES, 2 * len(folder) // _MOST_OPEN)
        above, above_fd = self._on_the_way[-1] if self._on_the_way else (b"", self._root_fd)
        while len(folder) - len(above) > step_bytes:
            slash = folder.find(b"/", len(above) + step_bytes)
            if slash < 0:
                break
            passed = folder[len(above) : slash]
            above_fd = open_beneath(above_fd, passed, _PASS | self._flags & STAY_ON_MOUNT)
            above = folder[: slash + 1]
            self._on_the_way.append((above, above_fd))
        return open_noatime(above_fd, folder[len(above) :], self._flags)

    def close(self) -> None:
        """Close what is open."""
        while self._on_the_way:
            os.close(self._on_the_way.pop()[1])
