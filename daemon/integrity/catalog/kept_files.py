"""
The damaged files that repairs left beside the repaired ones, so that they can be listed and removed.

Each has a row in ``meta``, key ``kept/ROOT_ID/ID``, written in the transaction that records the repair.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass

import sqlalchemy as sa

from integrity.catalog.repair_journal import JournalPlace, is_sound
from integrity.catalog.roots import RootRecord
from integrity.catalog.schema import meta
from integrity.model import RootId


@dataclass(frozen=True, slots=True)
class KeptFile:
    """
    A damaged file that a repair left.

    Args:
        id: of the repair.
        place: its name and that of the repaired file.
        stamps: its size, mtime, and inode when the repair was recorded.
        kept_at: when that was, seconds UTC.
    """

    id: str
    place: JournalPlace
    stamps: tuple[int, int, int]
    kept_at: int

    @property
    def path(self) -> bytes:
        """Return its path, relative to the root."""
        return self.place.beside(self.place.kept)


def save_kept(c: sa.Connection, root: RootRecord, kept: KeptFile) -> None:
    """Record a file that a repair left."""
    value = {
        "root": root.token.hex(),
        "place": [b64encode(part).decode() for part in kept.place],
        "stamps": kept.stamps,
        "kept_at": kept.kept_at,
    }
    c.execute(sa.insert(meta).values(key=_key(root.id, kept.id), value=json.dumps(value)))


def find_kept(c: sa.Connection, root: RootRecord) -> list[KeptFile]:
    """Return the files that repairs in a root left, the oldest first, without unreadable rows."""
    prefix = _key(root.id, "")
    between = sa.and_(meta.c.key > prefix, meta.c.key < prefix[:-1] + "0")  # "0" follows "/"
    rows = c.execute(sa.select(meta.c.key, meta.c.value).where(between)).all()
    found = (_read(root, row.key.removeprefix(prefix), row.value) for row in rows)
    return sorted((kept for kept in found if kept is not None), key=lambda kept: (kept.kept_at, kept.path))


def drop_kept(c: sa.Connection, root_id: RootId, kept_id: str) -> None:
    """Delete the row of a file that is gone."""
    c.execute(sa.delete(meta).where(meta.c.key == _key(root_id, kept_id)))


def _key(root_id: RootId, kept_id: str) -> str:
    return f"kept/{root_id}/{kept_id}"


def _read(root: RootRecord, kept_id: str, text: str) -> KeptFile | None:
    """Parse a row; None if it is damaged, or belongs to a former root with this id."""
    try:
        value = json.loads(text)
        place = JournalPlace(*(b64decode(part, validate=True) for part in value["place"]))
        size, mtime, inode = (int(number) for number in value["stamps"])
        if value["root"] != root.token.hex() or not is_sound(place):
            return None
        return KeptFile(kept_id, place, (size, mtime, inode), int(value["kept_at"]))
    except (ValueError, KeyError, TypeError):
        return None
