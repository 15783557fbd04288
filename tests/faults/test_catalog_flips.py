"""One flipped bit in each column of each table of a used catalog is detected, by opening it or looking it through."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from integrity.catalog import maintenance
from integrity.catalog.connection import Catalog
from integrity.errors import CatalogError
from support.bitrot import rot
from support.cli import Box
from support.flips import find_flips
from support.loopfs import LoopFS
from support.planted import age
from support.shapes import put
from support.stored import tamper

MIB = 1 << 20


@pytest.fixture
def used(ext4: LoopFS, integrity: Box) -> Path:
    """Use a catalog for everything: damage, changes, deletions, held changes, a copy, a gate, a backup."""
    root = Path(os.fsdecode(ext4.mnt)) / "data"
    root.mkdir()
    for number in range(8):
        put(root / f"{number}.txt", os.urandom(5_000))
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
    integrity.run("ack", "1")
    for backup in integrity.home.glob("catalog-*.db"):
        backup.unlink()
    return root


def is_right(path: bytes) -> bool:
    """Look a catalog through, as ``integrity catalog check`` does."""
    with Catalog.open(path, writes=False, verify_rows=False) as catalog:
        return maintenance.check(catalog).is_right


@pytest.mark.long
@pytest.mark.root
def test_flip_in_every_column_is_detected(used: Path, integrity: Box) -> None:
    """Each value that is stored of anything."""
    path = os.fsencode(integrity.catalog)
    assert is_right(path)
    flips = 0
    missed = []
    for what in find_flips(integrity.catalog, random.Random(11)):
        flips += 1
        try:
            if is_right(path):
                missed.append(what)
        except CatalogError:
            pass  # that is an answer, too
    assert flips > 150
    assert not missed, "\n".join(missed)


@pytest.mark.root
@pytest.mark.parametrize("command", ["scan", "scrub"])
def test_run_beside_a_damaged_candidate(used: Path, integrity: Box, command: str) -> None:
    """Content in question that can't be trusted to be what was seen is not what new content is held against."""
    assert tamper(integrity, "UPDATE candidate SET size_bytes = size_bytes + 1")
    put(used / "new.txt", b"new")
    before = integrity.findings("findings", "--all")

    done = integrity.run("--json", command, used)

    assert done.code in (1, 4), done.stderr
    assert done.code == 1 or "run: integrity catalog check" in done.stderr
    assert [one["id"] for one in before] == [one["id"] for one in integrity.findings("findings", "--all")]
