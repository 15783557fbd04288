"""What a disk does to a catalog's file: an error, or what was written, and nothing else (I1 of ``db``)."""

from __future__ import annotations

import os
import random
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

from integrity.arbitration import CopyVote
from integrity.catalog import baselines, connection, copies, files, findings, versions
from integrity.catalog.baselines import Verified
from integrity.catalog.connection import Catalog
from integrity.catalog.copies import CopyState
from integrity.catalog.copying import read_schema
from integrity.catalog.db import Connection
from integrity.catalog.findings import NewFinding
from integrity.catalog.maintenance import back_up, check
from integrity.catalog.rebuild import salvage, tidy
from integrity.catalog.rows import join_path
from integrity.errors import CatalogCorrupt, CatalogError
from integrity.model import BaselineReason, CopyId, FileId, FindingKind, ReadHow, RootId
from support.catalogs import MIB, NOW, CatalogBox, make_blocks, make_reading
from support.generated import read_tables

PAGE_BYTES = 4096
PATHS = [b"d%d/%d" % (number % 9, number) for number in range(120)]
PLACES = """
    SELECT root.path, folder.path, file.name FROM file JOIN folder ON folder.id = folder_id
    JOIN root ON root.id = root_id"""
Row = tuple[object, ...]
Answers = dict[str, list[Row]]


def fill(box: CatalogBox) -> None:
    """Write rows into the tables that people are told from, and into those behind them."""
    readings = [
        make_reading(number, inode=number, blocks=make_blocks(number, 4), size_bytes=4 * MIB) for number in range(120)
    ]
    ids = box.record_all(dict(zip(PATHS, readings, strict=True)))
    with box.catalog.transaction() as c:
        versions.keep(c, [box.get(one) for one in ids[:60]], because=BaselineReason.EDITED, now=NOW)
        copy = copies.ensure_copy(c, box.root.id, b"", "nightly", "/mnt/backup", None, now=NOW)
        copies.save_states(c, copy.id, [CopyState(one, 1, CopyVote.SAME, NOW, NOW) for one in ids])
        for file_id, path in zip(ids[:50], PATHS, strict=False):
            findings.open_finding(
                c, NewFinding(FindingKind.ROT, box.root.id, file_id, path, "rot"), now=NOW, run_id=None
            )


@pytest.fixture
def path(box: CatalogBox) -> bytes:
    """Give a catalog that nobody has open, and whose log is in its file."""
    fill(box)
    box.catalog.close()
    return box.path


