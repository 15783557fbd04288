"""
Fill an empty catalog of schema 0012 from a catalog of any schema before it (0001 to 0011: versions 0.1 to 1.0).

Up to 0011 no page had a checksum; rows had seals instead: 16 bytes of BLAKE3 over their values. Each is compared once
more here, and a row whose seal is wrong is left behind: the file is recorded anew by the next scan. Sealed messages
(integers little-endian; a block size of -1 and digests of length 0 mean "none"):

    file        01, with a crc64nvme 04: token of the root 16 | witness 33 | block size 8 | version 8
                | lengths: path 4, md5 1, xxh3 1, blake3 1 | these in order | crc64nvme, if there is one
    block_run   02: file id 8 | version 8 | run 8 | block count 8 | lengths: md5 4, xxh3 4 | these in order | crc64nvme
    others      05: literal of a Python tuple: name of the table, then the values of the row, text as bytes; since 0005

Seals with a key are not compared: who has the key may compare them with the older version. Partial readings of large
files (``checkpoint``, ``copy_reading``) are left behind: they are read from their start again.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

from blake3 import blake3

if TYPE_CHECKING:
    from integrity.catalog.db import Connection

_SEAL_BYTES = 16
_FIRST_WITH_ROW_SEALS = 5
_FILE = struct.Struct("<B16sqqqqBqqIBBB")
_RUN = struct.Struct("<BqqqqII")

_LEFT_BEHIND = frozenset({"checkpoint", "checkpoint_run", "copy_reading", "alembic_version"})
_NEVER_SEALED = frozenset({"folder", "file", "block_run"})
"""By the seal of a whole row: files cover their folders."""

_UNKNOWN_THEN = {
    ("run", "last_file_id"): "iif(finished_at IS NULL, NULL, (SELECT coalesce(max(id), 0) FROM old.file))",
    ("boot", "fs_id"): "''",
    ("boot", "mount"): "''",
    ("copy_file", "found_version"): "iif(vote = 'same', version, NULL)",
    ("copy_file", "found_at"): "iif(vote = 'same', compared_at, NULL)",
}
"""Columns that an older schema may not have, with what was true then."""

_MERGED = {"version": ("history", "candidate")}
_PATH = "iif(folder.path = x'', name, CAST(folder.path || x'2f' || name AS BLOB))"
_OF_FILE = "(SELECT {} FROM old.file JOIN old.folder ON folder.id = folder_id WHERE file.id = file_id)"
_NOW = {
    ("gate", "last_version_id"): "last_history_id",
    ("history", "file_id"): "coalesce(file_id, -id)",
    ("history", "number"): "version",
    ("history", "state"): "'former'",
    ("candidate", "root_id"): _OF_FILE.format("root_id"),
    ("candidate", "path"): _OF_FILE.format(_PATH),
    ("candidate", "number"): _OF_FILE.format("file.version + 1"),
    ("candidate", "recorded_at"): "seen_at",
    ("candidate", "reason"): "because",
    ("candidate", "verdict"): "CASE kind WHEN 'removal' THEN 'gone' WHEN 'times' THEN 'intact' ELSE verdict END",
    # Those of the candidate were numbered 0.
    ("block_run", "version"): f"coalesce(nullif(version, 0), {_OF_FILE.format('file.version + 1')}, 0)",
}
"""Columns that have another name or meaning since."""

_FILE_SEAL = """file_seal(
    root.token, {path}, size_bytes, mtime_ns, ctime_ns, inode, is_racy, block_size_bytes, version,
    md5, xxh3_128, blake3, {crc64nvme})"""


def fill(c: Connection, revision: int) -> Counter[str]:
    """
    Copy all rows of the database that is attached as ``old``; return how many were left behind as damaged, by table.

    Args:
        c: to the new catalog, empty, in a transaction, with foreign keys off.
        revision: of the old one.
    """
    c.driver.create_scalar_function("file_seal", _seal_file, deterministic=True)
    c.driver.create_scalar_function("run_seal", _seal_run, deterministic=True)
    c.driver.create_scalar_function("row_seal", _seal_row, deterministic=True)
    is_keyed = c.value("SELECT value FROM old.meta WHERE key = 'seal_check'") != _seal(_parts(b"key")).hex()
    tables = "SELECT name FROM {}.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    old = {name: _get_columns(c, "old", name) for name in c.column(tables.format("old"))}
    damaged: Counter[str] = Counter()
    # report_state last: its triggers would queue all findings for the hub again
    for table in sorted(c.column(tables.format("main")), key="report_state".__eq__):
        for source in _MERGED.get(table, (table,)):
            if source not in old or source in _LEFT_BEHIND:
                continue
            values = {
                name: _NOW.get((source, name), name if name in old[source] else _UNKNOWN_THEN.get((source, name), ""))
                for name in _get_columns(c, "main", table)
            }
            names = [name for name, value in values.items() if value]
            query, is_right = _select(source, old, names, [values[name] for name in names])
            if is_keyed or (revision < _FIRST_WITH_ROW_SEALS and source not in _NEVER_SEALED):
                is_right = "1"
            if source == "candidate":
                is_right += " AND file_id IN (SELECT id FROM main.file)"
            copied = c.run(f"INSERT INTO main.{table} ({', '.join(names)}) {query} WHERE {is_right}")
            damaged[source] += c.value(f"SELECT count(*) FROM old.{source}") - copied
    _carry_counters(c)
    return +damaged


def _select(table: str, old: dict[str, dict[str, str]], names: list[str], values: list[str]) -> tuple[str, str]:
    """Return the query of a table's rows, and the condition that their seal is right."""
    crc64nvme = "crc64nvme" in old[table]
    if table == "file":
        columns = [f"file.{value}" if value == name else value for name, value in zip(names, values, strict=True)]
        joined = "old.file JOIN old.folder ON folder.id = folder_id JOIN old.root ON root.id = root_id"
        sealed = _FILE_SEAL.format(path=_PATH, crc64nvme="crc64nvme" if crc64nvme else "NULL")
        return f"SELECT {', '.join(columns)} FROM {joined}", f"file.seal IS {sealed}"
    query = f"SELECT {', '.join(values)} FROM old.{table}"
    if table == "block_run":
        crcs = "crc64nvme" if crc64nvme else "x''"
        return query, f"seal IS run_seal(file_id, version, run, block_count, md5, xxh3_128, {crcs})"
    if "seal" not in old[table]:
        return query, "1"
    sealed = ", ".join(
        f'CAST("{name}" AS BLOB)' if kind == "TEXT" else f'"{name}"'
        for name, kind in old[table].items()
        if name != "seal"
    )
    return query, f"seal IS row_seal('{table}', {sealed})"


