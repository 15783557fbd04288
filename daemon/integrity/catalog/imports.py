"""
Sources of imported records.

Each import that recorded files has one row in ``meta``, instead of a column for each file: key
``import/ROOT_ID/FIRST_FILE_ID``, value the manifest's name. File ids rise and are never reused (I2 of ``schema.sql``),
and one job at a time works on a root. So an imported file belongs to the last import of its root that began at or
before its id.
"""

from __future__ import annotations

from integrity.catalog.db import Connection
from integrity.model import FileId, RootId


def keep_import(c: Connection, root_id: RootId, first_id: FileId, manifest: str) -> None:
    """Record the name of an imported manifest, in the transaction that records its first file, ``first_id``."""
    c.run("INSERT INTO meta (key, value) VALUES (?, ?)", f"import/{root_id}/{first_id}", manifest)


def find_import(c: Connection, root_id: RootId, file_id: FileId) -> str | None:
    """Return the manifest that an imported file came from; None if unknown. Call it for imported files only."""
    query = """
        SELECT value FROM meta WHERE key > ?1 AND key < ?2 AND CAST(substr(key, length(?1) + 1) AS INTEGER) <= ?3
        ORDER BY CAST(substr(key, length(?1) + 1) AS INTEGER) DESC LIMIT 1"""
    return c.value(query, f"import/{root_id}/", f"import/{root_id}0", file_id)  # "0" follows "/"
