"""
Folders that hold recorded files: their ids, so that a file's row does not repeat its path, and their fingerprints.

A fingerprint covers all recorded files of a folder: if it matches, every file of the folder is as recorded.

I1  A folder has a fingerprint only if a walk would compute the same one when it finds exactly the recorded files, all
    as recorded and none racy or frozen. Triggers drop it when a row changes in a way that may break this, so code that
    writes rows need not know about fingerprints.
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
    # RETURNING yields an existing row only if it is updated.
    _NEW.on_conflict_do_update(index_elements=["root_id", "path"], set_={"path": _NEW.excluded.path}).returning(
        folder.c.path, folder.c.id
    ),
    "root",
    "at",
)


def get_folder_id(c: sa.Connection, root_id: RootId, path: bytes) -> FolderId | None:
    """Return the id of a folder; None if no file in it was ever recorded."""
    row = _FIND_FOLDERS.run(c, root_id, path).fetchone()
    return None if row is None else row[0]


def ensure_folder(c: sa.Connection, root_id: RootId, path: bytes) -> FolderId:
    """Return the id of a folder, creating its row if needed."""
    return ensure_folders(c, root_id, (path,))[path]


def ensure_folders(c: sa.Connection, root_id: RootId, paths: Iterable[bytes]) -> dict[bytes, FolderId]:
    """Return the ids of folders by path, creating missing rows."""
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
    """The fingerprint that is recorded for a folder."""

    folder: bytes  # its path
    id: FolderId
    fingerprint: bytes | None


def make_triggers() -> Iterator[str]:
    """Yield the statements that create the triggers for I1."""
    dropping = 'UPDATE "folder" SET "fingerprint" = NULL WHERE "id"'
    for name, event, row in (("added", "INSERT", "NEW"), ("removed", "DELETE", "OLD")):
        has_one = f'(SELECT "fingerprint" FROM "folder" WHERE "id" = {row}."folder_id") IS NOT NULL'  # noqa: S608 - ours
        body = f'{dropping} = {row}."folder_id"'
        yield f'CREATE TRIGGER "file_{name}" AFTER {event} ON "file" WHEN {has_one} BEGIN {body}; END'
    event = "UPDATE OF " + ", ".join(f'"{name}"' for name in _DECIDING)
    body = f'{dropping} IN (OLD."folder_id", NEW."folder_id") AND "fingerprint" IS NOT NULL'
    yield f'CREATE TRIGGER "file_changed" AFTER {event} ON "file" BEGIN {body}; END'


def find_fingerprints(c: sa.Connection, root_id: RootId, folder_paths: Sequence[bytes]) -> list[Fingerprint]:
    """Return the fingerprints of those folders that have a row."""
    rows: list[Fingerprint] = []
    for chunk in chunked(sorted(folder_paths)):
        rows += map(Fingerprint._make, _FIND_FINGERPRINTS.run(c, root_id, *padded(chunk)).fetchall())
    return rows


def set_fingerprints(c: sa.Connection, fingerprints: Iterable[tuple[bytes, FolderId]]) -> None:
    """Store fingerprints. The caller ensures I1 in the same transaction."""
    _SET.run_many(c, fingerprints)


def drop_fingerprints(c: sa.Connection, root_id: RootId) -> None:
    """Drop the fingerprints of a root whose rows may be damaged, a change that no trigger sees."""
    c.execute(sa.update(folder).where(folder.c.root_id == root_id).values(fingerprint=None))


def find_paths(c: sa.Connection, root_id: RootId) -> list[bytes]:
    """Return the paths of all folders of a root in which a file was recorded."""
    return list(c.execute(sa.select(folder.c.path).where(folder.c.root_id == root_id)).scalars())


def find_ids(c: sa.Connection, folder_ids: Iterable[FolderId]) -> Iterator[FileId]:
    """Yield the ids of all files that are recorded in these folders."""
    for folder_id in folder_ids:
        for (file_id,) in _FILES.run(c, folder_id):
            yield file_id
