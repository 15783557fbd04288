"""Damage of the catalog's own rows is noticed, and never taken for damage of a file (R9)."""

from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from integrity.catalog import files, findings, maintenance, roots, row_seals, rows
from integrity.catalog.connection import Catalog
from integrity.catalog.restore import verify_backup
from integrity.catalog.schema import file, metadata, root
from integrity.catalog.seal import Sealer
from integrity.errors import CatalogError
from integrity.model import Digests, FindingKind
from support.catalogs import MIB, NOW, CatalogBox, digest, make_blocks, make_reading
from support.stored import leave_seals

SEALED = ("name", "size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy", "md5", "xxh3_128", "blake3", "crc64nvme")
STATE = (
    *("recorded_at", "reason", "verified_at", "read_how", "boot_id"),
    *("is_suspect", "is_frozen", "seen_inode", "seen_ctime_ns"),
)


def record_one(box: CatalogBox) -> None:
    digests = Digests(digest("m"), digest("x"), digest("b", 32), digest("c", 8))
    box.record(b"d/a", make_reading("a", digests=digests, blocks=make_blocks("a", 2), size_bytes=2 * MIB))


def test_every_column_is_sealed() -> None:
    """A new column of `file` is not left out of the seals by oversight, nor a new table."""
    known = {*SEALED, *STATE, "block_size_bytes", "version", "id", "folder_id", "seal", "state_seal", "parity"}

    assert known == {column.name for column in file.columns}
    by_themselves = {"file", "folder", "block_run", "checkpoint_run"}
    assert {*metadata.tables} == by_themselves | {table.name for table in row_seals.SEALED}


NUMBERS = [name for name in STATE if name not in ("reason", "read_how")]


@pytest.mark.parametrize("column", [*SEALED, *NUMBERS, "block_size_bytes", "version", "seal", "state_seal"])
def test_every_flipped_bit_of_a_sealed_field_is_noticed(box: CatalogBox, column: str) -> None:
    """Each single bit, of numbers and of bytes, and a lost value, too."""
    record_one(box)
    with box.catalog.transaction() as c:
        c.execute(sa.update(file).values(verified_at=NOW, seen_inode=3, seen_ctime_ns=4))
    with closing(sqlite3.connect(box.path.decode(), isolation_level=None)) as db:
        leave_seals(db)
        db.execute("PRAGMA ignore_check_constraints = ON")
        original = db.execute(f"SELECT {column} FROM file").fetchone()[0]
        for bit in range(63 if isinstance(original, int) else len(original) * 8):
            if isinstance(original, int):
                damaged: int | bytes = original ^ 1 << bit
            else:
                damaged = (int.from_bytes(original, "big") ^ 1 << bit).to_bytes(len(original), "big")
            db.execute(f"UPDATE file SET {column} = ?", (damaged,))
            with box.catalog.read() as c:
                [found] = roots.find_records(c, box.sealer, box.root.id)
            assert not found.is_sealed, bit
        db.execute(f"UPDATE file SET {column} = ?", (original,))
    assert box.check_tally().is_right


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE folder SET path = x'65'",
        "UPDATE root SET token = randomblob(16)",
        "UPDATE file SET md5 = NULL",
        "UPDATE file SET blake3 = NULL",
        "UPDATE file SET crc64nvme = NULL",
        "UPDATE file SET block_size_bytes = NULL",
        "UPDATE file SET md5 = zeroblob(17)",
        "UPDATE file SET reason = 'recordee'",
        "UPDATE file SET read_how = 'x'",
    ],
)
def test_damage_around_the_row_is_noticed(box: CatalogBox, damage: str) -> None:
    """The path of the folder, the root's token and the words are looked at, too."""
    record_one(box)
    box.damage(damage)
    check = box.check_tally()

    assert len(check.broken) == check.broken_count == 1
    assert not check.is_right


