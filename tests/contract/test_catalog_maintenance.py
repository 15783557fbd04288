"""Looking the catalog through, sealing it anew, and its size."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.catalog import baselines, blocks, candidates, findings
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.catalog.maintenance import DamagedRun, check, reseal, stats
from integrity.errors import CatalogError, CatalogLocked
from integrity.model import FindingKind
from support.catalogs import MIB, NOW, CatalogBox, make_blocks, make_reading
from support.statements import traced


def fill(box: CatalogBox) -> None:
    box.record_all({b"d/%d" % number: make_reading(number) for number in range(5)})
    box.record(b"large", make_reading("large", blocks=make_blocks("large", 1500), size_bytes=1500 * MIB))


def test_healthy_catalog_is_right(box: CatalogBox) -> None:
    """Nothing is said of a catalog that has nothing."""
    fill(box)
    report = check(box.catalog)

    assert report.is_right
    assert [(path, tally.actual_rows) for path, tally in report.tallies] == [(b"/srv/photos", 6)]
    assert check(box.catalog, deep=False).is_right


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE file SET md5 = randomblob(16) WHERE id = 2",
        "DELETE FROM file WHERE id = 2",
        "UPDATE root SET file_count = 7",
        "UPDATE root SET seal_xor = randomblob(16)",
        "UPDATE file SET crc64nvme = NULL WHERE id = 2",
        "UPDATE block_run SET md5 = randomblob(length(md5)) WHERE run = 1",
        "UPDATE block_run SET crc64nvme = x'' WHERE run = 1",
        "DELETE FROM block_run WHERE run = 1",
        "UPDATE file SET boot_id = 99 WHERE id = 2",
        "DELETE FROM folder WHERE path = x'64'",
    ],
)
def test_each_damage_is_found(box: CatalogBox, damage: str) -> None:
    """Seals, lost rows, tallies, block digests and keys are all looked at."""
    fill(box)
    box.damage(damage)

    assert not check(box.catalog).is_right


def test_damaged_file_is_reported_not_raised(box: CatalogBox) -> None:
    """A check of a catalog with a damaged page says what SQLite says."""
    for number in range(300):
        box.record(b"%d" % number)
    box.catalog.close()
    with open(box.path, "r+b") as stored:
        stored.seek(os.path.getsize(box.path) // 2)
        stored.write(os.urandom(3000))
    with Catalog.open(box.path, writes=False, quick_check=False) as catalog:
        report = check(catalog, deep=False)

    assert report.complaints
    assert not report.is_right


def test_damaged_runs_are_named(box: CatalogBox) -> None:
    """A person learns which file's blocks can't be relied on."""
    fill(box)
    box.damage("UPDATE block_run SET md5 = randomblob(length(md5)) WHERE run = 1")
    report = check(box.catalog)

    assert report.damaged_runs == (DamagedRun(6, 1, 1),)  # type: ignore[arg-type]


def test_orphaned_runs_are_counted(box: CatalogBox) -> None:
    """Blocks that belong to nothing take room and do no harm."""
    fill(box)
    box.damage("UPDATE block_run SET file_id = 999 WHERE run = 1")
    report = check(box.catalog)

    assert (report.orphan_runs, report.incomplete_files) == (1, (6,))


def test_resealing_believes_what_is_there(box: CatalogBox) -> None:
    """After a person has looked the rows are right as they are, and the findings about them are over."""
    fill(box)
    box.damage("UPDATE file SET mtime_ns = 5 WHERE id = 2")
    box.damage("DELETE FROM file WHERE id = 3")
    box.damage("UPDATE block_run SET md5 = randomblob(length(md5)) WHERE run = 1")
    with box.catalog.transaction() as c:
        new = NewFinding(FindingKind.CATALOG_DAMAGED, box.root.id, None, b"d/1", "message")
        findings.open_finding(c, new, now=NOW, run_id=None)
    counts = reseal(box.catalog, box.root, NOW)

    assert (counts.files, counts.resealed, counts.unsealable, counts.runs, counts.findings) == (5, 1, (), 1, 1)
    assert check(box.catalog).is_right


def test_row_that_cannot_be_sealed_is_named(box: CatalogBox) -> None:
    """A row whose fields are not even of their types is no baseline, whatever a person says."""
    fill(box)
    box.damage("UPDATE file SET reason = 'x' WHERE id = 2")
    counts = reseal(box.catalog, None, NOW)

    assert counts.unsealable == (b"d/1",)
    assert not check(box.catalog).is_right


def test_resealing_changes_the_key(tmp_path: Path) -> None:
    """Rows, blocks and candidates are sealed with the new key, all at once."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as box:
        fill(box)
        large = box.find(b"large")
        assert large is not None
        with box.catalog.transaction() as c:
            reading = make_reading("new", blocks=make_blocks("new", 3), size_bytes=3 * MIB)
            candidates.stage_change(c, large, reading, "changed", box.run_id, "held")
    with Catalog.open(box.path, writes=True, seal_key=b"new", any_key=True) as catalog:
        with pytest.raises(CatalogError, match="one root"):
            reseal(catalog, box.root, NOW)
        counts = reseal(catalog, None, NOW)
    assert (counts.files, counts.resealed, counts.runs) == (6, 6, 3)
    with pytest.raises(CatalogError, match="another key"):
        Catalog.open(box.path, writes=True)
    with Catalog.open(box.path, writes=True, seal_key=b"new") as catalog:
        assert check(catalog).is_right
        with catalog.read() as c:
            found = candidates.get_candidate(c, large.id)
            assert found is not None
            assert found.is_sealed
            assert blocks.load_blocks(c, catalog.sealer, large.id, 0, MIB) == reading.blocks


