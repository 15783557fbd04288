"""
A real ext4, xfs or btrfs on a disk that fails where and when a test says.

What device mapper's error, flakey and delay targets would give, where the kernel has none: ``faultfs`` holds the image
file, a loop device lies on it, and the kernel's own file system on that. So a bad sector is one for the kernel, too:
page cache, readahead, retries and journal aborts are the real ones.

As seen on Linux 6.18: a read error is 4 KiB-exact, and a buffered read that spans it returns the good part first. Write
errors show at fsync (EIO); then ext4 answers writes with EROFS while /proc/mounts still says "rw", xfs answers
everything with EIO until unmounted, btrfs turns itself read-only.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack

from support import AnyPath
from support.bitrot import drop_cache, get_positions
from support.faultfs import FaultFS, Fired, Rule, RuleId
from support.loopfs import LoopFS, make_image

SECTOR_BYTES = 4096
"""What one bad sector makes unreadable: the block of the file systems that ``loopfs`` makes."""


class FlakyDisk:
    """
    A mounted file system on a disk with faults: ``with FlakyDisk("xfs") as disk: disk.bad_sector(path, offset)``.

    Attributes:
        fs: the LoopFS; ``mnt`` and ``folder`` are its own.
    """

    def __init__(
        self, fs_type: str = "ext4", *, size_bytes: int = 0, mkfs: Sequence[str] = (), options: str = ""
    ) -> None:
        self.fs_type, self._size_bytes, self._mkfs, self._options = fs_type, size_bytes, tuple(mkfs), options
        self._stack = ExitStack()

    def __enter__(self) -> FlakyDisk:
        home = tempfile.mkdtemp(prefix="flakydisk-")
        self._stack.callback(shutil.rmtree, home)
        try:
            make_image(os.path.join(home, "disk.img"), self.fs_type, size_bytes=self._size_bytes, mkfs=self._mkfs)
            self._faults = self._stack.enter_context(FaultFS(home))
            image = self._faults.path("disk.img")
            self.fs = self._stack.enter_context(LoopFS(self.fs_type, image=image, options=self._options))
        except BaseException:
            self._stack.close()
            raise
        self.mnt, self.folder = self.fs.mnt, self.fs.folder
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()  # first: an unmount must be able to write, and hung calls to end
        self._stack.close()

    def path(self, name: AnyPath) -> bytes:
        """Return the absolute path of ``name``, a path relative to the mount point."""
        return self.fs.path(name)

    def position(self, path: AnyPath, offset: int) -> int:
        """Return the position on the disk of byte ``offset`` of ``path``; ask while the file system is well."""
        return get_positions(path, offset)[0].offset

    def add(self, rule: Rule) -> RuleId:
        """Put a rule of the disk in force: its offsets are positions on the disk, its path is not used."""
        return self._faults.add(dataclasses.replace(rule, path="/disk.img"))

    def bad_sector(self, path: AnyPath, offset: int = 0, *, sectors: int = 1) -> RuleId:
        """Make sectors unreadable, from the one with byte ``offset`` of ``path`` on; its cached pages are dropped."""
        start = self.position(path, offset) // SECTOR_BYTES * SECTOR_BYTES
        rule = self.add(Rule("read", errno=errno.EIO, offset=start, length=sectors * SECTOR_BYTES))
        self.drop(path)
        return rule

    def clear(self, rule: RuleId | None = None) -> None:
        """Take one rule back, or all: the sector was remapped, the cable replaced."""
        self._faults.clear(rule)

    def get_fired(self) -> list[Fired]:
        """Return the reads and writes of the disk that rules were applied to, in order."""
        return self._faults.get_fired()

    def drop(self, path: AnyPath) -> int:
        """Drop the cached pages of ``path``: a fault shows only when the disk is asked. Return what stays cached."""
        return drop_cache(path)