@pytest.mark.parametrize("value", ["zeroblob(8)", "x''"])
def test_row_of_an_older_version_cannot_come_to_a_crc(box: CatalogBox, value: str) -> None:
    """None was taken, so one that stands there is damage; what stands for none is NULL alone."""
    digests = Digests(digest("m"), digest("x"))
    file_id = box.record(b"a", make_reading("a", digests=digests))
    assert box.get(file_id).digests == digests
    box.damage(f"UPDATE file SET crc64nvme = {value}")

    assert not box.get(file_id).is_sealed


def test_rows_that_changed_places_are_noticed(box: CatalogBox) -> None:
    """Two healthy rows under each other's names are both damaged."""
    ids = box.record_all({b"a": make_reading("a"), b"b": make_reading("b")})
    for name, file_id in ((b"x", ids[0]), (b"a", ids[1]), (b"b", ids[0])):
        box.damage("UPDATE file SET name = ? WHERE id = ?", name, file_id)

    assert box.check_tally().broken_count == 2


def test_lost_row_is_noticed(box: CatalogBox) -> None:
    """A row that is gone can't tell that it was damaged: the count does."""
    ids = box.record_all({b"a": make_reading("a"), b"b": make_reading("b")})
    box.damage("DELETE FROM file WHERE id = ?", ids[0])
    check = box.check_tally()

    assert (check.expected_rows, check.actual_rows, check.is_xor_right, check.broken) == (2, 1, False, ())
    assert not check.is_right
    with box.catalog.read() as c:
        assert roots.count_files(c, box.root.id) == 1
        assert roots.get_root(c, box.root.id).file_count == 2


def test_row_that_was_lost_while_another_came_is_noticed(box: CatalogBox) -> None:
    """Where the count is right by chance, the XOR of the seals is not."""
    ids = box.record_all({b"a": make_reading("a"), b"b": make_reading("b")})
    box.damage("UPDATE file SET name = x'63', seal = randomblob(16) WHERE id = ?", ids[0])
    check = box.check_tally()

    assert check.expected_rows == check.actual_rows
    assert not check.is_xor_right


def test_key_keeps_people_from_making_seals(tmp_path: Path) -> None:
    """Who can write the file but lacks the key can't make a row that is believed."""
    from integrity.catalog.seal import Sealer

    with CatalogBox(bytes(tmp_path / "catalog.db"), seal_key=b"secret") as box:
        file_id = box.record(b"a")
        record = box.get(file_id)
        assert record.is_sealed
        forged = Sealer().seal_file(
            box.root.token, b"a", record.witness, record.digests, record.block_size_bytes, record.version
        )
        box.damage("UPDATE file SET seal = ?", forged)
        assert not box.get(file_id).is_sealed


def test_no_single_flipped_bit_of_the_file_changes_what_is_believed(tmp_path: Path) -> None:
    """
    Wherever a bit of the SQLite file flips, a record is as it was, says that it is damaged, or is missed.

    Missed: the tally or SQLite says so. This is what makes rot of the catalog different from rot of a file.
    """
    path = bytes(tmp_path / "catalog.db")
    with CatalogBox(path) as box:
        box.record_all({b"d%d/%d" % (n % 3, n): make_reading(n, inode=n, blocks=make_blocks(n, 3)) for n in range(40)})
        with box.catalog.read() as c:
            original = {record.id: record for record in roots.find_records(c, box.sealer, box.root.id)}
    with open(path, "rb") as stored:
        content = stored.read()
    rng = random.Random(7)
    outcomes = {"unchanged": 0, "damaged row": 0, "lost": 0, "refused": 0}
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        outcomes[_believe(path, bytes(damaged), original)] += 1

    assert outcomes["damaged row"] + outcomes["lost"] + outcomes["refused"] > 0


