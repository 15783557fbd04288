"""
Journal of repairs in progress, so that an interrupted repair can be undone or finished.

Each repair has one row in ``meta``, key ``repair/ROOT_ID/ID``, with the names that it is about to change. The row is
written before the first name is changed, and deleted in the transaction that records the result.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.root_meta import RootMeta
from integrity.catalog.roots import RootRecord
from integrity.files.excludes import is_kept_by_repair
from integrity.model import RootId

_JOURNAL = RootMeta("repair")


class JournalPlace(NamedTuple):
    """
    One name of a file that is being repaired; all three names are in one folder.

    Args:
        folder: relative to the root; empty for the root itself.
        made: name of the new file until it is complete.
        kept: name that the damaged file is kept under.
    """

    folder: bytes
    name: bytes
    made: bytes
    kept: bytes

    @property
    def path(self) -> bytes:
        """Return the path of the file, relative to the root."""
        return self.beside(self.name)

    def beside(self, name: bytes) -> bytes:
        """Return the path of another name in the folder, relative to the root."""
        return self.folder + b"/" + name if self.folder else name


@dataclass(frozen=True, slots=True)
class Repair:
    """
    A repair in progress.

    Args:
        id: random; part of the names.
        places: all names of the file.
        resolution: resolution of its findings when the repair is done.
        judged: size, mtime, and inode of the damaged file; None: the file was missing.
    """

    id: str
    places: tuple[JournalPlace, ...]
    resolution: str
    judged: tuple[int, int, int] | None


def save_repair(c: sa.Connection, root: RootRecord, repair: Repair) -> None:
    """Write a repair to the journal."""
    places = [[b64encode(part).decode() for part in place] for place in repair.places]
    value = {"places": places, "resolution": repair.resolution, "judged": repair.judged}
    _JOURNAL.save(c, root, repair.id, value)


def find_repairs(c: sa.Connection, root: RootRecord) -> list[Repair]:
    """Return the unfinished repairs of a root, without unreadable rows."""
    found = (_read(repair_id, value) for repair_id, value in _JOURNAL.find(c, root))
    return [repair for repair in found if repair is not None]


def drop_repair(c: sa.Connection, root_id: RootId, repair_id: str) -> None:
    """Delete a repair that was finished or undone."""
    _JOURNAL.drop(c, root_id, repair_id)


def _read(repair_id: str, value: dict[str, Any]) -> Repair | None:
    """Parse a row; None if it is damaged."""
    try:
        places = tuple(JournalPlace(*(b64decode(part, validate=True) for part in place)) for place in value["places"])
        judged = None if value["judged"] is None else tuple(int(number) for number in value["judged"])
        if not all(map(is_sound, places)) or (judged is not None and len(judged) != 3):
            return None
        return Repair(repair_id, places, str(value["resolution"]), judged)
    except (ValueError, KeyError, TypeError):
        return None


def is_sound(place: JournalPlace) -> bool:
    """Return whether the names are ones that a repair uses."""
    is_name = b"/" not in place.name and b"\0" not in place.name and place.name not in (b"", b".", b"..")
    return is_name and all(b"/" not in name and is_kept_by_repair(name) for name in (place.made, place.kept))
