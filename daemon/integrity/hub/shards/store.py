"""
The hub's store: files with the catalogs of shards, compressed, each named by its digest.

An upload gets its name only when it is complete, checked and synced, so a file with a name is whole. Which one belongs
to which shard is a row in the database; files that no row names are removed after a while.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from integrity.catalog.copying import sync_file
from integrity.errors import AppError, HubDatabaseError, show_path
from integrity.jobs.shards.packing import digest_file

_PARTIAL = ".partial-"
_KEPT_S = 86_400
"""A file waits this long, at most, for its next part, or for the call that names it."""


class UploadRefused(AppError):
    """Say that an upload is too long, or is not what its digest says."""


class ShardStore:
    """
    The files of all trees. Any thread or process may use it.

    Args:
        folder: made if it is missing; for the user of the hub only.
        most_bytes: longer files are refused.
    """

    def __init__(self, folder: bytes, most_bytes: int, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._clock = clock

    def prepare(self) -> None:
        """
        Make the folder.

        Raises:
            HubDatabaseError: it can't be made.
        """
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise HubDatabaseError(
                f"{show_path(self._folder)}: the store for catalogs of shards can't be made: {error.strerror}; set"
                " [hub_server] store to a folder that the hub may write to"
            ) from error

    def path_of(self, digest: str) -> bytes:
        """Return the path of a stored file."""
        return os.path.join(self._folder, digest.encode("ascii"))

    def has(self, digest: str) -> bool:
        """Return whether a file is stored."""
        return os.path.exists(self.path_of(digest))

    def receive(self, sender: str, digest: str, offset: int, size: int, data: bytes) -> None:
        """
        Add a part of a file; with the last one it is checked and gets its name. A part may come twice.

        Args:
            sender: distinguishes several who send the same file at once.
            digest: of the whole file.
            offset: where the part begins; the parts before it have arrived.
            size: of the whole file.

        Raises:
            UploadRefused: it is too long, or not what its digest says; it must be sent again from its beginning.
        """
        if size > self._most_bytes or offset + len(data) > size:
            raise UploadRefused(f"the catalog has {size:,} bytes; at most {self._most_bytes:,} are stored")
        path = os.path.join(self._folder, f"{_PARTIAL}{sender}-{digest}".encode("ascii"))
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
            if os.fstat(file.fileno()).st_size < offset:
                raise UploadRefused("a part of the catalog is missing; send it again")
            file.truncate(offset)
            file.seek(offset)
            file.write(data)
            if offset + len(data) < size:
                return
            file.flush()
            os.fsync(file.fileno())
            if digest_file(file) != digest:
                os.unlink(path)
                raise UploadRefused("the data that arrived is not the data that was sent; send it again")
            os.rename(path, self.path_of(digest))
        sync_file(self._folder)

    def prune(self, named: Collection[str]) -> int:
        """Remove old files that no shard names; return how many."""
        removed = 0
        for entry in list(os.scandir(self._folder)):
            with suppress(FileNotFoundError):
                if os.fsdecode(entry.name) not in named and entry.stat().st_mtime < self._clock() - _KEPT_S:
                    os.unlink(entry.path)
                    removed += 1
        return removed
