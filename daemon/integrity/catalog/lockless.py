"""
Reading a catalog without locks, where its reader may not write to its folder.

SQLite reads a catalog through the index of its log (``-shm``). While a program writes to the catalog, log and index
exist, and permission to read them is enough. When the last program closes it, both are removed, and only who may write
to the folder can make them anew. Without a log the file is complete, so others read it as if nothing could change it
(``immutable``). SQLite then notices no writer that starts meanwhile, and could mix old and new pages.

I1  What was read without locks counts only if no program can have written to the file since it was opened.
"""

from __future__ import annotations

import os
import time

from integrity.catalog.own_files import LOG
from integrity.errors import CatalogLocked, show_path

OPTIONS = "mode=ro&immutable=1"
_GRANULE_NS = 20_000_000  # two writes within one tick of the kernel's clock can leave the same times (R1)


class LocklessFile:
    """The state of a catalog file, which may be a link, taken before SQLite opens it without locks."""

    def __init__(self, path: bytes) -> None:
        self._path = os.path.realpath(path)
        self._seen = self._look()
        *_, mtime_ns, ctime_ns = self._seen
        self._is_racy = abs(time.time_ns() - max(mtime_ns, ctime_ns)) < _GRANULE_NS

    def is_changed(self) -> bool:
        """Return whether a program may have written to the file. A file that was written just now counts as changed."""
        # The log first: if a writer has removed its log again, the times of the file have moved.
        return self._is_racy or os.path.lexists(self._path + LOG) or self._look() != self._seen

    def require_unchanged(self) -> None:
        """Raise CatalogLocked if a program may have written to the file: what was read may be wrong."""
        if self.is_changed():
            raise CatalogLocked(
                f"{show_path(self._path)}: another program began to write to the catalog while it was read; try again"
            )

    def _look(self) -> tuple[int, ...]:
        """Return what changes when the log is written back into the file."""
        try:
            seen = os.stat(self._path)
        except FileNotFoundError:  # a restore moves it away
            return 0, 0, 0, 0, 0
        return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
