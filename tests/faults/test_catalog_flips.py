"""A flipped bit in any page of a used catalog or of its log, and a write that its disk has lost, are detected."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from integrity.catalog import maintenance
from integrity.catalog.connection import Catalog
from integrity.catalog.rebuild import salvage
from integrity.errors import CatalogCorrupt, CatalogError
from support.bitrot import rot
from support.catalogs import CatalogBox, make_reading
from support.cli import Box
from support.flips import find_flips, find_lost_writes, find_pages, flip_bit
from support.loopfs import LoopFS
from support.planted import age
from support.shapes import put

pytestmark = pytest.mark.root

MIB = 1 << 20
TALLIED = ("file", "version", "finding", "copy_file")


@pytest.fixture
def used(ext4: LoopFS, integrity: Box) -> tuple[Path, bytes]:
    """Use a catalog for everything: damage, changes, deletions, held changes, a copy, a gate; return an older state."""
    root = Path(os.fsdecode(ext4.mnt)) / "data"
    root.mkdir()
    for number in range(200):
        put(root / f"{number}.txt", os.urandom(500))
    (root / "large").write_bytes(os.urandom(3 * MIB))
    age(*root.iterdir())
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    integrity.run("gate", root, expect=0)
    copy = root.parent / "copy"
    shutil.copytree(root, copy)
    rot(root / "1.txt", 30)
    rot(root / "large", MIB + 30)
    (root / "2.txt").write_bytes(b"edited")
    (root / "3.txt").unlink()
    integrity.run("scrub", root, expect=1)
    (root / "1.txt").write_bytes(b"newer")
    integrity.run("scan", root)
    integrity.run("compare", root, "--with", copy)
    find_pages(integrity.catalog)  # empties the log
    before = integrity.catalog.read_bytes()
    integrity.run("ack", "1")
    (root / "4.txt").write_bytes(b"edited")
    integrity.run("scrub", root, expect=1)
    integrity.run("compare", root, "--with", copy)
    for backup in integrity.home.glob("catalog-*.db"):
        backup.unlink()
    return root, before


def is_right(catalog: Path) -> bool:
    """Look a catalog through, as ``integrity catalog check`` does."""
    try:
        with Catalog.open(os.fsencode(catalog), writes=False) as opened:
            return maintenance.check(opened).is_right
    except CatalogError:
        return False


def is_salvaged(catalog: Path) -> bool | None:
    """Salvage a damaged catalog, and look at what came of it; None if its schema can't be read."""
    try:
        former = salvage(os.fsencode(catalog)).former
    except CatalogError as error:
        return None if "its schema can't be read" in str(error) else False
    os.unlink(former)
    return is_right(catalog)


def test_flip_in_every_page_is_detected(used: tuple[Path, bytes], integrity: Box) -> None:
    """Whatever stands on it; and what a salvage makes of the rest is right."""
    assert is_right(integrity.catalog)
    missed, salvaged = list[str](), dict[str, bool | None]()
    for name, what in find_flips(integrity.catalog, random.Random(11)):
        if is_right(integrity.catalog):
            missed.append(what)
        elif name != "header":
            salvaged[what] = is_salvaged(integrity.catalog)
    assert not missed, "\n".join(missed)
    assert not [what for what, is_sound in salvaged.items() if is_sound is False]
    assert not [what for what, is_sound in salvaged.items() if is_sound is None and "sqlite_schema" not in what]
    assert len(salvaged) > 50


def test_lost_write_is_detected(used: tuple[Path, bytes], integrity: Box) -> None:
    """The old page of a table that people are told from has a right checksum, but is not what was last written."""
    lost, missed = set(), list[str]()
    for name, what in find_lost_writes(integrity.catalog, used[1], *TALLIED):
        lost.add(name)
        if is_right(integrity.catalog):
            missed.append(what)
    assert set(TALLIED) == lost
    assert not missed, "\n".join(missed)


def test_flip_in_the_log_is_detected(tmp_path: Path) -> None:
    """While programs write to a catalog, what they committed stands in its log; nobody reads or keeps a damaged one."""
    path, chance = tmp_path / "catalog.db", random.Random(5)
    log = Path(f"{path}-wal")
    with CatalogBox(bytes(path)) as box:
        box.record_all({b"%d" % number: make_reading(number) for number in range(100)})
        clean = log.read_bytes()
        for _ in range(60):
            print(flip_bit(log, chance))
            with pytest.raises(CatalogCorrupt, match=r"its log \(-wal\)"):
                Catalog.open(box.path, writes=bool(chance.randrange(2)))
            log.write_bytes(clean)
        assert is_right(path)
        flip_bit(log, chance)
        damaged = log.read_bytes()
    assert damaged == log.read_bytes()
    log.write_bytes(clean)
    with Catalog.open(bytes(path), writes=True) as catalog:
        assert maintenance.check(catalog).counts[0].actual == 100
