"""
Which manifest the files of an import were held against.

One row of ``meta`` for each import that recorded anything, instead of a column in each file's row: key
``import/ROOT_ID/FIRST_FILE_ID``, value the manifest's name. File ids rise and are never given twice (I3 of
``tables.py``), and a root is worked on by one job at a time, so a file that was imported belongs to the last import of
its root that began at or before its id.
"""

from __future__ import annotations

import sqlalchemy as sa

from integrity.catalog.schema import meta
from integrity.model import FileId, RootId


def keep_import(c: sa.Connection, root_id: RootId, first_id: FileId, manifest: str) -> None:
    """
    Write down where an import takes its digests from.

    Args:
        c: in the transaction that records the first file of the import.
        root_id: the root.
        first_id: the id of that file.
        manifest: its name, for people.
    """
    c.execute(sa.insert(meta).values(key=f"{_prefix(root_id)}{first_id}", value=manifest))


def find_import(c: sa.Connection, root_id: RootId, file_id: FileId) -> str | None:
    """Find the manifest that a file was imported with; None if that is not known. Asked of imported files only."""
    prefix = _prefix(root_id)
    found: tuple[int, str] | None = None
    for key, value in c.execute(sa.select(meta.c.key, meta.c.value).where(meta.c.key.startswith(prefix))):
        digits = key.removeprefix(prefix)
        if digits.isdigit() and int(digits) <= file_id and (found is None or int(digits) > found[0]):
            found = int(digits), value
    return None if found is None else found[1]


def drop_imports(c: sa.Connection, root_id: RootId) -> None:
    """Forget the imports of a root that is forgotten."""
    c.execute(sa.delete(meta).where(meta.c.key.startswith(_prefix(root_id))))


def _prefix(root_id: RootId) -> str:
    return f"import/{root_id}/"
