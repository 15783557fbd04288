"""The catalog itself is damaged, lost, old or of another version: never a verdict about healthy files (R9)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from support.bitrot import flip_bit
from support.cli import Box
from support.loopfs import LoopFS
from support.planted import plant, plant_path
from support.results import kinds, messages, tallies
from support.shapes import put
from support.stored import baselines, count_rows, query, tamper

pytestmark = pytest.mark.files(28, is_recorded=True)

MIB = 1 << 20
COMMANDS = (("scan",), ("scrub",), ("status",), ("findings",), ("explain", "x"))


def test_flipped_digest_is_the_catalogs_fault(root: Path, integrity: Box) -> None:
    """A wrong digest in a row is neither rot nor a new or changed file; the others are verified; it stays said."""
    assert 1 == tamper(
        integrity, "UPDATE file SET md5 = zeroblob(16), xxh3_128 = zeroblob(16) WHERE name = CAST('5.txt' AS BLOB)"
    )
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
    integrity.run("catalog", "check", expect=4)


@pytest.mark.parametrize(
    "column", ["size_bytes = 1", "mtime_ns = 1", "ctime_ns = 1", "inode = 1", "seal = zeroblob(16)"]
)
def test_other_damage_of_a_row_is_the_catalogs_fault(root: Path, integrity: Box, column: str) -> None:
    """Whatever of a row is wrong, a scan does not take the file for changed, and a scrub calls the row damaged."""
    assert 1 == tamper(integrity, f"UPDATE file SET {column} WHERE name = CAST('5.txt' AS BLOB)")
    before = baselines(integrity.catalog)
    scan = integrity.run("--json", "scan", root)
    assert set(kinds(scan)) <= {"catalog_damaged"}
    assert not {"changed", "new", "damaged", "missing"} & set(tallies(scan))
    scrub = integrity.run("--json", "scrub", root, expect=1)
    assert ["catalog_damaged"] == kinds(scrub)
    assert {"verified": 27, "skipped": 1} == tallies(scrub)
    path = os.fsencode(plant_path(root, 5))
    assert before[path] == baselines(integrity.catalog)[path]


def test_damaged_row_of_a_changed_file_is_not_taken_over(root: Path, integrity: Box) -> None:
    """An edited file whose row is damaged keeps the damaged row for a person to look at; a deleted one, too."""
    tamper(integrity, "UPDATE file SET md5 = zeroblob(16) WHERE name IN (CAST('5.txt' AS BLOB), CAST('6.txt' AS BLOB))")
    put(plant_path(root, 5), b"edited")
    plant_path(root, 6).unlink()
    result = integrity.run("--json", "scan", root, expect=1)
    assert ["catalog_damaged", "catalog_damaged"] == kinds(result)
    assert {"not_due": 26, "skipped": 2} == tallies(result)
    assert 28 == count_rows(integrity)


def test_damaged_block_digests_are_the_catalogs_fault(tmp_path: Path, integrity: Box) -> None:
    """The digests of a large file's blocks are sealed like the rest: a wrong one is not rot of the file."""
    root = plant(tmp_path / "root", 3)
    (root / "film.mkv").write_bytes(os.urandom(5 * MIB))
    integrity.run("scan", root, expect=0)
    ((digests,),) = query(integrity, "SELECT xxh3_128 FROM block_run")
    assert isinstance(digests, bytes)
    tamper(integrity, "UPDATE block_run SET xxh3_128 = ?", [bytes(16) + digests[16:]])
    result = integrity.run("--json", "scrub", root, expect=1)
    assert ["catalog_damaged"] == kinds(result)
    assert {"verified": 3, "skipped": 1} == tallies(result)
    tamper(integrity, "DELETE FROM block_run")
    assert ["catalog_damaged"] == kinds(integrity.run("--json", "scrub", root, expect=1))


