"""File systems that number inodes anew at each mount, or ignore the case of names: pools, FAT, views."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support import AnyPath
from support.loopfs import unmount
from support.machine import is_known, need_file_system, need_programs
from support.programs import sh

FATS = ("exfat", "vfat")
_OPTIONS = {"exfat": "iocharset=utf8", "vfat": "utf8"}  # with iocharset=utf8 a vfat minds letter case


@contextmanager
def pool(point: AnyPath, branches: Sequence[AnyPath], *, options: str = "") -> Iterator[None]:
    """Mount folders as one with mergerfs as long as the block runs."""
    need_programs("mergerfs")
    more = f",{options}" if options else ""
    sh("mergerfs", "-o", f"cache.files=off{more}", ":".join(os.fsdecode(one) for one in branches), point)
    try:
        yield
    finally:
        unmount(point)


@contextmanager
def union(point: AnyPath, branches: Sequence[AnyPath]) -> Iterator[None]:
    """Mount folders as one with unionfs as long as the block runs."""
    need_programs("unionfs")
    sh("unionfs", "-o", "cow", ":".join(f"{os.fsdecode(one)}=RW" for one in branches), point)
    try:
        yield
    finally:
        unmount(point)


@contextmanager
def view(point: AnyPath, source: AnyPath) -> Iterator[None]:
    """Show a folder at another place with bindfs as long as the block runs."""
    need_programs("bindfs")
    sh("bindfs", source, point)
    try:
        yield
    finally:
        unmount(point)


def make_fat(image: Path, fs_type: str = "exfat", *, size_bytes: int = 64 << 20) -> Path:
    """Make an image with an empty exFAT in it, or a vfat, which takes a kernel that knows it."""
    if fs_type != "exfat":
        need_file_system(fs_type)
    need_programs(f"mkfs.{fs_type}")
    with open(image, "xb") as file:
        file.truncate(size_bytes)
    sh(f"mkfs.{fs_type}", image)
    return image


@contextmanager
def fat(point: AnyPath, image: Path, fs_type: str = "exfat") -> Iterator[None]:
    """Mount an image from ``make_fat`` as long as the block runs: by the kernel, or by FUSE where it has no exFAT."""
    need_programs("losetup")
    device = sh("losetup", "--find", "--show", image).strip()
    try:
        if is_known(fs_type):
            sh("mount", "-t", fs_type, "-o", _OPTIONS[fs_type], device, point)
        else:
            need_programs("mount.exfat-fuse")
            sh("mount.exfat-fuse", device, point)
        try:
            yield
        finally:
            unmount(point)
            os.sync()
    finally:
        sh("losetup", "--detach", device)
