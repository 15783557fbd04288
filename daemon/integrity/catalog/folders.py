"""
Folders that hold files: their numbers, so that a file's row does not repeat its path.

Fingerprints of folders: one comparison says that all files of a folder are as they are recorded.

    I1  A folder has one only if a walk that met the recorded files of the folder, all of them and no other, as they are
        recorded, and none of them racy or frozen, would compute it. Triggers drop it when a row changes by which that
        may end: whoever writes rows need not know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from integrity.catalog.compiled_sql import CompiledInsert, CompiledStatement
from integrity.catalog.rows import chunked, in_list, padded
from integrity.catalog.schema import file, folder
from integrity.model import FileId, FolderId, RootId

_FIND_FOLDERS = CompiledStatement(
    sa.select(folder.c.id).where(folder.c.root_id == sa.bindparam("root"), folder.c.path == sa.bindparam("at")),
    "root",
    "at",
)
_NEW = insert(folder).values(root_id=sa.bindparam("root"), path=sa.bindparam("at"))
_ENSURE = CompiledInsert(
    # What is there already is returned only if it is "changed".
    _NEW.on_conflict_do_update(index_elements=["root_id", "path"], set_={"path": _NEW.excluded.path}).returning(
        folder.c.path, folder.c.id
    ),
    "root",
    "at",
)


def get_folder_id(c: sa.Connection, root_id: RootId, path: bytes) -> FolderId | None:
    """Get the number of a folder; None if it holds no recorded file."""
    row = _FIND_FOLDERS.run(c, root_id, path).fetchone()
    return None if row is None else row[0]


def ensure_folder(c: sa.Connection, root_id: RootId, path: bytes) -> FolderId:
    """Get the number of a folder, giving it one if it has none."""
    return ensure_folders(c, root_id, (path,))[path]


def ensure_folders(c: sa.Connection, root_id: RootId, paths: Iterable[bytes]) -> dict[bytes, FolderId]:
    """Get the numbers of folders by their paths, giving one to those that have none."""
    return dict(_ENSURE.run_returning(c, ((root_id, path) for path in paths)))


_DECIDING = ("folder_id", "name", "size_bytes", "mtime_ns", "ctime_ns", "inode", "is_racy", "is_frozen")

_IN_PATHS, _PATHS = in_list(folder.c.path)
_FIND_FINGERPRINTS = CompiledStatement(
    sa.select(folder.c.path, folder.c.id, folder.c.fingerprint).where(
        folder.c.root_id == sa.bindparam("root_id"), _IN_PATHS
    ),
    *("root_id", *_PATHS),
)
_SET = CompiledStatement(
    sa.update(folder).where(folder.c.id == sa.bindparam("at_id")).values(fingerprint=sa.bindparam("new")),
    "new",
    "at_id",
)
_FILES = CompiledStatement(sa.select(file.c.id).where(file.c.folder_id == sa.bindparam("folder_id")), "folder_id")


class Fingerprint(NamedTuple):
    """What is recorded of a folder."""

    folder: bytes  # its path
    id: FolderId
    fingerprint: bytes | None


def make_triggers() -> Iterator[str]:
    """Write the triggers that keep I1."""
    dropping = 'UPDATE "folder" SET "fingerprint" = NULL WHERE "id"'
    for name, event, row in (("added", "INSERT", "NEW"), ("removed", "DELETE", "OLD")):
        has_one = f'(SELECT "fingerprint" FROM "folder" WHERE "id" = {row}."folder_id") IS NOT NULL'  # noqa: S608 - ours
        body = f'{dropping} = {row}."folder_id"'
        yield f'CREATE TRIGGER "file_{name}" AFTER {event} ON "file" WHEN {has_one} BEGIN {body}; END'
    event = "UPDATE OF " + ", ".join(f'"{name}"' for name in _DECIDING)
    body = f'{dropping} IN (OLD."folder_id", NEW."folder_id") AND "fingerprint" IS NOT NULL'
    yield f'CREATE TRIGGER "file_changed" AFTER {event} ON "file" BEGIN {body}; END'


def find_fingerprints(c: sa.Connection, root_id: RootId, folder_paths: Sequence[bytes]) -> list[Fingerprint]:
    """Find those of the folders of which files are or were recorded."""
    rows: list[Fingerprint] = []
    for chunk in chunked(sorted(folder_paths)):
        rows += map(Fingerprint._make, _FIND_FINGERPRINTS.run(c, root_id, *padded(chunk)).fetchall())
    return rows


def set_fingerprints(c: sa.Connection, fingerprints: Iterable[tuple[bytes, FolderId]]) -> None:
    """Keep fingerprints; I1 is for the caller to see to, in the same transaction."""
    _SET.run_many(c, fingerprints)


def drop_fingerprints(c: sa.Connection, root_id: RootId) -> None:
    """Drop those of a root whose rows may have changed by themselves, which no trigger sees."""
    c.execute(sa.update(folder).where(folder.c.root_id == root_id).values(fingerprint=None))


def find_ids(c: sa.Connection, folder_ids: Iterable[FolderId]) -> Iterator[FileId]:
    """Give the numbers of all files that are recorded in some folders."""
    for folder_id in folder_ids:
        for (file_id,) in _FILES.run(c, folder_id):
            yield file_id
