"""
One side of a comparison: what stands there, and what the program has read there.

A place whose file system has no ctime is an exFAT, or an ext4 that the program sees through ``bindfs``; bytes are
changed there by writing and putting the time back. On ext4 they are changed below the file system.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from random import Random

from support.bitrot import drop_cache, get_positions, overwrite_at
from support.loopfs import LoopFS, unmount
from support.programs import sh

_SECTOR_BYTES = 512


@dataclass(frozen=True)
class Seen:
    """A file as it stands somewhere; ``ctime_ns`` is 0 where the file system has none."""

    content: bytes
    mtime_ns: int
    ctime_ns: int

    def has_stat_of(self, other: Seen) -> bool:
        """Say whether size and modification time are the same."""
        return len(self.content) == len(other.content) and self.mtime_ns == other.mtime_ns


class Place:
    """
    A folder on a disk of its own.

    Args:
        home: where it is mounted below.
        has_ctime: whether the program can see a ctime there.
        ignores_case: it is an exFAT, and its names are in capitals.
        is_decomposed: its names are in NFD.
        part: the part of the root that it holds, such as ``sub/``.

    Attributes:
        folder: as the program sees it.
        readings: what the program has read, by name, oldest first.
        keep_time: what becomes of the time of a file that is copied here.
        clock_ns: by how much the clock of its machine is off.
        holds_files: it is no list.
    """

    holds_files = True

    def __init__(
        self,
        home: Path,
        *,
        has_ctime: bool = True,
        ignores_case: bool = False,
        is_decomposed: bool = False,
        part: str = "",
    ) -> None:
        self.home, self.has_ctime, self.ignores_case, self.is_decomposed = home, has_ctime, ignores_case, is_decomposed
        self.part = part
        self.readings: dict[str, list[Seen]] = {}
        self.keep_time: Callable[[int], int] = lambda time_ns: time_ns
        self.clock_ns = 0
        self._disk = ExitStack()
        home.mkdir()
        self._open_disk()

    def _open_disk(self) -> None:
        if self.ignores_case:
            self.folder = self._below = self._mount_exfat(self.home / "exfat")
            return
        fs = self._disk.enter_context(LoopFS("ext4"))
        self._below = fs.folder / "data"
        self._below.mkdir()
        self.folder = self._below if self.has_ctime else self.home / "seen"
        self.refresh()

    def _mount_exfat(self, point: Path) -> Path:
        image = self.home / "exfat.img"
        with open(image, "wb") as file:
            file.truncate(64 << 20)
        sh("mkfs.exfat", image)
        point.mkdir(exist_ok=True)
        sh("mount.exfat-fuse", image, point)
        self._disk.callback(unmount, point)
        return point

    def refresh(self) -> None:
        """Have the program's view of a place without ctime agree with what stands there."""
        if self.folder != self._below:
            if self.folder.exists():
                unmount(self.folder)
            else:
                self.folder.mkdir()
                self._disk.callback(unmount, self.folder)
            sh("bindfs", "--ctime-from-mtime", self._below, self.folder)

    def close(self) -> None:
        """Unmount everything."""
        self._disk.close()

    def change_disk(self, convert: Callable[[int], int]) -> None:
        """Copy everything to a new disk that is mounted in another place, with converted times."""
        files = {name: self.see(name) for name in self.names()}
        old, self._disk = self._disk, ExitStack()
        self._open_disk()
        for name, seen in files.items():
            assert seen is not None
            self.write(name, seen.content, convert(seen.mtime_ns))
        old.close()
        self._convert_readings(convert)

    def map_times(self, convert: Callable[[int], int]) -> None:
        """Let all times move, as on FAT after a change of the clock."""
        for path in map(self.path, self.names()):
            os.utime(path, ns=(0, convert(path.stat().st_mtime_ns)))
        self._convert_readings(convert)

    def _convert_readings(self, convert: Callable[[int], int]) -> None:
        for name, readings in self.readings.items():
            self.readings[name] = [Seen(each.content, convert(each.mtime_ns), each.ctime_ns) for each in readings]

    def path(self, name: str) -> Path:
        """Return where a file of the root stands here."""
        name = name.removeprefix(self.part)
        name = unicodedata.normalize("NFD", name) if self.is_decomposed else name
        return self._below / (name.upper() if self.ignores_case else name)

    def has(self, name: str) -> bool:
        """Say whether a file belongs here."""
        return name.startswith(self.part)

    def names(self) -> list[str]:
        """Name all files that stand here, as the root does."""
        found = (path for path in self._below.rglob("*.*") if path.is_file() and not path.name.endswith("~"))
        names = (str(path.relative_to(self._below)) for path in found)
        names = (name.lower() if self.ignores_case else name for name in names)
        return sorted(self.part + unicodedata.normalize("NFC", name) for name in names)

    def see(self, name: str) -> Seen | None:
        """Return what stands under a name now."""
        path = self.path(name)
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
        return Seen(path.read_bytes(), status.st_mtime_ns, status.st_ctime_ns if self.has_ctime else 0)

    def write(self, name: str, content: bytes, mtime_ns: int, *, in_place: bool = False) -> None:
        """Write a file as a program does, in its place or beside it."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        target = path if in_place else path.with_name("writing.tmp")
        target.write_bytes(content)
        os.utime(target, ns=(0, mtime_ns))
        target.replace(path)
        if self.ignores_case:  # the times that it really has
            os.utime(path, ns=(0, path.stat().st_mtime_ns))

    def remove(self, name: str) -> None:
        """Delete a file."""
        self.path(name).unlink(missing_ok=True)

    def rot(self, name: str, chance: Random) -> None:
        """Damage some bytes of a file, moving no time."""
        path = self.path(name)
        content, status = path.read_bytes(), path.stat()
        offset = chance.randrange(len(content) // _SECTOR_BYTES) * _SECTOR_BYTES
        length = chance.choice((1, 1, _SECTOR_BYTES))
        old = content[offset : offset + length]
        new = bytes(length) if length > 1 else bytes([old[0] ^ 1 << chance.randrange(8)])
        if not self.has_ctime:
            path.write_bytes(content[:offset] + new + content[offset + length :])
            os.utime(path, ns=(0, status.st_mtime_ns))
            return
        drop_cache(path)
        for position in get_positions(path, offset):
            overwrite_at(position, new)
        drop_cache(path)

    def was_read(self, *, is_whole: bool) -> None:
        """Note that the program read what is here: all of it, or what it had not read or has other times."""
        for name in self.names():
            seen, readings = self.see(name), self.readings.setdefault(name, [])
            assert seen is not None
            if is_whole or not readings or not seen.has_stat_of(readings[-1]):
                readings.append(seen)

    def files_kept(self) -> Iterator[bytes]:
        """Return the contents of everything that lies here, under whatever name."""
        for path in self.home.rglob("*"):
            if path.is_file() and not path.is_symlink() and path.suffix != ".img":
                yield path.read_bytes()
        if self._below.parent not in (self.home, *self.home.parents):
            yield from (path.read_bytes() for path in self._below.parent.rglob("*") if path.is_file())

    def hide_snapshot(self, number: int) -> None:
        """Keep a snapshot by hard links, as ``cp -al`` and ``--link-dest`` do: it moves ctime, and no time else."""
        shutil.copytree(self._below, self._below.parent / f"snapshot{number}", copy_function=os.link)


class ListPlace(Place):
    """A list of checksums, of files that are read only if their size or time moved since the list was written."""

    holds_files = False

    def __init__(self, home: Path, *, part: str = "") -> None:
        super().__init__(home, part=part)
        self.folder = home / "list.md5"

    def refresh(self) -> None:
        """Write the list."""
        lines = (
            f"{md5(seen.content).hexdigest()}  {name.removeprefix(self.part)}\n"
            for name in self.names()
            if (seen := self.see(name)) is not None
        )
        text = "".join(lines)
        if not self.folder.exists() or self.folder.read_text(encoding="utf-8") != text:
            self.folder.write_text(text, encoding="utf-8")

    def files_kept(self) -> Iterator[bytes]:
        """Return nothing: a list keeps no content."""
        return iter(())
