"""
What a hostile local user does in a folder of his while root works in it: a process with his rights, as fast as it can.

Each trick is undone at once, so that the tree stays what it was but for the moment in which it is something else. Names
are fixed beforehand and nothing is listed on the way: a turn of the loop is a few system calls.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import mmap
import os
import random
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from support.privileges import NOBODY
from support.shapes import put_deep

MARK = b"written by him! "
"""What he writes over the beginning of a file."""

_LONGEST_PAUSE_S = 0.003
_LONGEST_LIFE_S = 300
_OF_REPAIR = ".integrity-"
_AIMS = 0.8
"""This share of his tricks is for the file whose repair he noticed."""

_BLOWS = 12
"""After so many he waits for the next one, for a repair refuses files that moved before."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_DEEP_LEVELS = 25
_libc = ctypes.CDLL(None, use_errno=True)


class Prey:
    """
    Where a neighbour is at work.

    Attributes:
        files: absolute paths of files of his tree.
        folders: absolute paths of folders of his tree.
        home: a folder of his beside it, where he keeps what he puts in the place of files and folders.
        open_file: somebody else's file that he may write to, and so may give names to.
    """

    def __init__(self, root: Path, home: Path, open_file: Path) -> None:
        self.files = [str(path) for path in sorted(root.rglob("*")) if path.is_file()]
        self.folders = [str(path) for path in sorted(root.rglob("*")) if path.is_dir()]
        self.home, self.open_file = str(home), str(open_file)


def furnish(home: Path, files: Sequence[Path], folders: Sequence[Path]) -> None:
    """Make, as the user himself, what is put in the place of his files and folders: links to ``files``, ``folders``."""
    for number, target in enumerate(files):
        (home / f"file-link{number}").symlink_to(target)
    for number, target in enumerate(folders):
        (home / f"folder-link{number}").symlink_to(target)
    os.mkfifo(home / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "socket"))
    (home / "folder").mkdir()
    (home / "file").write_bytes(MARK * 200)


