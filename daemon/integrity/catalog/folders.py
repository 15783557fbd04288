"""Folders that hold files: their numbers, so that a file's row does not repeat its path."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from integrity.catalog.hot import Hot
from integrity.catalog.rows import below, require_rising
from integrity.catalog.tables import file, folder
from integrity.model import FolderId, RootId

_PAGE = 2000

_FIND = Hot(
    sa.select(folder.c.id).where(folder.c.root_id == sa.bindparam("root"), folder.c.path == sa.bindparam("at")),
    "root",
    "at",
)
_ADD = Hot(sa.insert(folder).values(root_id=sa.bindparam("root"), path=sa.bindparam("at")), "root", "at")


def get_folder_id(c: sa.Connection, root_id: RootId, path: bytes) -> FolderId | None:
    """Get the number of a folder; None if it holds no recorded file."""
    row = _FIND.run(c, root_id, path).fetchone()
    return None if row is None else row[0]


def ensure_folder(c: sa.Connection, root_id: RootId, path: bytes) -> FolderId:
    """Get the number of a folder, giving it one if it has none."""
    found = get_folder_id(c, root_id, path)
    if found is not None:
        return found
    added = _ADD.run(c, root_id, path).lastrowid
    assert added is not None
    return FolderId(added)


def find_folders_below(c: sa.Connection, root_id: RootId, prefix: bytes) -> Iterator[tuple[FolderId, bytes]]:
    """
    Go through the folders at and below ``prefix`` (empty: all), in the order of their paths.

    Read a page at a time: a million folders take no memory, and rows may be written between two of them.
    """
    query = sa.select(folder.c.id, folder.c.path).where(folder.c.root_id == root_id, below(folder.c.path, prefix))
    query = query.order_by(folder.c.path).limit(_PAGE)
    page = c.execute(query).all()
    while page:
        require_rising(row.path for row in page)
        yield from ((FolderId(row.id), row.path) for row in page)
        page = c.execute(query.where(folder.c.path > page[-1].path)).all()


def remove_empty_folders(c: sa.Connection, root_id: RootId) -> int:
    """
    Remove the rows of a root's folders that hold no file any more, and say how many.

    At the end of a run only: while it works it may hold the number of an empty folder that it is about to fill.
    """
    holds_files = sa.exists().where(file.c.folder_id == folder.c.id)
    return c.execute(sa.delete(folder).where(folder.c.root_id == root_id, ~holds_files)).rowcount
