"""
Read many small files in one call of the C core and without the interpreter lock.

The short way beside ``read``: it takes only files about which there is nothing to decide, and leaves all others to
``Reader.open``, which knows what to do and what to say. So it never raises, and what it gives is what the long way
would have given. To record, it reads what lies in memory, and waits for no disk, so any thread may use it at any time;
to see the disk, it reads past the page cache (R4).

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from integrity._native import lib
from integrity.files.arena import Arena
from integrity.files.racy import RacyWindow
from integrity.model import ReadHow


class BatchReader:
    """
    The short way into one root; made by ``Reader.batch``. Any thread may use it, each with its own arenas.

    Args:
        root_fd: the root's folder; stays the caller's.
        begin_window: begins to note which times are in doubt.
        from_disk: past the page cache, on a file system that has no other; else from memory only.

    Attributes:
        how: how sure it is that the disk answered.
    """

    def __init__(self, root_fd: int, begin_window: Callable[[], RacyWindow], *, from_disk: bool) -> None:
        self._root_fd = root_fd
        self._begin_window = begin_window
        self._read = lib.stable_batch_read_disk if from_disk else lib.stable_batch_read
        self.how = ReadHow.DIRECT if from_disk else ReadHow.CACHE_POSSIBLE

    def read(self, paths: Sequence[bytes], limit_bytes: int, arena: Arena) -> tuple[int, int]:
        """
        Read files until the arena is full.

        Args:
            paths: relative to the root; at least one.
            limit_bytes: larger files are left alone.
            arena: gets a record for each of the first so many paths, at least one; for none if one of the paths is
                none that any file can have.

        Returns:
            The first and the last stamp in doubt: see ``RacyWindow.end``.
        """
        packed = arena.pack(paths)
        window = self._begin_window()
        if packed is not None:
            arena.count = self._read(
                *(self._root_fd, packed, limit_bytes, window.recent_since_ns),
                *(arena.data, len(arena.memory), arena.records),
            )
        return window.end()
