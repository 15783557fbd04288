"""The catalog itself is damaged, lost, old or of another version: never a verdict about healthy files (R9)."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from support import flips
from support.bitrot import flip_bit
from support.cli import Box
from support.loopfs import LoopFS
from support.planted import plant, plant_path
from support.results import kinds, messages, tallies
from support.shapes import put
from support.stored import baselines, count_rows, query, rewrite

pytestmark = pytest.mark.files(28, is_recorded=True)

MIB = 1 << 20
COMMANDS = (("scan",), ("scrub",), ("status",), ("findings",), ("explain", "x"))


def test_record_that_contradicts_itself_is_the_catalogs_fault(root: Path, integrity: Box) -> None:
    """One wrong digest of two is neither rot nor a new or changed file; the others are verified; it stays said."""
    assert 1 == rewrite(integrity, "UPDATE file SET xxh3_128 = zeroblob(16) WHERE name = CAST('5.txt' AS BLOB)")
    before = baselines(integrity.catalog)

    result = integrity.run("--json", "scrub", root, expect=1)

    assert ["catalog_damaged"] == kinds(result)
    assert str(plant_path(root, 5)) == result.findings[0]["path"]
    assert "record" in messages(result)
    assert {"verified": 27, "skipped": 1} == tallies(result)
    again = integrity.run("--json", "scrub", root, expect=1)
    assert ["catalog_damaged"] == kinds(again)
    assert {"verified": 27, "skipped": 1} == tallies(again)
    assert 1 == len(integrity.findings("findings", expect=1))
    path = os.fsencode(plant_path(root, 5))
    assert before[path] == baselines(integrity.catalog)[path]


def test_damaged_block_digests_are_the_catalogs_fault(tmp_path: Path, integrity: Box) -> None:
    """A digest of a block that contradicts those of the whole file is not rot of the file, nor are lost ones."""
    root = plant(tmp_path / "root", 3)
    (root / "film.mkv").write_bytes(os.urandom(5 * MIB))
    integrity.run("scan", root, expect=0)
    ((digests,),) = query(integrity, "SELECT xxh3_128 FROM block_run")
    assert isinstance(digests, bytes)
    rewrite(integrity, "UPDATE block_run SET xxh3_128 = ?", [bytes(16) + digests[16:]])
    result = integrity.run("--json", "scrub", root, expect=1)
    assert ["catalog_damaged"] == kinds(result)
    assert {"verified": 3, "skipped": 1} == tallies(result)
    rewrite(integrity, "DELETE FROM block_run")
    assert ["catalog_damaged"] == kinds(integrity.run("--json", "scrub", root, expect=1))
    assert "some of its block digests are lost" in integrity.run("catalog", "check", expect=4).stdout


def test_damaged_digests_of_the_beginning_of_a_large_file_are_noticed(tmp_path: Path, integrity: Box) -> None:
    """A file that is compared in parts is not verified by its last part alone, nor by the next scrub's."""
    root = tmp_path / "root"
    root.mkdir()
    integrity.configure(f'[[root]]\npath = "{root}"\nblock_size = "64KiB"\n')
    (root / "film.mkv").write_bytes(os.urandom(70 * MIB))  # a part is 1,024 blocks: 64 MiB
    integrity.run("scan", root, expect=0)
    ((digests,),) = query(integrity, "SELECT xxh3_128 FROM block_run WHERE run = 0")
    assert isinstance(digests, bytes)
    rewrite(integrity, "UPDATE block_run SET xxh3_128 = ? WHERE run = 0", [bytes(16) + digests[16:]])
    for _ in range(2):
        result = integrity.run("--json", "scrub", root, expect=1)
        assert ["catalog_damaged"] == kinds(result)
        assert {"skipped": 1} == tallies(result)


