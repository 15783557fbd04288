"""
The hub's store: files with the catalogs of shards, compressed, each named by its digest.

An upload gets its name only when it is complete, checked and synced, so a file with a name is whole. Which one belongs
to which shard is a row in the database; files that no row names are removed after a while.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress

from blake3 import blake3

from integrity.catalog.copying import sync_file
from integrity.errors import AppError, HubDatabaseError, show_path

_PARTIAL = b".partial-"
_KEPT_S = 86_400
"""An upload waits this long, at most, for the call that names it."""


class UploadRefused(AppError):
    """Say that an upload is too long, or is not what its digest says."""


class ShardStore:
    """
    The files of all trees. Any thread may use it.

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

    @contextmanager
    def receive(self) -> Iterator[Upload]:
        """Begin an upload; what was not stored at the end of the block is removed."""
        path = os.path.join(self._folder, _PARTIAL + secrets.token_hex(8).encode("ascii"))
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            yield Upload(self, path, fd, self._most_bytes)
        finally:
            os.close(fd)
            with suppress(FileNotFoundError):
                os.unlink(path)

    def prune(self, named: Collection[str]) -> int:
        """Remove old files that no shard names; return how many."""
        removed = 0
        for entry in list(os.scandir(self._folder)):
            name = os.fsdecode(entry.name)
            with suppress(FileNotFoundError):
                if name not in named and entry.stat().st_mtime < self._clock() - _KEPT_S:
                    os.unlink(entry.path)
                    removed += 1
        return removed


class Upload:
    """A file that arrives. Used by one thread at a time."""

    def __init__(self, store: ShardStore, path: bytes, fd: int, most_bytes: int) -> None:
        self._store = store
        self._path = path
        self._fd = fd
        self._left = most_bytes
        self._digest = blake3()

    def write(self, data: bytes) -> None:
        """
        Add data.

        Raises:
            UploadRefused: it is too much.
        """
        self._left -= len(data)
        if self._left < 0:
            raise UploadRefused("the catalog is larger than the hub stores")
        self._digest.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def store(self, digest: str) -> None:
        """
        Give the file its name: it is on the disk when this returns.

        Raises:
            UploadRefused: it is not what the digest says.
        """
        if self._digest.hexdigest() != digest:
            raise UploadRefused("the data that arrived is not the data that was sent; send it again")
        os.fsync(self._fd)
        path = self._store.path_of(digest)
        os.rename(self._path, path)
        sync_file(os.path.dirname(path))
