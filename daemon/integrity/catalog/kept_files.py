"""
The damaged files that repairs left beside the repaired ones, so that they can be listed and removed.

Each has a row in ``meta``, key ``kept/ROOT_ID/ID``, written in the transaction that records the repair.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from integrity.catalog.repair_journal import JournalPlace, is_sound
from integrity.catalog.root_meta import RootMeta
from integrity.catalog.roots import RootRecord
from integrity.model import RootId

_KEPT = RootMeta("kept")


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
    place = [b64encode(part).decode() for part in kept.place]
    _KEPT.save(c, root, kept.id, {"place": place, "stamps": kept.stamps, "kept_at": kept.kept_at})


def find_kept(c: sa.Connection, root: RootRecord) -> list[KeptFile]:
    """Return the files that repairs in a root left, the oldest first, without unreadable rows."""
    found = (_read(kept_id, value) for kept_id, value in _KEPT.find(c, root))
    return sorted((kept for kept in found if kept is not None), key=lambda kept: (kept.kept_at, kept.path))


def drop_kept(c: sa.Connection, root_id: RootId, kept_id: str) -> None:
    """Delete the row of a file that is gone."""
    _KEPT.drop(c, root_id, kept_id)


def _read(kept_id: str, value: dict[str, Any]) -> KeptFile | None:
    """Parse a row; None if it is damaged."""
    try:
        place = JournalPlace(*(b64decode(part, validate=True) for part in value["place"]))
        size, mtime, inode = (int(number) for number in value["stamps"])
        return KeptFile(kept_id, place, (size, mtime, inode), int(value["kept_at"])) if is_sound(place) else None
    except (ValueError, KeyError, TypeError):
        return None
