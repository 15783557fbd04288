"""What stands in the catalog's file: read, or changed, behind the program's back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing

from integrity.catalog.db import Connection, Value
from support import AnyPath
from support.cli import Box


def query(integrity: Box, sql: str, values: Sequence[Value] = ()) -> list[tuple[object, ...]]:
    """Ask the catalog's file directly."""
    with closing(Connection(bytes(integrity.catalog), "mode=ro")) as c:
        return list(c.rows(sql, *values))


def rewrite(integrity: Box, sql: str, values: Sequence[Value] = ()) -> int:
    """Change the catalog's file behind the program's back; say how many rows."""
    with closing(Connection(bytes(integrity.catalog))) as c:
        return c.run(sql, *values)


def count_rows(integrity: Box) -> int:
    """Count the recorded files."""
    return int(str(query(integrity, "SELECT count(*) FROM file")[0][0]))


def is_recorded(integrity: Box, name: AnyPath) -> bool:
    """Return whether a file of this name is recorded."""
    return bool(query(integrity, "SELECT 1 FROM file WHERE name = ?", (os.fsencode(name),)))


def is_verified(integrity: Box, name: AnyPath) -> bool:
    """Return whether a file of this name was read again after it was recorded."""
    return bool(query(integrity, "SELECT 1 FROM file WHERE name = ? AND verified_at IS NOT NULL", (os.fsencode(name),)))


def baselines(catalog: AnyPath) -> dict[bytes, tuple[object, ...]]:
    """Return what is recorded of each file, by its path, without the times at which it was recorded or verified."""
    with closing(Connection(os.fsencode(catalog), "mode=ro")) as c:
        rows = list(
            c.rows(
                "SELECT root.path, folder.path, name, size_bytes, mtime_ns, ctime_ns, inode, md5, xxh3_128, blake3,"
                " block_size_bytes, version, reason, is_frozen, verified_at IS NULL, crc64nvme, file.id"
                " FROM file JOIN folder ON folder.id = folder_id JOIN root ON root.id = root_id"
            )
        )
        runs = list(
            c.rows(
                "SELECT file_id, version, run, block_count, md5, xxh3_128, crc64nvme FROM block_run ORDER BY 1, 2, 3"
            )
        )
    blocks: dict[object, list[tuple[object, ...]]] = {}
    for file_id, *run in runs:
        blocks.setdefault(file_id, []).append(tuple(run))
    return {b"/".join(filter(None, row[:3])): (*row[3:-1], tuple(blocks.get(row[-1], ()))) for row in rows}
