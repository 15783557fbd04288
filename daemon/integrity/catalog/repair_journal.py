"""
Journal of repairs in progress, so that an interrupted repair can be undone or finished, and of what repairs left.

Each repair has one row in ``meta``, key ``repair/ROOT_ID/ID``, with the names that it is about to change. The row is
written before the first name is changed, and deleted in the transaction that records the result. That writes a row
``kept/ROOT_ID/ID`` for each damaged file that is left beside the repaired one, so that it can be listed and removed.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import NamedTuple

from integrity.catalog.db import Connection
from integrity.catalog.root_meta import RootMeta
from integrity.catalog.roots import RootRecord
from integrity.files.excludes import is_kept_by_repair
from integrity.model import RootId

_JOURNAL = RootMeta("repair")
_KEPT = RootMeta("kept")


class JournalPlace(NamedTuple):
    """One name of a file that is being repaired; all three names are in one folder."""

    folder: bytes  # relative to the root; empty for the root itself
    name: bytes
    made: bytes  # name of the new file until it is complete
    kept: bytes  # name that the damaged file is kept under

    @property
    def path(self) -> bytes:
        """Return the path of the file, relative to the root."""
        return self.beside(self.name)

    def beside(self, name: bytes) -> bytes:
        """Return the path of another name in the folder, relative to the root."""
        return self.folder + b"/" + name if self.folder else name


class Repair(NamedTuple):
    """A repair in progress."""

    id: str  # random; part of the names
    places: tuple[JournalPlace, ...]  # all names of the file
    resolution: str  # of its findings when the repair is done
    judged: tuple[int, int, int] | None  # size, mtime, and inode of the damaged file; None: the file was missing


def save_repair(c: Connection, root: RootRecord, repair: Repair) -> None:
    """Write a repair to the journal."""
    places = [_encode_place(place) for place in repair.places]
    _JOURNAL.save(c, root, repair.id, {"places": places, "resolution": repair.resolution, "judged": repair.judged})


def find_repairs(c: Connection, root: RootRecord) -> list[Repair]:
    """Return the unfinished repairs of a root."""
    found = (
        Repair(
            *(repair_id, tuple(map(_decode_place, value["places"])), value["resolution"]),
            value["judged"] and tuple(value["judged"]),
        )
        for repair_id, value in _JOURNAL.find(c, root)
    )
    return [repair for repair in found if all(map(_is_sound, repair.places))]


def drop_repair(c: Connection, root_id: RootId, repair_id: str) -> None:
    """Delete a repair that was finished or undone."""
    _JOURNAL.drop(c, root_id, repair_id)


class KeptFile(NamedTuple):
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
    place = _encode_place(kept.place)
    _KEPT.save(c, root, kept.id, {"place": place, "stamps": kept.stamps, "kept_at": kept.kept_at})


def find_kept(c: Connection, root: RootRecord) -> list[KeptFile]:
    """Return the files that repairs in a root left, the oldest first."""
    found = (
        KeptFile(kept_id, _decode_place(value["place"]), tuple(value["stamps"]), value["kept_at"])
        for kept_id, value in _KEPT.find(c, root)
    )
    return sorted((one for one in found if _is_sound(one.place)), key=lambda kept: (kept.kept_at, kept.path))


def drop_kept(c: Connection, root_id: RootId, kept_id: str) -> None:
    """Delete the row of a file that is gone."""
    _KEPT.drop(c, root_id, kept_id)


def _encode_place(place: JournalPlace) -> list[str]:
    return [b64encode(part).decode() for part in place]


def _decode_place(parts: list[str]) -> JournalPlace:
    return JournalPlace(*map(b64decode, parts))


def _is_sound(place: JournalPlace) -> bool:
    """Return whether the names are ones that a repair uses: another machine may have made the catalog."""
    is_name = b"/" not in place.name and b"\0" not in place.name and place.name not in (b"", b".", b"..")
    return is_name and all(b"/" not in name and is_kept_by_repair(name) for name in (place.made, place.kept))
