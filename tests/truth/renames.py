"""
Files of a root whose names change between two looks: renamed, swapped, rotated, put aside, linked, copied and deleted.

Some are written to or damaged on their way; some share their size and time, as those that an archive was unpacked to.
They lie in a folder of their own, belong to no copy, and no oracle judges them: two versions of the program are to say
the same of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from truth.habits import DAY_NS, HOUR_NS, SECOND_NS
from truth.places import Place

TOP = "names"
_FOLDERS, _FILES, _SHARED_BYTES = ("a", "b", "c"), 7, 4_500
_EVENTS_A_PHASE = 9


class RenamedFiles:
    """These files, below ``TOP``. All that happens to them follows from the seed."""

    def __init__(self, seed: int) -> None:
        self._chance, self._count = Random(f"names {seed}"), 0

    def begin(self, place: Place, now_ns: int) -> None:
        """Write the first versions."""
        self._place = place
        shared_ns = (now_ns - 50 * DAY_NS) // SECOND_NS * SECOND_NS
        for folder in _FOLDERS:
            (self._top / folder).mkdir(parents=True)
            for number in range(_FILES):
                path, is_shared = self._top / folder / str(number), number < _FILES // 2
                size = _SHARED_BYTES if is_shared else self._chance.randrange(4_200, 9_000)
                path.write_bytes(self._chance.randbytes(size))
                time_ns = now_ns - self._chance.randrange(30 * DAY_NS, 400 * DAY_NS)
                os.utime(path, ns=(0, shared_ns if is_shared else time_ns))

    @property
    def _top(self) -> Path:
        return self._place.path(TOP)

    def find(self) -> list[Path]:
        """Return the files that there are."""
        return sorted(path for path in self._top.rglob("*") if path.is_file())

    def happen(self, now_ns: int) -> None:
        """Let some things happen."""
        self._now_ns = now_ns
        for _ in range(_EVENTS_A_PHASE):
            files = self.find()
            if len(files) >= len(_FOLDERS) * 2:
                self._chance.choice(_EVENTS)(self, self._chance.sample(files, 3))

    def name(self, folder: Path) -> Path:
        """Return a new name in a folder."""
        self._count += 1
        return folder / f"new{self._count}"

    def pick_folders(self) -> list[Path]:
        """Return two folders."""
        return self._chance.sample(sorted(path for path in self._top.iterdir() if path.is_dir()), 2)

    def happens(self) -> bool:
        """Say whether something happens that does half the times."""
        return self._chance.random() < 0.5

    def write(self, path: Path, *, keeps_stat: bool = False) -> None:
        """Write other content into a file, which is made if there is none."""
        stat = path.stat() if path.exists() else None
        size = stat.st_size if stat and keeps_stat else self._chance.randrange(4_200, 9_000)
        path.write_bytes(self._chance.randbytes(size))
        time_ns = self._now_ns - self._chance.randrange(6 * HOUR_NS)
        os.utime(path, ns=(0, stat.st_mtime_ns if stat and keeps_stat else time_ns))

    def harm(self, path: Path) -> None:
        """Do what leaves other content: write, put the time back, or damage it on the disk."""
        kind = self._chance.randrange(3)
        if kind == 2:
            self._place.rot(str(path.relative_to(self._place.path("."))), self._chance)
        else:
            self.write(path, keeps_stat=kind == 1)


def _rename(world: RenamedFiles, files: list[Path]) -> None:
    files[0].rename(world.name(files[world.happens()].parent))


def _rename_and_harm(world: RenamedFiles, files: list[Path]) -> None:
    name = world.name(files[world.happens()].parent)
    files[0].rename(name)
    world.harm(name)


def _reuse(world: RenamedFiles, files: list[Path]) -> None:
    files[0].rename(world.name(files[1].parent))
    world.write(files[0])


def _exchange(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def _swap(world: RenamedFiles, files: list[Path]) -> None:
    _exchange(*files[:2])
    if world.happens():
        world.harm(files[0])


def _turn(world: RenamedFiles, files: list[Path]) -> None:
    _exchange(*files[:2])
    _exchange(*files[1:])


def _rotate(world: RenamedFiles, files: list[Path]) -> None:
    """Pass names on; the last file goes, or gets a new name; the first name goes, or is used again."""
    if world.happens():
        files[2].rename(world.name(files[2].parent))
    files[1].rename(files[2])
    files[0].rename(files[1])
    if world.happens():
        world.write(files[0])
    if world.happens():
        world.harm(files[1])


def _rename_over(world: RenamedFiles, files: list[Path]) -> None:
    files[0].rename(files[1])
    if world.happens():
        world.harm(files[1])


def _save(world: RenamedFiles, files: list[Path]) -> None:
    """Write a new file and rename it over the old one, which may be kept beside it."""
    if world.happens():
        files[0].rename(files[0].with_name(f"{files[0].name}~"))
    name = world.name(files[0].parent)
    world.write(name)
    name.rename(files[0])


def _rename_folder(world: RenamedFiles, _: list[Path]) -> None:
    folder = world.pick_folders()[0]
    folder.rename(world.name(folder.parent))


def _swap_folders(world: RenamedFiles, _: list[Path]) -> None:
    _exchange(*world.pick_folders())


def _move_by_copy(world: RenamedFiles, files: list[Path]) -> None:
    name = world.name(files[1].parent) if world.happens() else files[1].with_name(files[0].name)
    if _copy(files[0], name):
        if world.happens():
            world.harm(name)
        files[0].unlink()


def _copy(path: Path, name: Path) -> bool:
    is_possible = not (name.exists() and name.samefile(path))
    if is_possible:
        shutil.copy2(path, name)
    return is_possible


def _copy_over(_: RenamedFiles, files: list[Path]) -> None:
    _copy(*files[:2])


def _link(world: RenamedFiles, files: list[Path]) -> None:
    name = world.name(files[1].parent)
    name.hardlink_to(files[0])
    if world.happens():
        files[0].unlink()


def _harm(world: RenamedFiles, files: list[Path]) -> None:
    world.harm(files[0])


def _delete(_: RenamedFiles, files: list[Path]) -> None:
    files[0].unlink()


_EVENTS: tuple[Callable[[RenamedFiles, list[Path]], None], ...] = (
    *(_rename, _rename_and_harm, _reuse, _swap, _turn, _rotate, _rename_over, _save, _rename_folder, _swap_folders),
    *(_move_by_copy, _copy_over, _link, _harm, _delete),
)
