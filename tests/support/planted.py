"""What a run said of the files, in a form that tests can compare; and what stands in the catalog, behind its back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from support import AnyPath
from support.cli import Box, Completed, JsonObject
from support.waiting import wait_until

_GRANULE_S = 2.1
_TALLIES = ("verified", "new", "changed", "damaged", "missing", "unreadable", "unstable", "skipped", "not_due")


def plant(folder: Path, count: int, *, size_bytes: int = 0) -> Path:
    """Make ``count`` files in seven folders, each with a content of its own, and return the folder."""
    for number in range(count):
        path = plant_path(folder, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = b"content %d\n" % number
        path.write_bytes((text * (size_bytes // len(text) + 1))[: size_bytes or None])
    return folder


def plant_path(folder: Path, number: int) -> Path:
    """Name a file of ``plant``."""
    return folder / f"d{number % 7}" / f"{number}.txt"


def tallies(result: Completed, *, with_skipped: bool = False) -> dict[str, int]:
    """
    Return the tallies that are not zero; they must add up to the known names.

    Args:
        result: of a scan or scrub with ``--json``.
        with_skipped: count skipped names, too; without, what every new disk has (lost+found) is no matter.
    """
    found = {name: get_number(result.summary, f"files_{name}") for name in _TALLIES}
    assert result.summary["files_known"] == sum(found.values())
    if not with_skipped:
        found["skipped"] = 0
    return {name: value for name, value in found.items() if value}


def age(*paths: Path) -> None:
    """
    Wait until the times of files lie outside of the coarsest granule (2 s), so that nothing about them is racy (R1).

    ctime can't be set; where a test is about something else, racy files would be read twice.
    """
    youngest = max(path.stat().st_ctime for path in paths)
    wait_until(lambda: time.time() - youngest > _GRANULE_S, "times that are not racy", every_s=0.05)


def tally_all(result: Completed) -> dict[str, int]:
    """Return the tallies that are not zero, the skipped names among them."""
    return tallies(result, with_skipped=True)


def get_number(fields: JsonObject, name: str) -> int:
    """Get a number out of a JSON object."""
    value = fields[name]
    assert isinstance(value, int), (name, value)
    return value


def kinds(result: Completed) -> list[object]:
    """Return the kinds of the findings that a run met."""
    return [finding["kind"] for finding in result.findings]


def messages(result: Completed) -> str:
    """Return what a run's findings say."""
    return "\n".join(str(finding["message"]) for finding in result.findings)


def query(integrity: Box, sql: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
    """Ask the catalog's file directly."""
    with closing(sqlite3.connect(integrity.catalog)) as db:
        return db.execute(sql, values).fetchall()


def tamper(integrity: Box, sql: str, values: Sequence[object] = ()) -> int:
    """Change the catalog's file behind the program's back; say how many rows."""
    with closing(sqlite3.connect(integrity.catalog)) as db, db:
        return db.execute(sql, values).rowcount


def count_rows(integrity: Box) -> int:
    """Count the recorded files."""
    return int(str(query(integrity, "SELECT count(*) FROM file")[0][0]))


def baselines(catalog: AnyPath) -> dict[bytes, tuple[object, ...]]:
    """Return what is recorded of each file, by its path, without the times at which it was recorded or verified."""
    with closing(sqlite3.connect(catalog)) as db:
        rows = db.execute(
            "SELECT root.path, folder.path, name, size_bytes, mtime_ns, ctime_ns, inode, md5, xxh3_128, blake3,"
            " block_size_bytes, version, reason, is_frozen, verified_at IS NULL, file.id"
            " FROM file JOIN folder ON folder.id = folder_id JOIN root ON root.id = root_id"
        ).fetchall()
        runs = db.execute("SELECT file_id, version, run, block_count, md5, xxh3_128 FROM block_run").fetchall()
    blocks: dict[object, list[tuple[object, ...]]] = {}
    for file_id, *run in sorted(runs):
        blocks.setdefault(file_id, []).append(tuple(run))
    return {b"/".join(filter(None, row[:3])): (*row[3:-1], tuple(blocks.get(row[-1], ()))) for row in rows}
