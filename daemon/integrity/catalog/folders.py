"""
Folders that hold recorded files: their ids, so that a file's row does not repeat its path, and their fingerprints.

A fingerprint covers all recorded files of a folder: if it matches, every file of the folder is as recorded.

I1  A folder has a fingerprint only if a walk would compute the same one when it finds exactly the recorded files, all
    as recorded and none racy or frozen. Triggers drop it when a row changes in a way that may break this, so code that
    writes rows need not know about fingerprints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from integrity.catalog.db import Connection, names, numbers
from integrity.catalog.rows import below
from integrity.model import FileId, FolderId, RootId


class Fingerprint(NamedTuple):
    """The fingerprint that is recorded for a folder."""

    folder: bytes  # its path
    id: FolderId
    fingerprint: bytes | None


def get_folder_id(c: Connection, root_id: RootId, path: bytes) -> FolderId | None:
    """Return the id of a folder; None if no file in it was ever recorded."""
    return c.value("SELECT id FROM folder WHERE root_id = ? AND path = ?", root_id, path)


def has_folder(c: Connection, root_id: RootId, path: bytes) -> bool:
    """Return whether files were ever recorded in a folder, or in one below it."""
    is_below, bounds = below("path", path)
    return bool(c.value(f"SELECT EXISTS (SELECT 1 FROM folder WHERE root_id = ? AND {is_below})", root_id, *bounds))


def ensure_folder(c: Connection, root_id: RootId, path: bytes) -> FolderId:
    """Return the id of a folder, creating its row if needed."""
    return ensure_folders(c, root_id, (path,))[path]


def ensure_folders(c: Connection, root_id: RootId, paths: Iterable[bytes]) -> dict[bytes, FolderId]:
    """Return the ids of folders by path, creating missing rows."""
    # RETURNING yields an existing row only if it is updated.
    query = """
        INSERT INTO folder (root_id, path) SELECT ?, unhex(value) FROM json_each(?) WHERE 1
        ON CONFLICT (root_id, path) DO UPDATE SET path = excluded.path RETURNING path, id"""
    return dict(c.rows(query, root_id, names(paths)))


def find_fingerprints(c: Connection, root_id: RootId, folder_paths: Sequence[bytes]) -> list[Fingerprint]:
    """Return the fingerprints of those folders that have a row."""
    query = """
        SELECT path, id, fingerprint FROM folder
        WHERE root_id = ? AND path IN (SELECT unhex(value) FROM json_each(?))"""
    return c.all(Fingerprint, query, root_id, names(folder_paths))


def set_fingerprints(c: Connection, fingerprints: Iterable[tuple[FolderId, bytes, int]]) -> None:
    """
    Store fingerprints of folders, each with the number of files that it covers; a folder with more files gets none.

    The caller ensures the rest of I1 in the same transaction.
    """
    query = """
        UPDATE folder SET fingerprint = ?2
        WHERE id = ?1 AND (SELECT count(*) FROM (SELECT 1 FROM file WHERE folder_id = ?1 LIMIT ?3 + 1)) = ?3"""
    c.run_many(query, fingerprints)


def find_paths(c: Connection, root_id: RootId) -> list[bytes]:
    """Return the paths of all folders of a root in which a file was recorded."""
    return c.column("SELECT path FROM folder WHERE root_id = ?", root_id)


def find_ids(c: Connection, folder_ids: Iterable[FolderId]) -> list[FileId]:
    """Return the ids of all files that are recorded in these folders."""
    return c.column("SELECT id FROM file WHERE folder_id IN (SELECT value FROM json_each(?))", numbers(folder_ids))
