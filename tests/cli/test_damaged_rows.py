"""A damaged row of the catalog is announced by each command that may be wrong for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import Box
from support.flips import damage_rows
from support.service import Service
from support.shapes import put


@pytest.fixture
def root(integrity: Box, tmp_path: Path) -> Path:
    """Give a scanned root with three files, one of which has a history."""
    root = tmp_path / "data"
    for name in ("d/a", "d/b", "c"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        put(root / name, name.encode() * 100)
    integrity.run("scan", root, expect=0)
    put(root / "c", b"edited since")
    integrity.run("scan", root, expect=0)
    return root


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("UPDATE file SET size_bytes = size_bytes + 64 WHERE name = x'61'", "file"),
        ("UPDATE file SET verified_at = 5 WHERE name = x'61'", "file"),
        ("UPDATE file SET read_how = 'direcu' WHERE name = x'61'", "file"),
        ("UPDATE folder SET root_id = root_id + 64 WHERE path = x'64'", "folder"),
        ("UPDATE run SET error = 'it failed' WHERE id = 1", "run"),
        ("UPDATE run SET started_at = started_at + 549755813888, finished_at = 1 << 60", "run"),
    ],
)
def test_status_says_that_its_sums_may_be_wrong(integrity: Box, root: Path, sql: str, table: str) -> None:
    """It exits 4, though nothing is wrong with the files; a monitoring plug-in learns that nothing is known."""
    damage_rows(integrity.catalog, sql)
    done = integrity.run("status", expect=4)
    assert "the catalog is damaged" in done.stderr
    assert f"of {table} is not as it was written; run: integrity catalog check" in done.stderr
    integrity.run("catalog", "check", expect=4)

    assert integrity.run("status", "--nagios", expect=3).stdout.startswith("INTEGRITY UNKNOWN: the catalog is damaged")


@pytest.mark.parametrize(
    ("path", "sql"),
    [
        ("d/a", "UPDATE file SET name = x'69' WHERE name = x'61'"),
        ("d/a", "UPDATE folder SET path = x'66' WHERE path = x'64'"),
        ("d/a", "UPDATE folder SET root_id = root_id + 64 WHERE path = x'64'"),
        ("d/a", "UPDATE file SET folder_id = folder_id + 64 WHERE name = x'61'"),
        ("gone", "UPDATE history SET path = x'66'"),
    ],
)
def test_what_is_not_found_for_a_damaged_name_is_not_said_to_be_unknown(
    integrity: Box, root: Path, path: str, sql: str
) -> None:
    """To be unknown is exit 2, and nothing a user would look into."""
    damage_rows(integrity.catalog, sql)

    done = integrity.run("explain", root / path, expect=4)
    assert "is not recorded" not in done.stderr
    assert "integrity catalog check" in done.stderr


def test_explain_says_which_of_what_it_shows_is_damaged(integrity: Box, root: Path) -> None:
    """Here a former baseline: the record itself is in order."""
    damage_rows(integrity.catalog, "UPDATE history SET md5 = zeroblob(16)")

    assert "row 1 of history is not as it was written" in integrity.run("explain", root / "c", expect=4).stderr
    assert "row 1 of history" not in integrity.run("explain", root / "d/a", expect=0).stderr


def test_scan_goes_on_and_does_not_end_well(integrity: Box, root: Path) -> None:
    """The files are looked at all the same."""
    put(root / "new", b"new")
    damage_rows(integrity.catalog, "UPDATE run SET id = 77 WHERE id = 1")

    done = integrity.run("scan", root, expect=4)
    assert "1 new" in done.stdout
    assert "row 77 of run" in done.stderr
    integrity.run("catalog", "reseal", "--yes", expect=0)
    integrity.run("scan", root, expect=0)


def test_service_tells_of_it_and_works_on(integrity: Box, root: Path) -> None:
    """One damaged row is no reason to put the catalog aside, and none to keep silent."""
    damage_rows(integrity.catalog, "UPDATE run SET bytes_read = 5 WHERE id = 1")
    integrity.configure(f'[[root]]\npath = "{root}"\n')
    with Service(integrity) as service:
        service.stop()

    (found,) = integrity.run("--json", "findings", expect=1).findings
    assert "catalog_damaged" == found["kind"]
    assert "row 1 of run is not as it was written" in str(found["message"])
