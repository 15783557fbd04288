"""
A folder in which files are changed and damaged, and the truth about each of them.

The truth of a file is the bytes that its last writer meant to be there. Whether it is damaged is seen by reading the
disk; whether that can be known to anybody follows from the order of events (``Damage``).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from random import Random

from truth.disks import Can, Disk

BLOCK_BYTES = 65_536

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


class Damage(Enum):
    """What must be said of a file that is not what its last writer meant."""

    NONE = auto()  # it is: nothing may be said
    DUE = auto()  # it must be found
    MAYBE = auto()  # something was written to it, or nothing was recorded of it yet: nobody can know


@dataclass(eq=False)
class File:
    """
    One file, whatever its names.

    Attributes:
        data: what its last writer meant to be there.
        damage: what must be said of it.
        is_recorded: a run has read it since it was last written to.
        is_noticed: a scrub has met it since it was damaged.
        is_exact: all that differs was damaged since it was recorded, so all of it must be named.
        is_ambiguous: its owner changed it in a way that no one can tell from damage; the README says so.
        copies: new files that were copied from it, with their times.
        recorded_as: the names under which the last run read it.
        successor_of: the recorded name of the file that this one should be a copy of, as nothing but its name, size and
            time says until a run has read it.
    """

    data: bytes
    damage: Damage = Damage.NONE
    is_recorded: bool = False
    is_noticed: bool = False
    is_exact: bool = True
    is_ambiguous: bool = False
    copies: list[File] = field(default_factory=list)
    recorded_as: frozenset[str] = frozenset()
    successor_of: str | None = None


class Tree:
    """
    A folder on a disk, changed through its methods alone. Names are relative, with slashes.

    Attributes:
        folder: it.
        names: the file that stands under each name.
        met: the files that stood under each name since ``forget_past`` was last called.
    """

    def __init__(self, disk: Disk, folder: Path, *, seed: int = 1) -> None:
        self._disk, self.folder, self._random = disk, folder, Random(f"{folder.name} {seed}")
        self.names: dict[str, File] = {}
        self.met: dict[str, list[File]] = {}
        self._held: set[str] = set()
        self._recorded: set[str] = set()
        self._threads = ThreadPoolExecutor(max_workers=1)
        self._writers: list[Future[None]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """Return the path of a name."""
        return self.folder / name

    def content(self, size: int) -> bytes:
        """Make bytes like no others."""
        return self._random.randbytes(size)

    def _stands(self, name: str, file: File) -> None:
        if name in self._held and file.damage is Damage.NONE:
            file.damage = Damage.MAYBE  # a finding about what stood there stays until a person has looked (R6)
        for other in {file, *self.names.values()}:
            if other.successor_of is not None and (other is file or other.successor_of == name):
                other.successor_of = None  # it was renamed, or the name that it should have had was used again
                other.damage = Damage.MAYBE if other.damage is Damage.DUE else other.damage
        self.names[name] = file
        self.met.setdefault(name, []).append(file)

    def _wrote(self, file: File, data: bytes, *, is_whole: bool = False) -> None:
        """Note a write. Damage that no scrub has met before in this file is then a part of what somebody wrote."""
        if file.damage is Damage.DUE and (is_whole or not file.is_noticed or not file.recorded_as):
            file.damage = Damage.MAYBE
        file.data, file.is_recorded, file.is_exact = data, False, file.damage is Damage.NONE

    # Honest changes

    def write(self, name: str, data: bytes | int = 5_000, *, mtime_ns: int | None = None) -> None:
        """Write a new file, or all of an old one in place."""
        data = self.content(data) if isinstance(data, int) else data
        path = self.path(name)
        if name in self.names:
            self._wrote(self.names[name], data, is_whole=True)
            path.write_bytes(data)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            self._disk.made(path)
            self._stands(name, File(data))
        if mtime_ns is not None:
            os.utime(path, ns=(mtime_ns, mtime_ns))

    def edit(self, name: str, offset: int = 0, data: bytes = b"edited") -> None:
        """Write into a file."""
        file = self.names[name]
        self._wrote(file, file.data[:offset] + data + file.data[offset + len(data) :])
        with open(self.path(name), "r+b") as stream:
            stream.seek(offset)
            stream.write(data)

    def edit_quietly(self, name: str, offset: int = 0, data: bytes = b"edited") -> None:
        """Write into a file and put its time back. To the program that is damage, until a person accepts it."""
        self._damage(name)
        path = self.path(name)
        mtime_ns = path.stat().st_mtime_ns
        with open(path, "r+b") as stream:
            stream.seek(offset)
            stream.write(data)
        os.utime(path, ns=(mtime_ns, mtime_ns))

    def append(self, name: str, data: bytes = b"appended") -> None:
        """Write behind the end of a file."""
        self.edit(name, len(self.names[name].data), data)

    def store(self, name: str, offset: int = 0, data: bytes = b"stored") -> None:
        """Write into a file through a shared mapping."""
        file = self.names[name]
        self._wrote(file, file.data[:offset] + data + file.data[offset + len(data) :])
        with open(self.path(name), "r+b") as stream, mmap.mmap(stream.fileno(), 0) as pages:
            pages[offset : offset + len(data)] = data
            pages.flush()

    def save(self, name: str, size: int | None = None) -> None:
        """Save a new version as editors do: written beside, and renamed."""
        self.write(name + ".tmp", len(self.names[name].data) if size is None else size)
        self.rename(name + ".tmp", name)

    def truncate(self, name: str, size: int) -> None:
        """Cut a file, or grow it by zeros."""
        file = self.names[name]
        self._wrote(file, file.data[:size].ljust(size, b"\0"))
        os.truncate(self.path(name), size)

    def punch(self, name: str, offset: int, size: int) -> None:
        """Make a hole where data was."""
        file = self.names[name]
        self._wrote(file, file.data[:offset] + bytes(size) + file.data[offset + size :])
        flags = 0x1 | 0x2  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, linux/falloc.h
        with open(self.path(name), "r+b") as stream:
            if _libc.fallocate(stream.fileno(), flags, ctypes.c_long(offset), ctypes.c_long(size)) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), name)

    def touch(self, name: str, mtime_ns: int | None = None) -> None:
        """Set the mtime, to now if nothing else is said."""
        self._wrote(self.names[name], self.names[name].data)
        if mtime_ns is None:
            os.utime(self.path(name))
        else:
            os.utime(self.path(name), ns=(mtime_ns, mtime_ns))

    def chmod(self, name: str) -> None:
        """Change the mode."""
        self.path(name).chmod(0o600)

    def chown(self, name: str) -> None:
        """Change the owner."""
        os.chown(self.path(name), 1000, 1000)

    def make_folder(self, name: str) -> None:
        """Make a folder."""
        self.path(name).mkdir(parents=True)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a folder; where the file system refuses, it is copied and removed, as mv does."""
        self.path(new).parent.mkdir(parents=True, exist_ok=True)
        try:
            self.path(old).rename(self.path(new))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self.copy(old, new)
            self.remove(old)
            return
        moved = {name: file for name, file in self.names.items() if _is_inside(name, old)}
        for name in moved:
            del self.names[name]
        for name, file in moved.items():
            target = new + name[len(old) :]
            self._leave(target)
            self._stands(target, file)

    def exchange(self, one: str, other: str) -> None:
        """Swap two files or folders in one call, or by way of a third name where that is not supported."""
        paths = os.fsencode(self.path(one)), os.fsencode(self.path(other))
        is_able = Can.EXCHANGE in self._disk.can
        if not is_able or _libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) != 0:
            self.swap(one, other)
            return
        first, second = ({n: f for n, f in self.names.items() if _is_inside(n, each)} for each in (one, other))
        for name in (*first, *second):
            del self.names[name]
        for old, new, files in ((one, other, first), (other, one, second)):
            for name, file in files.items():
                self._stands(new + name[len(old) :], file)

    def swap(self, one: str, other: str) -> None:
        """Swap two files or folders by way of a third name."""
        self.rename(one, one + ".swap")
        self.rename(other, one)
        self.rename(one + ".swap", other)

    def link(self, old: str, new: str) -> None:
        """Give a file another name."""
        self.path(new).parent.mkdir(parents=True, exist_ok=True)
        os.link(self.path(old), self.path(new))
        self._stands(new, self.names[old])

    def link_all(self, old: str, new: str) -> None:
        """Copy a folder as ``cp -al`` does."""
        for name in self.find(old):
            self.link(name, new + name[len(old) :])

    def copy(self, old: str, new: str) -> None:
        """Copy a file or a folder, over what stands there: ``cp -p``."""
        for name in self.find(old):
            self._copy(name, new + name[len(old) :])

    def _copy(self, old: str, new: str) -> None:
        source, path = self.names[old], self.path(new)
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = new not in self.names
        if not is_new:
            self._wrote(self.names[new], source.data, is_whole=True)
        # By plain reads and writes, so that no bytes are shared with the original.
        path.write_bytes(self.path(old).read_bytes())
        if is_new:
            self._disk.made(path)
            self._stands(new, File(source.data))
            source.copies.append(self.names[new])
        if source.damage is not Damage.NONE:
            self.names[new].damage = Damage.MAYBE
        shutil.copystat(self.path(old), path)

    def restore(self, name: str, data: bytes, mtime_ns: int) -> None:
        """Put a version from a backup here, with its old mtime."""
        self.write(name, data, mtime_ns=mtime_ns)

    def remove(self, name: str) -> None:
        """Remove a file or a folder."""
        path = self.path(name)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        for each in [each for each in self.names if _is_inside(each, name)]:
            self._leave(each)

    def _hold_findings(self, file: File) -> None:
        """Note that a damaged file is gone: whoever has its name now can't be told from a newer version of it (R6)."""
        for name in [name for name, files in self.met.items() if file in files]:
            self._held.add(name)
            if name in self.names and self.names[name].damage is Damage.NONE:
                self.names[name].damage = Damage.MAYBE

    def _leave(self, name: str) -> None:
        """Take a name from its file; the last one that goes may leave its damage to a copy."""
        file = self.names.pop(name, None)
        if file is not None and file.damage is not Damage.NONE:
            self._hold_findings(file)
        if file is None or file.damage is not Damage.DUE or file in self.names.values():
            return
        for copy in file.copies:
            names = [each for each, other in self.names.items() if other is copy and copy.data == file.data]
            # What nobody has noticed is told by the recorded name, size and time alone.
            free = {each.split("/")[-1]: each for each in file.recorded_as if each not in self.names}
            fresh = [each.split("/")[-1] for each in names if each not in self._recorded]
            successor_of = next((free[last] for last in fresh if last in free), None)
            is_known = file.is_noticed or (successor_of is not None and not copy.is_recorded)
            if names and is_known and file.is_recorded:  # else it has content and a time that no run has seen
                copy.damage, copy.is_noticed = Damage.DUE, file.is_noticed
                copy.successor_of = None if file.is_noticed else successor_of
                return

    def meanwhile(self, change: Callable[[int], None], *, times: int = 20, pause_s: float = 0.08) -> None:
        """Change something again and again, from now on, while the program runs; ``settle`` waits for the end."""
        pause = threading.Event()

        def work() -> None:
            for number in range(times):
                change(number)
                pause.wait(pause_s)

        self._writers.append(self._threads.submit(work))

    def settle(self) -> None:
        """
        Wait until nothing changes any more.

        Raises:
            OSError: a change failed.
        """
        writers, self._writers = self._writers, []
        for writer in writers:
            writer.result()

    # Damage

    def flip(self, name: str, offset: int = 0) -> None:
        """Flip one bit."""
        self._damage(name)
        self._disk.xor(self.path(name), offset)

    def zero(self, name: str, offset: int = 0) -> None:
        """Lose a sector."""
        self._damage(name)
        self._disk.zero(self.path(name), offset)

    def misdirect(self, one: str, other: str, offset: int = 0) -> None:
        """Swap a sector of two files."""
        self._damage(one)
        self._damage(other)
        self._disk.exchange(self.path(one), self.path(other), offset)

    def fail(self, name: str, offset: int = 0) -> None:
        """Make a sector unreadable."""
        self._damage(name)
        self._disk.fail(self.path(name), offset)

    def cut(self, name: str, size: int) -> None:
        """Let the file system believe that a file is shorter."""
        self._damage(name)
        self._disk.cut(self.path(name), size)

    def lose(self, name: str, offset: int = 0) -> None:
        """Let the file system forget a block."""
        self._damage(name)
        self._disk.lose(self.path(name), offset)

    def restore_damaged(self, name: str, data: bytes, mtime_ns: int) -> None:
        """Put a version from a backup here in which a bit is wrong; its digest was recorded once."""
        self.write(name, data[:-1] + bytes([data[-1] ^ 1]), mtime_ns=mtime_ns)
        file = self.names[name]
        file.data, file.damage = data, Damage.DUE

    def _damage(self, name: str) -> None:
        file = self.names[name]
        if file.is_recorded or (file.damage is Damage.DUE and file.recorded_as):
            file.damage = Damage.DUE
        else:
            file.damage = Damage.MAYBE

    # What is so

    def find(self, name: str) -> list[str]:
        """Find the names of files at or below a name."""
        return [each for each in self.names if _is_inside(each, name)]

    def excuse(self, name: str) -> None:
        """Say that no one can tell what was done to this file from damage."""
        self.names[name].is_ambiguous = True

    def was_read(self) -> None:
        """Note that a run has recorded all that changed."""
        self._recorded = set(self.names)
        for file, names in self.files():
            file.is_recorded, file.recorded_as, file.successor_of = True, frozenset(names), None

    def was_scrubbed(self) -> None:
        """Note that a scrub has read everything."""
        for file in self.names.values():
            file.is_noticed = file.damage is Damage.DUE

    def was_doubted(self, file: File) -> None:
        """Note that a write passed for damage because other times moved as far as the time of this file did."""
        if not file.is_recorded and file.damage is Damage.NONE:
            file.damage = Damage.MAYBE

    def was_accepted(self, names: list[str]) -> None:
        """Note that a person took these names of one file as they are: what is there is what should be there."""
        self._held.difference_update(names)
        for name in self.names.keys() & set(names):
            file = self.names[name]
            file.data, file.damage, file.is_noticed, file.is_exact = (
                self.path(name).read_bytes(),
                Damage.NONE,
                False,
                True,
            )

    def forget_past(self) -> None:
        """Forget what stood where until now; who has the name of a damaged file then holds its finding."""
        self._held &= self.names.keys()
        self.met = {name: [file] for name, file in self.names.items()}

    def files(self) -> Iterator[tuple[File, list[str]]]:
        """Yield each file with its names."""
        names: dict[File, list[str]] = {}
        for name, file in self.names.items():
            names.setdefault(file, []).append(name)
        yield from names.items()

    def is_readable(self, name: str) -> bool:
        """Say whether all of a file can be read from its disk."""
        try:
            with self._disk.open(self.path(name)) as stream:
                stream.readall()
        except OSError:
            return False
        return True

    def find_bad_blocks(self, name: str) -> list[int] | None:
        """Read a file from its disk and return the blocks that are not as they should be; None if its size is not."""
        data, bad = self.names[name].data, []
        with self._disk.open(self.path(name)) as stream:
            if os.fstat(stream.fileno()).st_size != len(data):
                return None
            for start in range(0, len(data), BLOCK_BYTES):
                wanted = data[start : start + BLOCK_BYTES]
                try:
                    found = os.pread(stream.fileno(), BLOCK_BYTES, start)
                except OSError:
                    found = b""
                if found != wanted:
                    bad.append(start // BLOCK_BYTES)
        return bad


def _is_inside(name: str, folder: str) -> bool:
    return name == folder or name.startswith(folder + "/")
