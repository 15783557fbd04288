"""File systems that number inodes anew at each mount, or ignore the case of names: no part of the matrix."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

from support.fusemounts import FATS, fat, make_fat, pool, union, view
from support.loopfs import LoopFS
from support.machine import is_known
from support.programs import sh
from truth.disks import Disk


class Passing(Disk):
    """What a program shows of two folders, or an image with FAT; the files last, the inodes do not."""

    can = frozenset()
    has_ctime = False

    def __init__(self, mount: Callable[[Path, Path], AbstractContextManager[None]]) -> None:
        """``mount``: shows what lies in a folder at a point."""
        super().__init__(is_cached=False)
        self._show = mount
        self._mounted = ExitStack()

    def _mount(self, stack: ExitStack) -> Path:
        self._home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="truth-place-")))
        self._point = self._home / "mnt"
        for folder in (self._point, *_find_branches(self._home)):
            folder.mkdir()
        stack.callback(self.take_out)
        self.put_back()
        return self._point

    def take_out(self) -> None:
        self._mounted.close()

    def put_back(self) -> None:
        self._mounted = ExitStack()
        self._mounted.enter_context(self._show(self._home, self._point))


class Folding(Disk):
    """A folder of an ext4 in which letter case makes no name, and inodes last."""

    can = frozenset()

    def __init__(self) -> None:
        super().__init__(is_cached=False)

    def _mount(self, stack: ExitStack) -> Path:
        if not is_possible("casefolded"):
            pytest.skip("this kernel folds no case on ext4")
        fs = stack.enter_context(LoopFS("ext4", mkfs=("-O", "casefold", "-E", "encoding=utf8")))
        top = fs.folder / "folded"
        top.mkdir()
        sh("chattr", "+F", top)
        return top


def is_possible(name: str) -> bool:
    """Return whether the kernel has what a disk needs."""
    if name == "casefolded":
        return os.path.exists("/sys/fs/ext4/features/casefold")
    return name != "vfat" or is_known(name)


def _find_branches(home: Path) -> list[Path]:
    return [home / "one", home / "two"]


def _mount_fat(fs_type: str) -> Callable[[Path, Path], AbstractContextManager[None]]:
    def mount(home: Path, point: Path) -> AbstractContextManager[None]:
        image = home / "fat.img"
        return fat(point, image if image.exists() else make_fat(image, fs_type), fs_type)

    return mount


UNLASTING: dict[str, Callable[[bool], Disk]] = {
    "mergerfs": lambda _: Passing(lambda home, point: pool(point, _find_branches(home))),
    "mergerfs by hash": lambda _: Passing(
        lambda home, point: pool(point, _find_branches(home), options="inodecalc=devino-hash")
    ),
    "unionfs": lambda _: Passing(lambda home, point: union(point, _find_branches(home))),
    "bindfs": lambda _: Passing(lambda home, point: view(point, _find_branches(home)[0])),
    **{fs_type: lambda _, fs_type=fs_type: Passing(_mount_fat(fs_type)) for fs_type in FATS},  # type: ignore[misc]
    "casefolded": lambda _: Folding(),
}
