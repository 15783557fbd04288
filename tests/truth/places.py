"""
One side of a comparison: what stands there, and what the program has read there.

On ext4, bytes are damaged below the file system. A place without ctime is an exFAT, or an ext4 that the program sees
through ``bindfs``: bytes are changed there by writing, with the time put back.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import md5
from pathlib import Path
from random import Random

from support.bitrot import drop_cache, get_positions, overwrite_at
from support.fusemounts import fat, make_fat
from support.loopfs import LoopFS, unmount
from support.programs import sh
from truth.habits import Convert, Habit, cut

SECTOR_BYTES = 512


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
    A folder on a disk of its own, below ``home``.

    Attributes:
        folder: as the program sees it; for a list, the list.
        readings: what the program has read, by name, oldest first.
        keep_time: what becomes of the time of a file that is copied here.
    """

    def __init__(self, home: Path, habit: Habit) -> None:
        self.home, self.habit = home, habit
        self.readings: dict[str, list[Seen]] = {}
        self.keep_time: Convert = cut(habit.grain_ns)
        home.mkdir()
        self._disk = ExitStack()
        self._open_disk()

    def _open_disk(self) -> None:
        if self.habit.ignores_case:
            self.folder = self._below = self.home / "exfat"
            self.folder.mkdir()
            image = self.home / "exfat.img"
            image.unlink(missing_ok=True)
            self._disk.enter_context(fat(self.folder, make_fat(image)))
            return
        self._below = self._disk.enter_context(LoopFS("ext4")).folder / "data"
        self._below.mkdir()
        self.folder = self._below if self.habit.has_ctime else self.home / "seen"
        if self.habit.is_list:
            self.folder = self.home / "list.md5"

    def refresh(self) -> None:
        """Let what the program sees agree with what stands here: mount again, or write the list."""
        if self.habit.is_list:
            found = ((name, self.see(name)) for name in self.names())
            lines = [f"{md5(seen.content).hexdigest()}  {name}\n" for name, seen in found if seen]
            if not self.folder.exists() or self.folder.read_text(encoding="utf-8") != "".join(lines):
                self.folder.write_text("".join(lines), encoding="utf-8")
        elif self.folder != self._below:
            if self.folder.exists():
                unmount(self.folder)
            else:
                self.folder.mkdir()
                self._disk.callback(unmount, self.folder)
            sh("bindfs", "--ctime-from-mtime", self._below, self.folder)

    def close(self) -> None:
        """Unmount everything."""
        self._disk.close()

    def change_disk(self, convert: Convert) -> None:
        """Copy everything to a new disk that is mounted in another place, with converted times."""
        old_disk, old_below, self._disk = self._disk, self._below, ExitStack()
        self._open_disk()
        for path in sorted(old_below.rglob("*")):  # in this order inodes are the same in each life of a world
            target = self._below / path.relative_to(old_below)
            target.mkdir() if path.is_dir() else shutil.copy2(path, target)
        old_disk.close()
        self.map_times(convert)

    def map_times(self, convert: Convert) -> None:
        """Let all times move, as on FAT after a change of the clock; what was read there keeps standing for it."""
        for path in map(self.path, self.names()):
            os.utime(path, ns=(0, convert(path.stat().st_mtime_ns)))
        for name, readings in self.readings.items():
            self.readings[name] = [replace(each, mtime_ns=convert(each.mtime_ns)) for each in readings]

    def has(self, name: str) -> bool:
        """Say whether a file of the root belongs here."""
        return name.startswith(self.habit.part)

    def path(self, name: str) -> Path:
        """Return where a file of the root stands here."""
        name = name.removeprefix(self.habit.part)
        name = unicodedata.normalize("NFD", name) if self.habit.is_decomposed else name
        return self._below / (name.upper() if self.habit.ignores_case else name)

    def names(self) -> list[str]:
        """Name all files that stand here, as the root does."""
        found = (path for path in self._below.rglob("*.*") if path.is_file() and not path.name.startswith("."))
        names = (unicodedata.normalize("NFC", str(path.relative_to(self._below))) for path in found)
        return sorted(self.habit.part + (name.lower() if self.habit.ignores_case else name) for name in names)

    def see(self, name: str) -> Seen | None:
        """Return what stands under a name now."""
        path = self.path(name)
        if not self.has(name) or not path.exists():
            return None
        status = path.stat()
        return Seen(path.read_bytes(), status.st_mtime_ns, status.st_ctime_ns if self.habit.has_ctime else 0)

    def write(self, name: str, content: bytes, mtime_ns: int, *, in_place: bool = False) -> None:
        """Write a file as a program does, in its place or beside it."""
        path = self.path(name)
        path.parent.mkdir(exist_ok=True)
        target = path if in_place else path.with_name(".writing")
        target.write_bytes(content)
        os.utime(target, ns=(0, mtime_ns))
        target.replace(path)

    def rot(self, name: str, chance: Random) -> None:
        """Damage some bytes of a file, moving no time: a bit, or a sector of zeros."""
        path = self.path(name)
        content, status = path.read_bytes(), path.stat()
        offset = chance.randrange(len(content) // SECTOR_BYTES) * SECTOR_BYTES
        new = chance.choice((bytes([content[offset] ^ 1 << chance.randrange(8)]), bytes(SECTOR_BYTES)))
        if self.habit.has_ctime:
            drop_cache(path)
            for position in get_positions(path, offset):
                overwrite_at(position, new)
            drop_cache(path)
        else:
            path.write_bytes(content[:offset] + new + content[offset + len(new) :])
            os.utime(path, ns=(0, status.st_mtime_ns))

    def was_read(self, *, is_whole: bool) -> None:
        """Note that the program read what is here: all of it, or what it has not read, or not with these times."""
        for name in self.names():
            seen, readings = self.see(name), self.readings.setdefault(name, [])
            if seen and (is_whole or not readings or not seen.has_stat_of(readings[-1])):
                readings.append(seen)

    def keep_snapshot(self, number: int) -> None:
        """Keep a snapshot by hard links, as ``cp -al`` and ``--link-dest`` do: it moves ctime, and no time else."""
        shutil.copytree(self._below, self._below.parent / f"snapshot{number}", copy_function=os.link)

    def find_contents(self) -> Iterator[bytes]:
        """Return the contents of everything that lies here, under whatever name; a list keeps none."""
        top = self._below if self.habit.ignores_case else self._below.parent
        for path in () if self.habit.is_list else top.rglob("*"):
            if path.is_file():
                yield path.read_bytes()
