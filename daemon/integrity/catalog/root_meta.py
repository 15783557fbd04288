"""
Rows of ``meta`` that belong to a root: JSON objects with the key ``NAME/ROOT_ID/ID``, and the sources of its imports.

Each import that recorded files has one row, instead of a column for each file: key ``import/ROOT_ID/FIRST_FILE_ID``,
value the manifest's name. File ids rise and are never reused (I2 of ``schema.sql``), and one job at a time works on a
root. So an imported file belongs to the last import of its root that began at or before its id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from integrity.catalog.db import Connection
from integrity.catalog.roots import RootRecord
from integrity.model import FileId, RootId


class RootMeta:
    """The objects of one kind, whose name is the first part of their keys."""

    def __init__(self, name: str) -> None:
        self._name = name

    def save(self, c: Connection, root: RootRecord, row_id: str, value: Mapping[str, object]) -> None:
        """Store an object, in place of the former one if there is one."""
        key = f"{self._name}/{root.id}/{row_id}"
        c.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, json.dumps(value))

    def find(self, c: Connection, root: RootRecord) -> list[tuple[str, dict[str, Any]]]:
        """Return id and object of each row of a root, in the order of the ids."""
        prefix = f"{self._name}/{root.id}"
        rows = c.rows("SELECT key, value FROM meta WHERE key > ? AND key < ? ORDER BY key", f"{prefix}/", f"{prefix}0")
        return [(key[len(prefix) + 1 :], json.loads(value)) for key, value in rows]  # "0" follows "/"

    def drop(self, c: Connection, root_id: RootId, row_id: str) -> None:
        """Delete an object."""
        c.run("DELETE FROM meta WHERE key = ?", f"{self._name}/{root_id}/{row_id}")


def keep_import(c: Connection, root_id: RootId, first_id: FileId, manifest: str) -> None:
    """Record the name of an imported manifest, in the transaction that records its first file, ``first_id``."""
    c.run("INSERT INTO meta (key, value) VALUES (?, ?)", f"import/{root_id}/{first_id}", manifest)


def find_import(c: Connection, root_id: RootId, file_id: FileId) -> str | None:
    """Return the manifest that an imported file came from; None if unknown. Call it for imported files only."""
    query = """
        SELECT value FROM meta WHERE key > ?1 AND key < ?2 AND CAST(substr(key, length(?1) + 1) AS INTEGER) <= ?3
        ORDER BY CAST(substr(key, length(?1) + 1) AS INTEGER) DESC LIMIT 1"""
    return c.value(query, f"import/{root_id}/", f"import/{root_id}0", file_id)  # "0" follows "/"