class Neighbour:
    """
    The tricks, bound to a place and to what chance says.

    Args:
        prey: where.
        chance: decides which file, and for how long.
    """

    def __init__(self, prey: Prey, chance: random.Random) -> None:
        self._prey, self._chance = prey, chance
        self._leases: list[int] = []
        self._target: tuple[str, str] | None = None
        self._met: set[str] = set()

    def lie_in_wait(self) -> None:
        """Touch nothing until a repair makes a file, then let it go on for a moment; aim at that file from now on."""
        while True:
            for folder in self._prey.folders:
                with suppress(OSError):
                    for name in os.listdir(folder):
                        if _OF_REPAIR in name and name not in self._met:
                            self._met.add(name)
                            self._target = f"{folder}/{name[1 : name.index(_OF_REPAIR)]}", folder
                            self._pause()
                            return

    def rename_file(self) -> None:
        """Give a file another name in another folder, and back."""
        path, aside = self._file(), f"{self._folder()}/renamed"
        os.rename(path, aside)
        self._pause()
        os.rename(aside, path)

    def rename_folder(self) -> None:
        """Give a folder another name, or have it lie in another folder, and back."""
        path = self._folder()
        aside = f"{self._folder()}/renamed folder" if self._chance.random() < 0.5 else f"{path} renamed"
        os.rename(path, aside)
        self._pause()
        os.rename(aside, path)

    def exchange_files(self) -> None:
        """Exchange two files, and back."""
        self._exchange(self._file(), self._file())

    def exchange_folders(self) -> None:
        """Exchange two folders, and back."""
        self._exchange(self._folder(), self._folder())

    def link_file(self) -> None:
        """Put a symbolic link to somebody else's file in the place of a file."""
        self._exchange(self._file(), self._own("file-link"))

    def link_folder(self) -> None:
        """Put a symbolic link to somebody else's folder in the place of a folder."""
        self._exchange(self._folder(), self._own("folder-link"))

    def link_file_to_folder(self) -> None:
        """Put links and folders where they do not belong: a folder for a file, a link to a file for a folder."""
        self._exchange(self._file(), self._chance.choice((self._own("folder-link"), f"{self._prey.home}/folder")))
        self._exchange(self._folder(), self._own("file-link"))

    def second_name(self) -> None:
        """Give a file one more name, and take it away."""
        name = f"{self._folder()}/second name"
        os.link(self._file(), name)
        self._pause()
        os.unlink(name)

    def others_file(self) -> None:
        """Put a file of somebody else's in the place of a file, by a name that he gives it."""
        name = f"{self._prey.home}/of others"
        with suppress(FileExistsError):
            os.link(self._prey.open_file, name)
        self._exchange(self._file(), name)

    def special(self) -> None:
        """Put a FIFO or a socket in the place of a file."""
        self._exchange(self._file(), f"{self._prey.home}/{self._chance.choice(('fifo', 'socket'))}")

    def lease(self) -> None:
        """Hold a lease on a file, which makes others wait; some are never given back."""
        writes = self._chance.random() < 0.5
        fd = os.open(self._file(), (os.O_RDWR if writes else os.O_RDONLY) | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK if writes else fcntl.F_RDLCK)
        except OSError:
            os.close(fd)
            raise
        if len(self._leases) < 3 and self._chance.random() < 0.01:
            self._leases.append(fd)
            return
        self._pause()
        os.close(fd)

    def write(self) -> None:
        """Write over the beginning of a file, and put its times back."""
        with self._his_file() as fd:
            before = os.fstat(fd)
            os.pwrite(fd, MARK, 0)
            os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))
        self._pause()

    def truncate(self) -> None:
        """Cut a file, make it as long as it was, and put its times back."""
        with self._his_file() as fd:
            before = os.fstat(fd)
            os.ftruncate(fd, before.st_size // 2)
            self._pause()
            os.ftruncate(fd, before.st_size)
            os.utime(fd, ns=(before.st_atime_ns, before.st_mtime_ns))

    def map_and_write(self) -> None:
        """Write through a mapping, which moves times only now and then."""
        with self._his_file() as fd, mmap.mmap(fd, 0) as mapped:
            for _ in range(20):
                mapped[: len(MARK)] = MARK
                mapped[: len(MARK)] = MARK[::-1]
                mapped[: len(MARK)] = MARK

    def close_folder(self) -> None:
        """Take all permissions from a folder, and give them back."""
        path = self._folder()
        os.chmod(path, 0)
        self._pause()
        os.chmod(path, 0o755)

    def close_file(self) -> None:
        """Take all permissions from a file, or let it run as its owner, and give them back."""
        path = self._file()
        os.chmod(path, self._chance.choice((0, 0o4755, 0o2755)))
        self._pause()
        os.chmod(path, 0o644)

    def deep_folder(self) -> None:
        """Put folders that are deeper than a path is long in the place of a folder."""
        self._exchange(self._folder(), f"{self._prey.home}/deep")

    def move_out(self) -> None:
        """Take a folder out of the tree, and bring it back."""
        path, aside = self._folder(), f"{self._prey.home}/moved out"
        os.rename(path, aside)
        self._pause()
        os.rename(aside, path)

    def temporary_files(self) -> None:
        """Do something to a file that a repair makes or keeps: remove, replace, or give it another name."""
        folder = self._folder()
        names = [name for name in os.listdir(folder) if _OF_REPAIR in name]
        if not names:
            raise FileNotFoundError(folder)
        for name in names:
            path = f"{folder}/{name}"
            deed = self._chance.randrange(6)
            if deed == 0:
                os.unlink(path)
            elif deed == 1:
                os.rename(path, f"{self._prey.home}/taken{self._chance.randrange(5)}")
            elif deed == 2:
                self._exchange(path, self._own("file-link"))
            elif deed == 3:
                self._exchange(path, self._file())
            elif deed == 4:
                os.link(path, f"{self._prey.home}/of repair{self._chance.randrange(5)}")
            else:
                with self._his_file(path) as fd:
                    os.pwrite(fd, MARK, 0)

    def _file(self) -> str:
        return self._aim(0, self._prey.files)

    def _folder(self) -> str:
        return self._aim(1, self._prey.folders)

    def _aim(self, part: int, others: Sequence[str]) -> str:
        if self._target is not None and self._chance.random() < _AIMS:
            return self._target[part]
        return self._chance.choice(others)

    def _own(self, kind: str) -> str:
        return f"{self._prey.home}/{kind}{self._chance.randrange(2)}"

    def _pause(self) -> None:
        if self._chance.random() < 0.5:
            time.sleep(self._chance.random() * _LONGEST_PAUSE_S)

    def _exchange(self, one: str, other: str) -> None:
        _rename_exchange(one, other)
        self._pause()
        _rename_exchange(one, other)

    @contextmanager
    def _his_file(self, path: str = "") -> Iterator[int]:
        """Open a file for writing if it is his own: what he may do to files of others is no finding."""
        fd = os.open(path or self._file(), os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                raise PermissionError("of somebody else")
            yield fd
        finally:
            os.close(fd)


def _rename_exchange(one: str, other: str) -> None:
    if _libc.renameat2(_AT_FDCWD, one.encode(), _AT_FDCWD, other.encode(), _RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")


TRICKS: dict[str, Callable[[Neighbour], None]] = {
    name: trick for name, trick in vars(Neighbour).items() if name[0] != "_" and name != "lie_in_wait"
}


class Attack:
    """
    A neighbour at work in a process of his own: ``with Attack(prey, names, seed) as attack: ...``.

    Args:
        prey: where.
        names: of the tricks.
        seed: of what he does; when he does it is up to the machine.
        waits: he begins only when a repair makes a file.
    """

    def __init__(self, prey: Prey, names: Sequence[str], seed: str, *, waits: bool = False) -> None:
        self._prey, self._names, self._seed, self._waits = prey, names, seed, waits
        self._counts = mmap.mmap(-1, 8 * len(names))

    @property
    def counts(self) -> dict[str, int]:
        """How often each trick was done from its beginning to its end."""
        values: tuple[int, ...] = struct.unpack(f"{len(self._names)}Q", self._counts[:])
        return dict(zip(self._names, values, strict=True))

    def __enter__(self) -> Attack:
        ready, starts = os.pipe()
        self._pid = os.fork()
        if not self._pid:
            try:
                os.close(ready)
                self._become_him()
                self._play(starts)
            finally:
                os._exit(1)
        os.close(starts)
        with os.fdopen(ready, "rb") as pipe:
            assert pipe.read(1), "the neighbour could not begin"
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        status = os.waitpid(self._pid, 0)[1]
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the neighbour ended by himself"

    def _become_him(self) -> None:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        signal.signal(signal.SIGIO, signal.SIG_IGN)  # a lease of his is to be given back
        signal.alarm(_LONGEST_LIFE_S)

    def _play(self, starts: int) -> None:
        chance = random.Random(self._seed)
        neighbour = Neighbour(self._prey, chance)
        done = [0] * len(self._names)
        tricks = [TRICKS[name] for name in self._names]
        os.mkdir(f"{self._prey.home}/deep")
        put_deep(f"{self._prey.home}/deep", _DEEP_LEVELS, b"d" * 200)
        os.write(starts, b"!")
        for turn in itertools.count():
            if self._waits and turn % _BLOWS == 0:
                neighbour.lie_in_wait()
            number = chance.randrange(len(tricks))
            with suppress(OSError, ValueError):  # another trick of his was in the way
                tricks[number](neighbour)
                done[number] += 1
                struct.pack_into("Q", self._counts, 8 * number, done[number])
