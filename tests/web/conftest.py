"""A watched folder with damage and a backup, and the page that shows it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.bitrot import rot
from support.cli import Box
from support.comparing import back_up
from support.loopfs import LoopFS
from support.machine import need_root
from support.reading import let_age
from support.shapes import put
from support.webpage import WebPage

SCRIPT = "<script>alert(1)<\\script>.jpg"
"""A name that is a program if a page does not escape it; names hold no slash."""

BROKEN = b"\xff\xfe \x1b[31m'\"&.jpg"
"""A name that is not UTF-8, and would color a terminal."""


class Watched(NamedTuple):
    """A folder that is watched."""

    box: Box
    folder: Path
    toml: str


def watch(integrity: Box, disk: LoopFS, backups: Path) -> Watched:
    """Record and verify photos on a file system of their own, flip a bit of one, and find it."""
    folder = disk.folder / "photos"
    (folder / "2019").mkdir(parents=True)
    for name in ("2019/a.jpg", "2019/b.jpg", SCRIPT):
        (folder / name).write_bytes(bytes((7 * index + len(name)) % 251 for index in range(1 << 12)) * 800)
    with open(bytes(folder) + b"/" + BROKEN, "wb") as file:
        file.write(bytes(range(256)) * 64)
    let_age(folder / SCRIPT)
    copy = back_up(folder, backups / "<b>copy")
    toml = (
        f'[[root]]\npath = "{folder}"\npolicy = "archive"\n'
        f'[[copy]]\nname = "nightly"\nof = "{folder}"\nurl = "{copy}"\n'
    )
    integrity.configure(toml)
    integrity.run("scan", folder, expect=0)
    integrity.run("scrub", folder, expect=0)
    rot(folder / "2019" / "b.jpg", (1 << 20) + 5)
    rot(folder / SCRIPT, 5)
    integrity.run("scrub", folder, expect=1)
    integrity.run("compare", folder, "--with", "nightly", expect=1)
    return Watched(integrity, folder, toml)


def lose_album(integrity: Box, album: Path) -> str:
    """Record an album in an archive, delete it, and find that; return the configuration."""
    album.mkdir(parents=True)
    toml = f'[[root]]\npath = "{album.parent}"\npolicy = "archive"\n'
    integrity.configure(toml)
    put(album.parent / "stays", b"here")
    for number in range(9):
        put(album / f"{number}.jpg", b"%d" % number)
    integrity.run("scan", album.parent, expect=0)
    shutil.rmtree(album)
    integrity.run("scan", album.parent, expect=1)
    return toml


@pytest.fixture
def watched(integrity: Box, ext4: LoopFS, tmp_path: Path) -> Watched:
    """Give a test a watched folder of its own."""
    return watch(integrity, ext4, tmp_path)


@pytest.fixture(scope="session")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """Watch a folder that no test changes: those that only look share it, for it takes long to make."""
    need_root()
    place = tmp_path_factory.mktemp("lasting")
    with LoopFS("ext4") as disk:
        yield watch(Box(place / "integrity-home"), disk, place)


@pytest.fixture(scope="session")
def lasting_page(lasting: Watched) -> Iterator[WebPage]:
    """Serve the page about it; no service runs."""
    with WebPage(lasting.box, lasting.toml) as served:
        yield served


@pytest.fixture
def page(watched: Watched) -> Iterator[WebPage]:
    """Serve the page about it; no service runs."""
    with WebPage(watched.box, watched.toml) as served:
        yield served