def test_size_is_told_by_table(box: CatalogBox) -> None:
    """Who wonders what takes the room can see it."""
    fill(box)
    found = stats(box.catalog)
    tables = {table.name: table for table in found.tables}

    assert (tables["file"].rows, tables["block_run"].rows, tables["root"].rows) == (6, 2, 1)
    assert found.file_bytes == os.path.getsize(box.path)
    assert found.log_bytes == os.path.getsize(box.path + b"-wal")
    assert found.revision.isdigit()
    assert len(found.uuid) == 36
    block_bytes = tables["block_run"].bytes
    assert block_bytes is None or block_bytes > 1500 * 32


def test_others_write_while_rows_are_sealed_anew(tmp_path: Path) -> None:
    """Whenever no page is being written somebody records a file: their rows are in the tally, and none is damaged."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as box:
        fill(box)
        box.record_all({b"many/%03d" % number: make_reading(number) for number in range(250)})
        met: list[bytes] = []
        with Catalog.open(box.path, writes=True) as other:
            box.damage("UPDATE file SET mtime_ns = 5")
            box.damage("DELETE FROM file WHERE id = 3")
            box.damage("UPDATE root SET seal_xor = randomblob(16)")

            def record_another(statement: str) -> None:
                if statement == "BEGIN IMMEDIATE":
                    met.append(b"new/%d" % len(met))
                    row = baselines.NewFile(met[-1], make_reading(met[-1]))
                    with other.transaction() as c:
                        baselines.record_files(c, other.sealer, box.root, [row], now=NOW, boot_id=None)

            with traced(box.catalog, record_another):
                counts = reseal(box.catalog, None, NOW)

        assert counts.resealed == 255
        assert len(met) > 3
        assert check(box.catalog).is_right


def test_key_is_not_changed_while_others_have_the_catalog_open(tmp_path: Path) -> None:
    """They would go on sealing with the former key, and each of their rows would be damaged."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as box:
        fill(box)
        with (
            Catalog.open(box.path, writes=True, seal_key=b"new", any_key=True) as catalog,
            pytest.raises(CatalogLocked, match="is in use"),
        ):
            reseal(catalog, None, NOW)
        assert check(box.catalog).is_right
