"""
Power cuts for real file systems: a disk that logs every write and flush, and is rebuilt as of any moment.

    with CrashDisk("ext4") as disk:
        with disk.running() as fs:
            ...                                  # work on fs.mnt
            disk.mark("row 17 committed")        # what the program said is durable
        for cut in disk.find_cuts(50):
            with disk.after(cut) as fs:          # the disk after the power cut, journal replayed
                ...                              # check fs.mnt against cut.marks

Everything flushed is there after a cut. Of the writes since the last flush none, all, or a random half is kept, as a
drive with a volatile cache may drop or reorder them; torn at 512-byte sectors if asked. The way is that of
``flakydisk``: a FUSE file (``support.crashserver``), a loop device on it, the kernel's own file system on that.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple

from support.crashserver import HEAD, NAME
from support.faultfs import FuseServer
from support.loopfs import LoopFS, make_image
from support.programs import sh

_SECTOR_BYTES = 512
_TORN_SHARE = 0.3
# ext4: without lazy initialisation, whose writes would fill the log.
_MKFS = {"ext4": ("-E", "lazy_itable_init=0,lazy_journal_init=0"), "xfs": (), "btrfs": ()}
# Small, as a copy is made for every cut.
_SIZES_BYTES = {"ext4": 64 << 20, "xfs": 300 << 20, "btrfs": 128 << 20}


class Cache(StrEnum):
    """What the drive's cache had written of what was not flushed."""

    NONE = "none"
    HALF = "half"  # each write with a chance of one half, so in any order
    ALL = "all"


class Cut(NamedTuple):
    """One power cut."""

    entry: int  # the log up to here, exclusive, had happened
    marks: tuple[str, ...]  # those set before
    cache: Cache = Cache.HALF
    seed: int = 0  # of what HALF keeps and what is torn
    is_torn: bool = False  # some of the kept writes only begin


class _Entry(NamedTuple):
    kind: bytes
    position: int
    length: int
    at: int  # where its bytes stand in the log


class CrashDisk:
    """A disk whose past can be visited; see the module."""

    def __init__(self, fs_type: str = "ext4", *, size_bytes: int = 0, options: str = "") -> None:
        self.fs_type, self._options = fs_type, options
        self._size_bytes = size_bytes or _SIZES_BYTES[fs_type]

    def __enter__(self) -> CrashDisk:
        self._home = tempfile.mkdtemp(prefix="crashdisk-")
        self._live, self._base, self._log = (os.path.join(self._home, name) for name in ("live", "base", "log"))
        self._entries: list[_Entry] = []
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._home)

    @contextmanager
    def running(self) -> Iterator[LoopFS]:
        """Mount the new disk; what is done to it is logged until the end of the block, the unmount excluded."""
        make_image(self._live, self.fs_type, size_bytes=self._size_bytes, mkfs=_MKFS[self.fs_type])
        sh("cp", "--sparse=always", self._live, self._base)
        self._server = FuseServer("support.crashserver", [self._live, self._log])
        self._server.start()
        try:
            image = os.path.join(self._server.mnt, NAME.encode())
            with LoopFS(self.fs_type, image=image, options=self._options) as fs:
                yield fs
                self._entries = list(self._find_entries())
        finally:
            self._server.stop()

    def mark(self, text: str) -> None:
        """Log ``text`` between the disk's writes: at this moment the program said that something is safe."""
        self._server.ask("mark", text)

    def find_cuts(
        self, count: int, *, caches: Sequence[Cache] = (Cache.NONE, Cache.HALF), is_torn: bool = False, seed: int = 1
    ) -> Iterator[Cut]:
        """Yield power cuts at ``count`` moments, spread over the log with a jitter, each with all ``caches``."""
        source, total = random.Random(seed), len(self._entries)
        for nth in range(count):
            entry = min(total, int((nth + source.random()) * total / count))
            for cache in caches:
                yield Cut(entry, self._get_marks(entry), cache, seed + entry, is_torn)

    @contextmanager
    def after(self, cut: Cut) -> Iterator[LoopFS]:
        """Mount the disk as the power cut left it."""
        image = os.path.join(self._home, "cut")
        try:
            self._build(cut, image)
            with LoopFS(self.fs_type, image=image, options=self._options) as fs:
                yield fs
        finally:
            os.unlink(image)

    def _find_entries(self) -> Iterator[_Entry]:
        """Read the heads of the log."""
        with open(self._log, "rb") as log:
            while head := log.read(HEAD.size):
                kind, position, length = HEAD.unpack(head)
                yield _Entry(kind, position, length, log.tell())
                log.seek(length, os.SEEK_CUR)

    def _get_marks(self, end: int) -> tuple[str, ...]:
        """Return the marks set before an entry."""
        with open(self._log, "rb") as log:
            return tuple(
                os.pread(log.fileno(), entry.length, entry.at).decode()
                for entry in self._entries[:end]
                if entry.kind == b"M"
            )

    def _build(self, cut: Cut, image: str) -> None:
        """Write the disk as it was at a cut."""
        sh("cp", "--sparse=always", self._base, image)
        source = random.Random(cut.seed)
        flushed = max((nth for nth in range(cut.entry) if self._entries[nth].kind == b"F"), default=-1)
        with open(self._log, "rb") as log, open(image, "r+b") as disk:
            for nth, entry in enumerate(self._entries[: cut.entry]):
                if entry.kind != b"W":
                    continue
                length = entry.length
                if nth > flushed:
                    if cut.cache is Cache.NONE or (cut.cache is Cache.HALF and source.random() < 0.5):
                        continue
                    if cut.is_torn and length > _SECTOR_BYTES and source.random() < _TORN_SHARE:
                        length = _SECTOR_BYTES * source.randrange(1, length // _SECTOR_BYTES)
                os.pwrite(disk.fileno(), os.pread(log.fileno(), length, entry.at), entry.position)