def test_damaged_digests_of_a_second_name_are_noticed(tmp_path: Path, integrity: Box) -> None:
    """What was compared in parts for one name of a file counts for another one only if the same is recorded of it."""
    root = tmp_path / "root"
    root.mkdir()
    integrity.configure(f'[[root]]\npath = "{root}"\nblock_size = "64KiB"\n')
    (root / "film.mkv").write_bytes(os.urandom(70 * MIB))
    (root / "second.mkv").hardlink_to(root / "film.mkv")
    integrity.run("scan", root, expect=0)
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", root, expect=0))
    query_first = "SELECT max(file_id), xxh3_128 FROM block_run WHERE run = 0"
    ((second, digests),) = query(integrity, query_first)
    assert isinstance(digests, bytes)
    rewrite(
        integrity, "UPDATE block_run SET xxh3_128 = ? WHERE run = 0 AND file_id = ?", [bytes(16) + digests[16:], second]
    )
    result = integrity.run("--json", "scrub", root, expect=1)
    assert ["catalog_damaged"] == kinds(result)
    assert {"verified": 1, "skipped": 1} == tallies(result)


@pytest.mark.root
def test_old_backup_copied_back_is_no_rot(ext4: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """A catalog of last week knows less: edits since are changes, real rot is still rot, nothing else is alarmed at."""
    root = plant(ext4.folder / "root", 28)
    put(root / "rotten.bin", os.urandom(10_000))
    os.sync()
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    shutil.copy(integrity.catalog, tmp_path / "old.db")
    put(plant_path(root, 1), b"edited once")
    integrity.run("scan", root, expect=0)
    put(plant_path(root, 1), b"edited twice")
    put(plant_path(root, 2), b"edited")
    plant_path(root, 3).unlink()
    plant_path(root, 4).rename(root / "moved.txt")
    put(root / "new.txt")
    integrity.run("scrub", root, expect=0)
    flip_bit(os.fsencode(root / "rotten.bin"), 5000, 1)
    for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm"):
        (integrity.home / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "old.db", integrity.catalog)

    result = integrity.run("--json", "scrub", root, expect=1)

    assert [("rot", str(root / "rotten.bin"))] == [(one["kind"], one["path"]) for one in result.findings]
    found = tallies(result)
    assert (2, 1, 1) == (found["changed"], found["missing"], found["damaged"])
    assert 1 == result.summary["files_moved"]
    assert 29 == count_rows(integrity)


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda path: path.write_bytes(b"garbage " * 2000), "damaged"),
        (lambda path: path.write_bytes(b""), "empty"),
        (
            lambda path: path.write_bytes(path.read_bytes()[:8192] + bytes(40_960) + path.read_bytes()[49_152:]),
            "damaged",
        ),
        (lambda path: flips.flip_bit(path, random.Random(1), 100, 4096), "the checksum of a page is wrong"),
    ],
    ids=["garbage", "empty", "hole", "bit"],
)
def test_damaged_file_is_4_and_touched_by_nobody(
    root: Path, integrity: Box, damage: object, word: str, tmp_path: Path
) -> None:
    """Whatever is asked for, the message says what is wrong and how to mend it; the file is left as it was."""
    assert callable(damage)
    damage(integrity.catalog)
    damaged = integrity.catalog.read_bytes()
    for command in COMMANDS:
        result = integrity.run(*command, expect=4)
        assert word in result.stderr
        assert str(integrity.catalog) in result.stderr
        assert "integrity catalog restore" in result.stderr
        assert "integrity catalog salvage" in result.stderr
    assert damaged == integrity.catalog.read_bytes()
    integrity.run("catalog", "restore", "--yes", expect=0)
    assert {"verified": 28} == tallies(integrity.run("--json", "scrub", root, expect=0))


def test_newer_catalog_is_4(root: Path, integrity: Box) -> None:
    """A catalog of a later version is not touched; the message says to upgrade the program."""
    rewrite(integrity, "UPDATE alembic_version SET version_num = '9999'")
    for command in COMMANDS:
        result = integrity.run(*command, expect=4)
        assert "newer" in result.stderr
        assert "upgrade" in result.stderr
    assert 28 == count_rows(integrity)
