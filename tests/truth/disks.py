"""
The file systems of the matrix, and ways to damage what lies on them while no field of any inode moves.

A disk says what it can do (``Can``); what it can't is left out there, and ``LEFT_OUT`` says why.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum, auto
from io import FileIO
from pathlib import Path

from support.bitrot import drop_cache, get_positions, overwrite_at, read_at
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS, unmount
from support.mounts import bound, small_tmpfs
from support.programs import sh

SECTOR_BYTES = 4096

_TMPFS_BYTES = 256 << 20


class Can(Enum):
    """What can be done on a disk, besides what can be done on each."""

    LINK = auto()  # hard links whose names stay one file
    MAP = auto()  # shared writable mappings
    PUNCH = auto()  # holes in files that exist
    FAIL = auto()  # EIO at a place
    MISREAD = auto()  # bytes that are wrong once, on their way from the disk
    CUT = auto()  # a size that the file system itself gets wrong
    LOSE = auto()  # an extent that the file system itself forgets
    ROT = auto()  # bytes that change by themselves
    EXCHANGE = auto()  # two names swapped in one call
    PASS_ON = auto()  # such bytes can be read, and so copied
    SPOIL = auto()  # errors of any call, also of those that list folders


LEFT_OUT = {
    (Can.FAIL, "all but those with bad sectors, and FUSE"): "a loop device reads all of a sound image",
    (Can.MISREAD, "all but ext4 and xfs with bad sectors"): "nothing stands between, or checksums refuse it",
    (Can.CUT, "btrfs, tmpfs"): "no tool writes an inode's size there",
    (Can.LOSE, "all but ext4"): "only debugfs takes blocks out of a file",
    (Can.LINK, "overlay, lower layer"): "its names part when one of them is written to",
    (Can.MAP, "FUSE, not cached"): "direct_io refuses shared mappings",
    (Can.PUNCH, "FUSE"): "mfusepy has no fallocate",
    (Can.EXCHANGE, "FUSE"): "mfusepy drops the flags of renameat2",
    (Can.PASS_ON, "btrfs"): "its checksums refuse what is damaged",
    (Can.ROT, "those with bad sectors"): "they are the same as those without",
    (Can.SPOIL, "all but FUSE"): "no disk chooses a call",
}
"""What the matrix does not do, where, and why."""

_EVERYWHERE = frozenset({Can.LINK, Can.MAP, Can.PUNCH, Can.ROT, Can.EXCHANGE, Can.PASS_ON})


class Disk:
    """
    A mounted file system whose bytes can be damaged.

    Attributes:
        folder: what the program watches lies below it.
        can: what can be done there.
        has_ctime: whether rot can be proven there.
        is_mapped: what is to be damaged is mapped for writing all the time, which speaks for an honest writer unless
            the last write was long ago.
    """

    can = _EVERYWHERE
    has_ctime = True
    is_mapped = False

    def __init__(self, *, is_cached: bool) -> None:
        """``is_cached``: what is damaged stays in the page cache as it was."""
        self._is_cached = is_cached
        self._stack = ExitStack()
        self.folder = Path()

    def __enter__(self) -> Disk:
        with ExitStack() as stack:
            self.folder = self._mount(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _mount(self, stack: ExitStack) -> Path:
        raise NotImplementedError

    def made(self, path: Path) -> None:
        """Prepare for damage of a file that was just made, before the program has seen it."""

    def planted(self) -> None:
        """Take the files that are there as planted; called once, before the program comes."""

    def _below(self, path: Path) -> Path:
        """Return where the bytes of ``path`` can be seen on a file system with a device."""
        return path

    def open(self, path: Path) -> FileIO:
        """Open a file so that the disk answers, not the memory."""
        below = self._below(path)
        drop_cache(below)
        return FileIO(below)

    def xor(self, path: Path, offset: int, mask: int = 1) -> None:
        """Change one byte."""
        (old,) = self._read_at(path, offset, 1)
        self._change(path, offset, bytes([old ^ mask]))

    def zero(self, path: Path, offset: int) -> None:
        """Lose what stands in a sector."""
        self._change(path, offset, bytes(SECTOR_BYTES))

    def exchange(self, one: Path, other: Path, offset: int) -> None:
        """Swap a sector of two files."""
        first, second = self._read_at(one, offset, SECTOR_BYTES), self._read_at(other, offset, SECTOR_BYTES)
        self._change(one, offset, second)
        self._change(other, offset, first)

    def misdirect(self, one: Path, other: Path, offset: int) -> None:
        """Write a sector of a file also where one of another file belongs."""
        self._change(other, offset, self._read_at(one, offset, SECTOR_BYTES))

    def fail(self, path: Path, offset: int) -> None:
        """Make a sector unreadable."""
        raise NotImplementedError

    def misread(self, path: Path, offset: int, times: int) -> None:
        """Flip another bit of a byte in each of the next reads of the disk."""
        raise NotImplementedError

    def heal(self) -> None:
        """Make all sectors readable again."""

    def cut(self, path: Path, size_bytes: int) -> None:
        """Let the file system believe that a file is shorter."""
        raise NotImplementedError

    def lose(self, path: Path, offset: int) -> None:
        """Let the file system forget a block of a file."""
        raise NotImplementedError

    def take_out(self) -> None:
        """Leave an empty folder where the disk is mounted."""
        raise NotImplementedError

    def put_back(self) -> None:
        """Mount it again."""
        raise NotImplementedError

    def spoil(self, call: str, path: Path, what: str) -> None:
        """Let a call fail with the error of this name, or leave out the names that match where folders are listed."""
        raise NotImplementedError

    def _read_at(self, path: Path, offset: int, size: int) -> bytes:
        return read_at(get_positions(self._below(path), offset)[0], size)

    def _change(self, path: Path, offset: int, data: bytes) -> None:
        below = self._below(path)
        if self._is_cached:
            with suppress(OSError):  # btrfs refuses what was damaged before
                path.read_bytes()
        for position in get_positions(below, offset):
            overwrite_at(position, data)
        if not self._is_cached:
            drop_cache(path)
            drop_cache(below)


class Loop(Disk):
    """ext4, xfs or btrfs in an image."""

    def __init__(self, fs_type: str, *, is_cached: bool, mkfs: tuple[str, ...] = (), options: str = "") -> None:
        super().__init__(is_cached=is_cached)
        # Below that the tail of a file may lie in metadata, where no plain bytes are to be had.
        inline = "max_inline=0" if fs_type == "btrfs" else ""
        self._fs = LoopFS(fs_type, size_bytes=512 << 20, mkfs=mkfs, options=",".join(filter(None, (options, inline))))
        has_sums = fs_type == "btrfs" and "nodatasum" not in options
        offline = {"ext4": {Can.CUT, Can.LOSE}, "xfs": {Can.CUT}, "btrfs": set()}[fs_type]
        self.can = (_EVERYWHERE | offline) - ({Can.PASS_ON} if has_sums else set())

    def _mount(self, stack: ExitStack) -> Path:
        return stack.enter_context(self._fs).folder

    def take_out(self) -> None:
        self._fs.umount()

    def put_back(self) -> None:
        self._fs.mount()

    def cut(self, path: Path, size_bytes: int) -> None:
        inode = path.stat().st_ino
        with self._offline() as image:
            if self._fs.fs_type == "ext4":
                sh("debugfs", "-w", "-R", f"set_inode_field <{inode}> size {size_bytes}", image)
            else:
                sh("xfs_db", "-x", "-c", f"inode {inode}", "-c", f"write core.size {size_bytes}", image)

    def lose(self, path: Path, offset: int) -> None:
        inode, block = path.stat().st_ino, offset // SECTOR_BYTES
        with self._offline() as image:
            sh("debugfs", "-w", "-R", f"punch <{inode}> {block} {block}", image)

    @contextmanager
    def _offline(self) -> Iterator[bytes]:
        self._fs.umount()
        yield self._fs.image
        self._fs.mount()


class BadSectors(Disk):
    """ext4, xfs or btrfs on a disk that fails."""

    def __init__(self, fs_type: str, *, is_cached: bool) -> None:
        super().__init__(is_cached=is_cached)
        lies = set() if fs_type == "btrfs" else {Can.MISREAD}
        self.can = (_EVERYWHERE | {Can.FAIL} | lies) - {Can.PASS_ON, Can.ROT}
        self._disk = FlakyDisk(fs_type, size_bytes=512 << 20, options="max_inline=0" if fs_type == "btrfs" else "")

    def _mount(self, stack: ExitStack) -> Path:
        return stack.enter_context(self._disk).folder

    def fail(self, path: Path, offset: int) -> None:
        self._disk.bad_sector(path, offset)

    def misread(self, path: Path, offset: int, times: int) -> None:
        position = self._disk.position(path, offset)
        for bit in range(times):
            self._disk.add(Rule("read", flip=position, bit=bit, offset=position, length=1, skip=bit, count=1))
        self._disk.drop(path)

    def heal(self) -> None:
        self._disk.clear()


class Bind(Loop):
    """A folder of an ext4 that is seen at another place."""

    def __init__(self, *, is_cached: bool) -> None:
        super().__init__("ext4", is_cached=is_cached)
        self.can = _EVERYWHERE

    def _mount(self, stack: ExitStack) -> Path:
        self._source = super()._mount(stack) / "source"
        self._source.mkdir()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="truth-bind-")))
        stack.enter_context(bound(self._source, folder))
        return folder

    def _below(self, path: Path) -> Path:
        return self._source / path.relative_to(self.folder)


class Overlay(Disk):
    """
    An overlay on an ext4.

    Args:
        is_cached: see ``Disk``.
        has_lower: what is planted lies in the lower layer when the program comes.
    """

    def __init__(self, *, is_cached: bool, has_lower: bool) -> None:
        super().__init__(is_cached=is_cached)
        self._has_lower = has_lower
        if has_lower:
            self.can = _EVERYWHERE - {Can.LINK}

    def _mount(self, stack: ExitStack) -> Path:
        home = stack.enter_context(LoopFS("ext4", size_bytes=512 << 20)).folder
        self._lower, self._upper, self._work = home / "lower", home / "upper", home / "work"
        for folder in (self._lower, self._upper, self._work):
            folder.mkdir()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="truth-overlay-")))
        self._stack_layers(folder)
        stack.callback(unmount, folder)
        return folder

    def _stack_layers(self, folder: Path) -> None:
        layers = f"lowerdir={self._lower},upperdir={self._upper},workdir={self._work}"
        sh("mount", "-t", "overlay", "overlay", "-o", layers, folder)

    def planted(self) -> None:
        if not self._has_lower:
            return
        unmount(self.folder)
        home = self._upper.parent
        self._lower.rmdir()
        self._upper.rename(self._lower)
        self._upper.mkdir()
        sh("rm", "-rf", self._work)
        self._work = home / "work"
        self._work.mkdir()
        self._stack_layers(self.folder)

    def _below(self, path: Path) -> Path:
        name = path.relative_to(self.folder)
        upper = self._upper / name
        return upper if upper.exists() else self._lower / name


class Memory(Disk):
    """A tmpfs: there is nothing below, but a store into a page that was mapped and written before moves no time."""

    has_ctime = False
    is_mapped = True

    def __init__(self, *, is_cached: bool) -> None:
        super().__init__(is_cached=is_cached)
        self._maps: dict[int, mmap.mmap] = {}

    def _mount(self, stack: ExitStack) -> Path:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="truth-tmpfs-")))
        stack.enter_context(small_tmpfs(folder, _TMPFS_BYTES))
        stack.callback(self._unmap)
        return folder

    def _unmap(self) -> None:
        for one in self._maps.values():
            one.close()

    def made(self, path: Path) -> None:
        status = path.stat()
        if status.st_size == 0:
            return
        with open(path, "r+b") as file:
            pages = self._maps[status.st_ino] = mmap.mmap(file.fileno(), 0)
        for at in range(0, status.st_size, mmap.PAGESIZE):
            pages[at] = pages[at]
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def open(self, path: Path) -> FileIO:
        return FileIO(path)

    def _read_at(self, path: Path, offset: int, size: int) -> bytes:
        return self._maps[path.stat().st_ino][offset : offset + size]

    def _change(self, path: Path, offset: int, data: bytes) -> None:
        self._maps[path.stat().st_ino][offset : offset + len(data)] = data


class Fuse(Disk):
    """A FUSE file system that passes everything on to an ext4."""

    has_ctime = False

    def __init__(self, *, is_cached: bool) -> None:
        super().__init__(is_cached=is_cached)
        self.can = _EVERYWHERE - {Can.PUNCH, Can.EXCHANGE} - (set() if is_cached else {Can.MAP}) | {Can.FAIL, Can.SPOIL}

    def _mount(self, stack: ExitStack) -> Path:
        self._source = stack.enter_context(LoopFS("ext4", size_bytes=512 << 20)).folder / "source"
        self._source.mkdir()
        self._fs = stack.enter_context(FaultFS(self._source, is_cached=self._is_cached))
        return self._fs.folder

    def _below(self, path: Path) -> Path:
        return self._source / path.relative_to(self.folder)

    def _change(self, path: Path, offset: int, data: bytes) -> None:
        super()._change(path, offset, data)
        drop_cache(self._below(path))  # what is behind the server is not the program's to look through

    def fail(self, path: Path, offset: int) -> None:
        name = "/" + str(path.relative_to(self.folder))
        self._fs.add(Rule("read", path=name, errno=errno.EIO, offset=offset, length=SECTOR_BYTES))

    def spoil(self, call: str, path: Path, what: str) -> None:
        name = "/" + str(path.relative_to(self.folder))
        is_hidden = what == "hidden"
        self._fs.add(Rule(call, path=name, errno=0 if is_hidden else getattr(errno, what), is_hidden=is_hidden))

    def heal(self) -> None:
        self._fs.clear()


DISKS: dict[str, Callable[[bool], Disk]] = {
    "ext4": lambda is_cached: Loop("ext4", is_cached=is_cached),
    "ext4 -I 128": lambda is_cached: Loop("ext4", is_cached=is_cached, mkfs=("-I", "128")),
    "xfs": lambda is_cached: Loop("xfs", is_cached=is_cached),
    "btrfs": lambda is_cached: Loop("btrfs", is_cached=is_cached),
    "btrfs nodatasum": lambda is_cached: Loop("btrfs", is_cached=is_cached, options="nodatasum"),
    "overlay": lambda is_cached: Overlay(is_cached=is_cached, has_lower=False),
    "overlay, lower layer": lambda is_cached: Overlay(is_cached=is_cached, has_lower=True),
    "tmpfs": lambda is_cached: Memory(is_cached=is_cached),
    "FUSE": lambda is_cached: Fuse(is_cached=is_cached),
    "bind mount": lambda is_cached: Bind(is_cached=is_cached),
    "ext4, bad sectors": lambda is_cached: BadSectors("ext4", is_cached=is_cached),
    "xfs, bad sectors": lambda is_cached: BadSectors("xfs", is_cached=is_cached),
    "btrfs, bad sectors": lambda is_cached: BadSectors("btrfs", is_cached=is_cached),
}
