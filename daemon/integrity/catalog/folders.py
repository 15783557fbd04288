"""Folders that hold files: their numbers, so that a file's row does not repeat its path."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from integrity.catalog.compiled_sql import Hot, HotInsert
from integrity.catalog.schema import folder
from integrity.model import FolderId, RootId

_FIND = Hot(
    sa.select(folder.c.id).where(folder.c.root_id == sa.bindparam("root"), folder.c.path == sa.bindparam("at")),
    "root",
    "at",
)
_NEW = insert(folder).values(root_id=sa.bindparam("root"), path=sa.bindparam("at"))
_ENSURE = HotInsert(
    # What is there already is returned only if it is "changed".
    _NEW.on_conflict_do_update(index_elements=["root_id", "path"], set_={"path": _NEW.excluded.path}).returning(
        folder.c.path, folder.c.id
    ),
    "root",
    "at",
)


def get_folder_id(c: sa.Connection, root_id: RootId, path: bytes) -> FolderId | None:
    """Get the number of a folder; None if it holds no recorded file."""
    row = _FIND.run(c, root_id, path).fetchone()
    return None if row is None else row[0]


def ensure_folder(c: sa.Connection, root_id: RootId, path: bytes) -> FolderId:
    """Get the number of a folder, giving it one if it has none."""
    return ensure_folders(c, root_id, (path,))[path]


def ensure_folders(c: sa.Connection, root_id: RootId, paths: Iterable[bytes]) -> dict[bytes, FolderId]:
    """Get the numbers of folders by their paths, giving one to those that have none."""
    return dict(_ENSURE.run_returning(c, ((root_id, path) for path in paths)))
