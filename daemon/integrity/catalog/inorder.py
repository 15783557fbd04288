"""Go through the files of a root in the order of their folders' paths and their names, a page at a time."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from integrity.catalog.rows import FILE_JOIN, RECORD_COLUMNS, FileRecord, below, require_rising, split_path, to_record
from integrity.catalog.schema import file, folder
from integrity.catalog.seal import Sealer
from integrity.model import RootId

Position = tuple[bytes, bytes]
"""A folder's path and a file's name in it."""

_COLUMNS_OF_POSITION = slice(4, 6)


def page_in_order(
    c: sa.Connection,
    sealer: Sealer,
    root_id: RootId,
    *,
    prefix: bytes = b"",
    after: Position | None = None,
    limit: int = 2000,
) -> tuple[list[FileRecord], Position | None]:
    """
    List files in the order of folder and name.

    The files of one folder stand together, and folders in the order of their bytes, which the indexes give for nothing.

    Args:
        c: a connection; for one moment's state through all pages the caller holds a snapshot.
        sealer: checks the rows.
        root_id: the root.
        prefix: only those below this folder, or this one file; empty for all.
        after: what the page before returned.
        limit: how many.

    Returns:
        The page, and where it ends; None when there is no more.

    Raises:
        CatalogCorrupt: the rows are out of order.
    """
    rows: list[Any] = []
    if after is None:
        folder_path, name = split_path(prefix)
        if prefix:
            rows += _run(c, root_id, folder.c.path == folder_path, file.c.name == name, limit=limit)
        if not rows:  # a name is a folder's or a file's
            rows += _run(c, root_id, *_within(prefix), limit=limit)
    else:
        rows += _run(c, root_id, folder.c.path == after[0], file.c.name > after[1], *_within(prefix), limit=limit)
        if len(rows) < limit:
            rows += _run(c, root_id, folder.c.path > after[0], *_within(prefix), limit=limit - len(rows))
    positions = [tuple(row[_COLUMNS_OF_POSITION]) for row in rows]
    require_rising(positions, after)
    return [to_record(sealer, row) for row in rows], (positions[-1] if positions else None)


def _run(c: sa.Connection, root_id: RootId, *conditions: sa.ColumnElement[bool], limit: int) -> list[Any]:
    query = sa.select(*RECORD_COLUMNS).select_from(FILE_JOIN).where(folder.c.root_id == root_id, *conditions)
    return list(c.execute(query.order_by(folder.c.path, file.c.name).limit(limit)))


def _within(prefix: bytes) -> tuple[sa.ColumnElement[bool], ...]:
    """Match the folders in and below ``prefix``: one range of the index, out of which its neighbours are taken."""
    if not prefix:
        return ()
    return folder.c.path >= prefix, folder.c.path < prefix + b"0", below(folder.c.path, prefix)