def _carry_counters(c: Connection) -> None:
    """Take over what stands in no table of both, and leave out what belonged to former roots of the same number."""
    query = """
        DELETE FROM meta WHERE json_valid(value) AND json_type(value, '$.root') = 'text'
        AND json_extract(value, '$.root') NOT IN (SELECT lower(hex(token)) FROM old.root)"""
    c.run(query)
    query = """
        INSERT OR REPLACE INTO meta (key, value)
        SELECT key, value FROM old.meta WHERE key IN ('uuid', 'created_at', 'next_file_id', 'seal_check')"""
    c.run(query)
    c.run("DELETE FROM sqlite_sequence WHERE name = 'finding'")
    c.run("INSERT INTO sqlite_sequence (name, seq) SELECT name, seq FROM old.sqlite_sequence WHERE name = 'finding'")
    query = """
        UPDATE finding SET state = 'resolved', resolved_at = updated_at, resolution = 'the catalog was made anew'
        WHERE kind = 'catalog_damaged' AND state != 'resolved'"""
    c.run(query)


def _get_columns(c: Connection, place: str, table: str) -> dict[str, str]:
    """Return the names and types of a table's columns, in order, without those that are computed."""
    return dict(c.rows("SELECT name, type FROM pragma_table_xinfo(?, ?) WHERE hidden = 0", table, place))


def _seal(message: bytes) -> bytes:
    return blake3(message).digest(_SEAL_BYTES)


def _parts(label: bytes) -> bytes:
    return b"\x03" + len(label).to_bytes(4, "little") + label


def _seal_file(token: bytes, path: bytes, *rest: Any) -> bytes | None:
    *witness, block_size, version, md5, xxh3_128, blake3_, crc64nvme = rest
    digests = md5 or b"", xxh3_128 or b"", blake3_ or b""
    try:
        head = _FILE.pack(
            *(1 if crc64nvme is None else 4, token, *witness, -1 if block_size is None else block_size, version),
            *(len(path), *map(len, digests)),
        )
    except struct.error:
        return None
    return _seal(head + path + b"".join(digests) + (crc64nvme or b""))


def _seal_run(file_id: int, version: int, run: int, count: int, md5: bytes, xxh3_128: bytes, crc64nvme: bytes) -> bytes:
    head = _RUN.pack(2, file_id, version, run, count, len(md5), len(xxh3_128))
    return _seal(head + md5 + xxh3_128 + crc64nvme)


def _seal_row(table: str, *values: Any) -> bytes:
    return _seal(b"\x05" + repr((table, *values)).encode())
