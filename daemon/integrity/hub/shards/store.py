"""
The hub's store: files with the catalogs of shards, compressed, each named by its digest.

An upload belongs to a job until it is committed, and is at most as large as the job allows, together with the others of
that job. It gets its name only when it is complete, checked, synced, and named by a row of the database, so a file with
a name is whole. Uploads that are never committed are removed when the job is given out again, or after a while.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from contextlib import suppress

from integrity.catalog.copying import sync_file
from integrity.errors import CallRefused, HubDatabaseError, show_path
from integrity.jobs.shards.messages import digest_file

_PARTIAL = ".partial-"
_READY = ".ready-"
_KEPT_S = 86_400
"""A file waits this long, at most, for its next part, or for the call that names it."""

_LEFT_BYTES = 1 << 30
_LEFT_PART = 20
"""So much of the disk stays free, or a twentieth of it if that is less: the database may be there, too."""


_FULL_S = 60
_log = logging.getLogger(__name__)


class ShardStore:
    """
    The files of all trees. Any thread or process may use it.

    Args:
        folder: made if it is missing; for the user of the hub only.
        most_bytes: of one job, whatever its shard allows.
    """

    def __init__(self, folder: bytes, most_bytes: int, *, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._clock = clock

    def prepare(self) -> None:
        """Make the folder, or raise HubDatabaseError."""
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise HubDatabaseError(
                f"{show_path(self._folder)}: the store for catalogs of shards can't be made: {error.strerror}; set"
                " [hub_server] store to a folder that the hub may write to"
            ) from error

    def path_of(self, digest: str) -> bytes:
        return self._path("", digest)

    def has(self, digest: str) -> bool:
        return os.path.exists(self.path_of(digest))

    def find(self, job: int, digest: str) -> bytes | None:
        """Return the path of a file that arrived for a job, committed or not; None: it has not arrived."""
        paths = self._path(f"{_READY}{job}-", digest), self.path_of(digest)
        return next((path for path in paths if os.path.exists(path)), None)

    def receive(self, job: int, digest: str, offset: int, size: int, data: bytes, *, most_bytes: int) -> None:
        """
        Add a part of a file; with the last one it is checked, and can be committed. A part may come twice.

        Args:
            digest: of the whole file.
            offset: where the part begins; the parts before it have arrived.
            size: of the whole file.
            most_bytes: of all files of the job.

        Raises:
            CallRefused: it is too long, or not what its digest says, and must be sent again from its beginning; or the
                disk has no room for it.
        """
        path = self._path(f"{_PARTIAL}{job}-", digest)
        others = sum(one.stat().st_size for one in self._find_uploads(job) if not one.name.endswith(digest.encode()))
        most_bytes = min(most_bytes, self._most_bytes)
        if others + size > most_bytes or offset + len(data) > size:
            raise _refuse(f"the catalog has {size:,} bytes; at most {most_bytes:,} are stored for this shard")
        self._require_room(len(data))
        with open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b") as file:
            if os.fstat(file.fileno()).st_size < offset:
                raise _refuse("a part of the catalog is missing; send it again")
            file.truncate(offset)
            file.seek(offset)
            file.write(data)
            if offset + len(data) < size:
                return
            file.flush()
            os.fsync(file.fileno())
            if digest_file(file) != digest:
                os.unlink(path)
                raise _refuse("the data that arrived is not the data that was sent; send it again")
            os.rename(path, self._path(f"{_READY}{job}-", digest))

    def commit(self, job: int, digest: str) -> None:
        """Give a file that arrived for a job its name. May be called again."""
        with suppress(FileNotFoundError):
            os.rename(self._path(f"{_READY}{job}-", digest), self.path_of(digest))
        sync_file(self._folder)

    def remove(self, digest: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path_of(digest))

    def clear(self, job: int) -> None:
        """Remove what arrived for a job and was not committed."""
        for entry in self._find_uploads(job):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)

    def _find_uploads(self, job: int) -> list[os.DirEntry[bytes]]:
        names = tuple(f"{kind}{job}-".encode() for kind in (_PARTIAL, _READY))
        return [entry for entry in os.scandir(self._folder) if entry.name.startswith(names)]

    def _path(self, prefix: str, digest: str) -> bytes:
        return os.path.join(self._folder, f"{prefix}{digest}".encode("ascii"))

    def _require_room(self, more_bytes: int) -> None:
        disk = os.statvfs(self._folder)
        left = min(_LEFT_BYTES, disk.f_blocks * disk.f_frsize // _LEFT_PART)
        if disk.f_bavail * disk.f_frsize - more_bytes < left:
            _log.error("store_full: %s: too little room for the catalogs of shards; free some", show_path(self._folder))
            raise CallRefused(503, "store_full", "the hub has no room for catalogs now", _FULL_S)

    def prune(self, named: Collection[str]) -> int:
        """Remove old files that no shard names; return how many."""
        removed = 0
        for entry in list(os.scandir(self._folder)):
            with suppress(FileNotFoundError):
                if os.fsdecode(entry.name) not in named and entry.stat().st_mtime < self._clock() - _KEPT_S:
                    os.unlink(entry.path)
                    removed += 1
        return removed


def _refuse(message: str) -> CallRefused:
    return CallRefused(409, "bad_upload", message)
