"""
The damaged files that repairs left beside the repaired ones, so that they can be listed and removed.

Each has a row in ``meta``, key ``kept/ROOT_ID/ID``, written in the transaction that records the repair.
"""

from __future__ import annotations

from dataclasses import dataclass

from integrity.catalog.db import Connection
from integrity.catalog.repair_journal import JournalPlace, decode_place, encode_place, is_sound
from integrity.catalog.root_meta import RootMeta
from integrity.catalog.roots import RootRecord
from integrity.model import RootId

_KEPT = RootMeta("kept")


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A damaged file that a repair left."""

    id: str  # of the repair
    place: JournalPlace  # its name and that of the repaired file
    stamps: tuple[int, int, int]  # its size, mtime, and inode when the repair was recorded
    kept_at: int  # when that was, seconds UTC

    @property
    def path(self) -> bytes:
        """Return its path, relative to the root."""
        return self.place.beside(self.place.kept)


def save_kept(c: Connection, root: RootRecord, kept: KeptFile) -> None:
    """Record a file that a repair left."""
    place = encode_place(kept.place)
    _KEPT.save(c, root, kept.id, {"place": place, "stamps": kept.stamps, "kept_at": kept.kept_at})


def find_kept(c: Connection, root: RootRecord) -> list[KeptFile]:
    """Return the files that repairs in a root left, the oldest first."""
    found = (
        KeptFile(kept_id, decode_place(value["place"]), tuple(value["stamps"]), value["kept_at"])
        for kept_id, value in _KEPT.find(c, root)
    )
    return sorted((one for one in found if is_sound(one.place)), key=lambda kept: (kept.kept_at, kept.path))


def drop_kept(c: Connection, root_id: RootId, kept_id: str) -> None:
    """Delete the row of a file that is gone."""
    _KEPT.drop(c, root_id, kept_id)
