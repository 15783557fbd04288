"""Folders that hold files: their numbers, so that a file's row does not repeat its path."""

from __future__ import annotations

import sqlalchemy as sa

from integrity.catalog.hot import Hot
from integrity.catalog.tables import folder
from integrity.model import FolderId, RootId

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