def _believe(path: bytes, content: bytes, original: dict[files.FileId, rows.FileRecord]) -> str:
    for side_file in (path + b"-wal", path + b"-shm"):
        if os.path.exists(side_file):
            os.unlink(side_file)
    with open(path, "wb") as stored:
        stored.write(content)
    try:
        with Catalog.open(path, writes=False, quick_check=False) as catalog, catalog.read() as c:
            [root] = roots.find_roots(c)
            found = {record.id: record for record in roots.find_records(c, catalog.sealer, root.id)}
            check = roots.check_tally(c, catalog.sealer, root)
    except CatalogError:
        return "refused"
    for file_id, record in found.items():
        if record.is_sealed:
            before = original[file_id]
            sealed = (record.path, record.witness, record.digests, record.block_size_bytes, record.version)
            assert sealed == (before.path, before.witness, before.digests, before.block_size_bytes, before.version)
    if found.keys() != original.keys():
        assert not check.is_right
        return "lost"
    return "unchanged" if all(record.is_sealed for record in found.values()) else "damaged row"


@pytest.mark.parametrize(
    ("name", "written", "damaged"),
    [
        ("boot_sealed", "first_seen_at", "first_{een_at"),
        ("root_resealed", 'NEW."path"', 'NEW."patx"'),
        ("finding_unresolved", "CREATE UNIQUE INDEX", "CREATE INDEX"),
        ("file", "length(seal) = 16", "length(seal) > 16"),
    ],
)
def test_definition_that_is_not_as_it_was_written_is_noticed(
    box: CatalogBox, name: str, written: str, damaged: str
) -> None:
    """SQLite reads it without complaint; by it a row can't be written, or is sealed wrongly, or is there twice."""
    box.catalog.close()
    with closing(sqlite3.connect(box.path.decode(), isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        sql = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = ? AND instr(sql, ?)"
        assert 1 == db.execute(sql, (written, damaged, name, written)).rowcount

    assert verify_backup(box.path, Sealer()) is not None
    box.catalog = Catalog.open(box.path, writes=False)
    complaints = maintenance.check(box.catalog).complaints
    assert any(f" {name} is not as it was written" in complaint for complaint in complaints), complaints


def test_definition_that_is_no_text_any_more_is_damage(box: CatalogBox) -> None:
    """SQLite names the column that it does not find, and the driver can't read that."""
    box.catalog.close()
    with closing(sqlite3.connect(box.path.decode(), isolation_level=None)) as db:
        db.execute("PRAGMA writable_schema = ON")
        (sql,) = db.execute("SELECT CAST(sql AS BLOB) FROM sqlite_master WHERE name = 'root_resealed'").fetchone()
        damaged = sql.replace(b'NEW."path"', b'NEW."\xf0ath"')
        db.execute("UPDATE sqlite_master SET sql = CAST(? AS TEXT) WHERE name = 'root_resealed'", (damaged,))
    box.catalog = Catalog.open(box.path, writes=True)

    with pytest.raises(CatalogError, match="can't be read"), box.catalog.transaction() as c:
        c.execute(sa.update(root).values(path=b"/other"))


def test_index_that_is_not_as_its_rows_is_damage(box: CatalogBox) -> None:
    """What is counted is taken from indexes, and SQLite's quick check does not compare them with the rows."""
    record_one(box)
    with box.catalog.transaction() as c:
        new = findings.NewFinding(FindingKind.ROT, box.root.id, None, b"d/a", "rotten")
        findings.open_finding(c, new, now=NOW, run_id=None)
    flip_index_entry(box, "finding_unresolved", b"rot", b"sot")

    with pytest.raises(CatalogError, match="finding_unresolved"):
        Catalog.open(box.path, writes=True)
    with Catalog.open(box.path, writes=True, verify_rows=False) as catalog:
        maintenance.reseal(catalog, None, NOW)
    assert maintenance.check(box.reopen()).is_right


def flip_index_entry(box: CatalogBox, name: str, written: bytes, damaged: bytes) -> None:
    """Change bytes in the first page of an index."""
    box.catalog.close()
    with closing(sqlite3.connect(box.path.decode(), isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        (page_bytes,) = db.execute("PRAGMA page_size").fetchone()
    with open(box.path, "r+b") as stored:
        stored.seek((page - 1) * page_bytes)
        data = stored.read(page_bytes)
        assert written in data
        stored.seek((page - 1) * page_bytes)
        stored.write(data.replace(written, damaged))