def read(path: bytes) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write(path: bytes, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def flip(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def ask(path: bytes, *, writes: bool = False) -> Answers | None:
    """Return all that a catalog says, by tables and by indexes; None if it says that it is damaged."""
    try:
        with Catalog.open(path, writes=writes) as catalog, catalog.read() as c:
            tables = c.column("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            said: Answers = {name: list(c.rows(f"SELECT * FROM {name}")) for name in tables}
            said["by path"] = [(files.find_file(c, RootId(1), one),) for one in PATHS]
            said["by inode"] = [(files.find_by_inode(c, RootId(1), number),) for number in range(120)]
            return said
    except CatalogError:
        return None


def is_right(path: bytes) -> bool:
    try:
        with Catalog.open(path, writes=False) as catalog:
            return check(catalog).is_right
    except CatalogError:
        return False


def test_flipped_bit_is_an_error_on_each_page(path: bytes) -> None:
    """Wherever it flips: who reads that page is told, who reads others gets what was written; a check finds it."""
    content, chance = read(path), random.Random(7)
    right = ask(path)
    assert right is not None
    assert is_right(path)
    refused = 0
    for page in range(len(content) // PAGE_BYTES):
        place = page * PAGE_BYTES + chance.choice([chance.randrange(PAGE_BYTES), PAGE_BYTES - 1 - chance.randrange(8)])
        write(path, flip(content, place, chance.randrange(8)))
        said = ask(path)
        assert said in (None, right), page
        assert not is_right(path), page
        refused += said is None
    assert refused > 40


@pytest.mark.parametrize("writes", [False, True])
def test_each_flipped_bit_of_the_header_is_an_error(path: bytes, *, writes: bool) -> None:
    """Also of fields that SQLite reads before it reads a page; and who may write does not make it worse."""
    content, right = read(path), ask(path)
    for place in range(100):
        for bit in range(8):
            write(path, flip(content, place, bit))
            said = ask(path, writes=writes)
            assert said is None, (place, bit)
            assert flip(read(path), place, bit) == content, (place, bit)
    write(path, content)
    assert ask(path) == right


def commit(box: CatalogBox) -> list[Answers | None]:
    """Verify files in several transactions; return what the catalog said after each of them."""
    said = [ask(box.path)]
    for number in range(1, 7):
        with box.catalog.transaction() as c:
            rows = [Verified(files.get_file(c, FileId(one)), None, ReadHow.DIRECT) for one in range(number, 120, 6)]
            baselines.mark_verified(c, rows, now=NOW + number, boot_id=None)
        said.append(ask(box.path))
    return said


def test_flipped_bit_of_a_log_in_use_stays_there(box: CatalogBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who opens the catalog is told, who carries the log over does not; what the file gets was committed once."""
    fill(box)
    box.reopen()
    states = commit(box)
    content, log, chance = read(box.path), read(box.path + b"-wal"), random.Random(3)
    for number in range(150):
        damaged = flip(log, chance.randrange(len(log)), chance.randrange(8))
        with open(box.path + b"-wal", "r+b") as file:  # the same file: others have it open
            file.write(damaged)
        assert ask(box.path, writes=number % 2 > 0) is None
    with pytest.raises(CatalogCorrupt, match="log"):
        back_up(box.catalog, b"", keep=1, now=NOW)
    monkeypatch.setattr(connection, "LIMIT_BYTES", 0)
    with pytest.raises(CatalogCorrupt, match="log"), box.catalog.transaction() as c:
        c.run("INSERT INTO meta (key, value) VALUES ('a', 'b')")
    assert read(box.path) == content
    box.catalog.close()
    assert read(box.path) == content
    assert ask(box.path, writes=True) in states


def test_flipped_bit_of_a_log_that_was_left_loses_commits_only(box: CatalogBox, tmp_path: Path) -> None:
    """After a kill the catalog is as it was after some commit; where others came after that, it is told."""
    fill(box)
    box.reopen()
    states = commit(box)
    content, log, chance = read(box.path), read(box.path + b"-wal"), random.Random(3)
    left = bytes(tmp_path / "left.db")
    met = set()
    for _ in range(60):
        write(left, content)
        write(left + b"-wal", flip(log, chance.randrange(len(log)), chance.randrange(8)))
        assert ask(left) in states
        with Catalog.open(left, writes=True) as catalog:
            warnings = catalog.warnings
        met.add(states.index(ask(left)))
        assert warnings or ask(left) in states[-2:]
        for suffix in (b"", b"-wal", b"-shm"):
            if os.path.exists(left + suffix):
                os.unlink(left + suffix)
    assert met == {*range(len(states) - 1)}


CHANGES = {
    "file": "UPDATE file SET verified_at = 9 WHERE id = 5",
    "version": "UPDATE version SET replaced_at = 9 WHERE id = 5",
    "finding": "UPDATE finding SET state = 'acknowledged' WHERE id = 5",
    "copy_file": "UPDATE copy_file SET compared_at = 9 WHERE file_id = 5",
}


@pytest.mark.parametrize("table", [*CHANGES, "tally"])
def test_lost_write_is_noticed(box: CatalogBox, path: bytes, table: str) -> None:
    """What the disk never wrote is as it was before, with right checksums; only the tally contradicts it."""
    before, changed = read(path), "file" if table == "tally" else table
    with Catalog.open(path, writes=True) as catalog, catalog.transaction() as c:
        c.run(CHANGES[changed])
        pages = c.column("SELECT pageno FROM dbstat WHERE name = ?", table)
    after = read(path)
    lost = bytearray(after)
    for start in ((page - 1) * PAGE_BYTES for page in pages):
        lost[start : start + PAGE_BYTES] = before[start : start + PAGE_BYTES]
    assert is_right(path)
    assert len(lost) == len(after)
    assert lost != after
    write(path, bytes(lost))

    box.catalog = Catalog.open(path, writes=True)
    complaint = f"the table {changed} is not as it was last written: the disk has lost a write"
    assert check(box.catalog, deep=False).complaints == (complaint,)
    with pytest.raises(CatalogCorrupt, match=complaint):
        back_up(box.catalog, b"", keep=1, now=NOW)


def test_row_that_is_replaced_is_counted_once(box: CatalogBox) -> None:
    """No trigger is told of a row that REPLACE deletes, unless SQLite is asked to."""
    fill(box)
    with box.catalog.transaction() as c:
        copies.save_states(c, CopyId(1), [CopyState(FileId(5), 1, CopyVote.SAME, NOW + 5, NOW)])

    assert check(box.catalog).is_right


def find_keys(c: Connection) -> dict[str, str]:
    query = "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk"
    return {table: ", ".join(c.column(query, table)) for table in read_tables() if table != "tally"}


def read_rows(c: Connection) -> set[Row]:
    """Return all rows, without what is counted anew, or follows from rows that may be lost."""
    rows: set[Row] = set()
    for table, columns in read_tables().items():
        names = [one.name for one in columns if one.name not in ("file_count", "is_frozen", "boot_id", "sum", "rows")]
        rows |= {(table, *row) for row in c.rows(f"SELECT {', '.join(names)} FROM {table}")}
    return {row for row in rows if "next_file_id" not in row}


def salvage_by_hand(path: bytes, whole: bytes) -> set[Row]:
    """Look up each row that there was by its key, and remove what refers to those that can't be read."""
    with (
        closing(Connection(whole, "mode=ro")) as c,
        closing(Connection(path, "mode=ro")) as damaged,
        closing(Connection(b"")) as new,
    ):
        new.driver.execute(read_schema())
        new.run("PRAGMA foreign_keys = OFF")
        for table, key in find_keys(c).items():
            for values in list(c.rows(f"SELECT {key} FROM {table}")):
                with suppress(apsw.Error):
                    is_it = f"({key}) = ({', '.join('?' * len(values))})"
                    for row in damaged.rows(f"SELECT * FROM {table} WHERE {is_it}", *values):
                        new.run(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", *row)
        tidy(new)
        return read_rows(new)


@pytest.mark.parametrize("of_checksums", [False, True])
def test_salvage_keeps_all_that_stands_on_right_pages(path: bytes, tmp_path: Path, *, of_checksums: bool) -> None:
    """Wherever bits flip: what is kept is what was written, and right; what is lost is named, if it can be read."""
    content, chance, left = read(path), random.Random(5), bytes(tmp_path / "left.db")
    with closing(Connection(path, "mode=ro")) as c:
        in_use = c.column("SELECT pageno - 1 FROM dbstat WHERE name IN ('block_run', 'copy_file', 'file', 'folder')")
        others = c.column("SELECT pageno - 1 FROM dbstat WHERE name != 'sqlite_schema'")
        whole = read_rows(c)
    met = set()
    for _ in range(20):
        damaged = content
        for page in chance.choices(in_use, k=chance.choice([1, 2, 4])) + chance.choices(
            others, k=chance.choice([0, 3])
        ):
            place = chance.randrange(PAGE_BYTES - 8 if of_checksums else 0, PAGE_BYTES)
            damaged = flip(damaged, page * PAGE_BYTES + place, chance.randrange(8))
        write(left, damaged)
        right = salvage_by_hand(left, path)
        done = salvage(left)
        with Catalog.open(left, writes=False) as catalog, catalog.read() as c:
            assert right <= read_rows(c)  # a row of an inner page can be met while its look-up fails below it
            assert read_rows(c) <= whole
            assert check(catalog).is_right
            kept = {(root, join_path(*place)) for root, *place in c.rows(PLACES)}
        lost = {(b"/srv/photos", one) for one in PATHS} - kept
        assert not of_checksums or lost == {*done.files}
        assert len(done.files) == len({*done.files})
        met.add(len(lost))
        os.unlink(done.former)
    assert len(met) > 5


def test_salvage_of_what_it_can_not_read_does_nothing(path: bytes) -> None:
    """Without the definitions of tables no row can be read."""
    damaged = flip(read(path), PAGE_BYTES - 3, 3)
    write(path, damaged)
    with pytest.raises(CatalogError, match="schema can't be read"):
        salvage(path)
    assert read(path) == damaged
