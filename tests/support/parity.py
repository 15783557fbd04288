"""Roots with parity, and damage of them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from integrity.copies.parity.program import find_par2
from integrity.errors import ConfigError
from support.cli import Box
from support.planted import age
from support.shapes import put


def _has_par2() -> bool:
    try:
        return bool(find_par2())
    except ConfigError:
        return False


needs_par2 = pytest.mark.skipif(not _has_par2(), reason="par2 is not installed: apt install par2")


def make_random(seed: int, size: int) -> bytes:
    """Make a content that does not compress."""
    return random.Random(seed).randbytes(size)


def protect(box: Box, root: Path, folder: Path, contents: dict[str, bytes], *options: str) -> None:
    """Record files and protect them."""
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        put(root / name, content)
    age(*(root / name for name in contents))
    box.run("scan", root, expect=0)
    folder.mkdir(exist_ok=True)
    box.run("protect", root, "--folder", folder, *options, expect=0)


def rot(path: Path, *damages: tuple[int, bytes], size: int | None = None) -> None:
    """Damage a file as a disk does: its times stay, but for the ctime that nothing can set."""
    stat = path.stat()
    with open(path, "r+b") as file:
        for offset, data in damages:
            os.pwrite(file.fileno(), data, offset)
        if size is not None:
            file.truncate(size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def find_set_files(folder: Path) -> list[Path]:
    """List the sets in a folder."""
    return sorted(path for path in folder.rglob("*.par2") if not path.parent.name.startswith("."))
