"""File systems by FUSE that number inodes anew at each mount, or ignore the case of names: pools, exFAT, views."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support import AnyPath
from support.loopfs import unmount
from support.machine import need_programs
from support.programs import sh


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


def make_exfat(image: Path, *, size_bytes: int = 64 << 20) -> Path:
    """Make an image with an empty exFAT in it."""
    need_programs("mkfs.exfat", "mount.exfat-fuse")
    with open(image, "xb") as file:
        file.truncate(size_bytes)
    sh("mkfs.exfat", image)
    return image


@contextmanager
def exfat(point: AnyPath, image: Path) -> Iterator[None]:
    """Mount an image from ``make_exfat`` as long as the block runs."""
    need_programs("losetup", "mount.exfat-fuse")
    device = sh("losetup", "--find", "--show", image).strip()
    try:
        sh("mount.exfat-fuse", device, point)
        try:
            yield
        finally:
            unmount(point)
            os.sync()
    finally:
        sh("losetup", "--detach", device)