def test_damaged_digests_of_the_beginning_of_a_large_file_are_noticed(tmp_path: Path, integrity: Box) -> None:
    """A file that is compared in parts is not verified by its last part alone, nor by the next scrub's."""
    root = tmp_path / "root"
    root.mkdir()
    integrity.configure(f'[[root]]\npath = "{root}"\nblock_size = "64KiB"\n')
    (root / "film.mkv").write_bytes(os.urandom(70 * MIB))  # a part is 1,024 blocks: 64 MiB
    integrity.run("scan", root, expect=0)
    ((digests,),) = query(integrity, "SELECT xxh3_128 FROM block_run WHERE run = 0")
    assert isinstance(digests, bytes)
    tamper(integrity, "UPDATE block_run SET xxh3_128 = ? WHERE run = 0", [bytes(16) + digests[16:]])
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
    tamper(
        integrity, "UPDATE block_run SET xxh3_128 = ? WHERE run = 0 AND file_id = ?", [bytes(16) + digests[16:], second]
    )
    result = integrity.run("--json", "scrub", root, expect=1)
    assert ["catalog_damaged"] == kinds(result)
    assert {"verified": 1, "skipped": 1} == tallies(result)


def test_lost_row_is_noticed_and_its_file_is_not_new(root: Path, integrity: Box) -> None:
    """A row that went without the program's doing leaves its file unknown: left alone, not recorded as new."""
    assert 1 == tamper(integrity, "DELETE FROM file WHERE name = CAST('5.txt' AS BLOB)")
    put(root / "really-new.txt")
    for command in ("scan", "scrub"):
        result = integrity.run("--json", command, root, expect=1)
        assert ["catalog_damaged"] == kinds(result)
        assert "has 27 files" in messages(result)
        assert "28" in messages(result)
        assert 2 == tallies(result)["skipped"]
        assert "new" not in tallies(result)
    assert 27 == count_rows(integrity)
    integrity.run("catalog", "reseal", "--yes", expect=0)
    result = integrity.run("--json", "scan", root, expect=0)
    assert {"new": 2, "not_due": 27} == tallies(result)
    assert 0 == integrity.run("findings").code


def test_restored_backup_brings_the_lost_row_back(root: Path, integrity: Box) -> None:
    """The way that the finding names works: restore, and all is verified against the old baselines."""
    before = baselines(integrity.catalog)
    integrity.run("catalog", "backup", expect=0)
    tamper(integrity, "DELETE FROM file WHERE name = CAST('5.txt' AS BLOB)")
    tamper(integrity, "UPDATE file SET md5 = zeroblob(16) WHERE name = CAST('6.txt' AS BLOB)")
    integrity.run("scan", root, expect=1)
    integrity.run("catalog", "restore", "--yes", expect=0)
    assert before == baselines(integrity.catalog)
    assert {"verified": 28} == tallies(integrity.run("--json", "scrub", root, expect=0))
    assert 0 == integrity.run("catalog", "check").code


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
    ],
    ids=["garbage", "empty", "hole"],
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
    assert damaged == integrity.catalog.read_bytes()
    integrity.run("catalog", "restore", "--yes", expect=0)
    assert {"verified": 28} == tallies(integrity.run("--json", "scrub", root, expect=0))


def test_newer_catalog_is_4(root: Path, integrity: Box) -> None:
    """A catalog of a later version is not touched; the message says to upgrade the program."""
    tamper(integrity, "UPDATE alembic_version SET version_num = '9999'")
    for command in COMMANDS:
        result = integrity.run(*command, expect=4)
        assert "newer" in result.stderr
        assert "upgrade" in result.stderr
    assert 28 == count_rows(integrity)


def test_lost_catalog_is_not_begun_anew(root: Path, integrity: Box) -> None:
    """While backups are there no empty catalog takes the lost one's place: it would believe whatever is there now."""
    integrity.run("catalog", "backup", expect=0)
    for name in ("catalog.db", "catalog.db-wal", "catalog.db-shm"):
        (integrity.home / name).unlink(missing_ok=True)
    for command in ("scan", "scrub"):
        assert "integrity catalog restore" in integrity.run(command, root, expect=4).stderr
    assert not integrity.catalog.exists()
    integrity.run("catalog", "restore", "--yes", expect=0)
    assert {"not_due": 28} == tallies(integrity.run("--json", "scan", root, expect=0))
