"""What a catalog states, without what two equal runs may differ in: numbers of rows and runs, and the time of day."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

from support.cli import Completed

Facts = dict[str, dict[object, object]]
"""Rows by table and by what names them."""

_FILES = (
    "SELECT file.id, root.path, CASE folder.path WHEN x'' THEN name ELSE CAST(folder.path || x'2f' || name AS BLOB) END"
    " FROM file JOIN folder ON folder.id = folder_id JOIN root ON root.id = root_id"
)
_WITHOUT = re.compile(
    r"\w+\.(id|\w+_id|opened_by|token|parity|fingerprint|\w*seal\w*|updated_at|saved_at)|candidate\.read_how"
)
_KEYS = {
    "file": ("name",),
    "block_run": ("version", "run"),
    "former": ("path", "number", "replaced_because", "replaced_at"),
    "finding": ("path", "kind", "copy"),
    "candidate": (),
    "checkpoint": ("path", "purpose"),
    "root": ("path",),
    "copy": ("name", "prefix"),
    "copy_file": (),
    "copy_reading": (),
    "gate": ("prefix",),
}
_PARTS = {"former": "version WHERE state = 'former'", "candidate": "version WHERE state <> 'former'"}
_BY_PATH = {("former", "file_id")}
"""Named by its own path, for the file may be forgotten already."""
_TIME = re.compile(r"\b20\d\d-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?Z?)?")
_NOISE = re.compile(
    r"(last_\w+|_s|_at|_ids?|run|runs|pid|forecast|oldest|next|last|bytes_read|read_bytes_per_s|size_bytes|ctime_ns|inode)$"
)


def read_facts(catalog: Path, start: int) -> Facts:
    """
    Read a copy of a catalog, so that nothing about the catalog itself changes.

    Args:
        catalog: need not be there.
        start: seconds; what was noted since says "new" instead of when.
    """
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("", "-wal"):
            if Path(f"{catalog}{suffix}").exists():
                shutil.copy(f"{catalog}{suffix}", Path(folder) / f"catalog{suffix}")
        with closing(sqlite3.connect(Path(folder) / "catalog")) as db:
            db.row_factory = sqlite3.Row
            return _read(db, start)


def _read(db: sqlite3.Connection, start: int) -> Facts:
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "file" not in tables:
        return {table: {} for table in _KEYS}
    names: dict[str, dict[int, object]] = {
        "file_id": {number: (root, path) for number, root, path in db.execute(_FILES)},
        "root_id": dict(db.execute("SELECT id, path FROM root").fetchall()),
        "folder_id": {
            number: (root, path) for number, root, path in db.execute("SELECT id, root_id, path FROM folder")
        },
        "copy_id": dict(db.execute("SELECT id, name FROM copy").fetchall()) if "copy" in tables else {},
    }
    found: Facts = {}
    for table, keys in _KEYS.items():
        rows: dict[object, list[object]] = {}
        source = _PARTS.get(table, table)
        for row in db.execute(f"SELECT * FROM {source}") if source.split()[0] in tables else ():
            values = {name: _tame(name, value, start) for name, value in dict(row).items()}
            named = [column for column in names if column in values and (table, column) not in _BY_PATH]
            key = tuple(
                [names[column][row[column]] for column in named if row[column] in names[column]]
                + [values.get(column) for column in keys]
                + ([row["id"]] if table == "finding" and row["opened_at"] < start else [])
            )
            rest = tuple((name, value) for name, value in values.items() if not _WITHOUT.fullmatch(f"{table}.{name}"))
            rows.setdefault(key, []).append(rest)
        found[table] = {key: tuple(sorted(values, key=repr)) for key, values in rows.items()}
    return found


def _tame(column: str, value: object, start: int) -> object:
    if column.endswith("_at") and isinstance(value, int) and value >= start:
        return "new"
    if column == "ctime_ns" and isinstance(value, int) and value >= start * 10**9:
        return "new"
    if isinstance(value, bytes) and len(value) > 64:
        return hashlib.md5(value).hexdigest()
    return tame_text(value) if isinstance(value, str) else value


def tame_json(objects: Iterable[object]) -> str:
    """Return what a command said, without times and numbers of runs, in lines that can be compared."""
    return "\n".join(sorted(json.dumps(_tame_value(value), sort_keys=True) for value in objects))


def _tame_value(value: object) -> object:
    if isinstance(value, dict):
        return {key: _tame_value(each) for key, each in value.items() if not _NOISE.search(key) and key != "id"}
    if isinstance(value, list):
        return [_tame_value(each) for each in value]
    if isinstance(value, str):
        return tame_text(value)
    return value


def tame_text(text: str) -> str:
    """Return a text without times, ages, and what is random in the names of files."""
    text = re.sub(r"\d+(\.\d+)? (s|ms|seconds?|minutes?)\b", "AGE", _TIME.sub("TIME", text))
    return re.sub(r"\.integrity-[0-9a-f]{16}", ".integrity-RANDOM", text)


def tame_run(done: Completed) -> tuple[int, str]:
    """Return how a command ended, and what it said."""
    return done.code, tame_json(done.objects)


def show_difference(ends: Sequence[Facts], actual: Facts) -> str:
    """Name the rows that are as in none of several ends; a command that ran one and a half times left some of each."""
    lines = []
    for table, rows in actual.items():
        for key in sorted(rows.keys() | ends[0][table].keys(), key=repr):
            value, right = rows.get(key), [end[table].get(key) for end in ends]
            if value not in right:
                lines.append(f"{table} {key}: expected {_minus(right[0], value)}; is {_minus(value, right[0])}")
    return "\n".join(lines[:4])[:1500]


def _minus(one: object, other: object) -> object:
    """Leave out what both rows have, if each is one row."""
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other) == 1:
        return [pair for pair in one[0] if pair not in other[0]]
    return one
