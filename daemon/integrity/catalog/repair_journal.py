"""
Repairs under way: what was about to be done to which names, so that a kill at any moment can be made good.

One row of ``meta`` for each, key ``repair/ROOT_ID/ID``, written before the first name is touched and taken away in the
transaction that records how it ended.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from integrity.catalog.roots import RootRecord
from integrity.catalog.schema import meta
from integrity.files.excludes import is_kept_by_repair
from integrity.model import RootId


class JournalPlace(NamedTuple):
    """
    One name of a file that is repaired; all three lie in one folder.

    Args:
        folder: relative to the root; empty for the root itself.
        name: of the file.
        made: under which the new file is made.
        kept: under which the damaged one is kept.
    """

    folder: bytes
    name: bytes
    made: bytes
    kept: bytes

    @property
    def path(self) -> bytes:
        """Name the file, relative to the root."""
        return self.beside(self.name)

    def beside(self, name: bytes) -> bytes:
        """Name another file of the folder, relative to the root."""
        return self.folder + b"/" + name if self.folder else name


@dataclass(frozen=True, slots=True)
class Repair:
    """
    One file that is being repaired.

    Args:
        id: random; part of the names.
        places: all names of the file.
        resolution: what is said of its findings when it is done.
        judged: size, mtime and inode of the damaged file; None if it was gone.
    """

    id: str
    places: tuple[JournalPlace, ...]
    resolution: str
    judged: tuple[int, int, int] | None


def save_repair(c: sa.Connection, root: RootRecord, repair: Repair) -> None:
    """Write down what is about to be done."""
    value = {
        "root": root.token.hex(),
        "places": [[b64encode(part).decode() for part in place] for place in repair.places],
        "resolution": repair.resolution,
        "judged": repair.judged,
    }
    c.execute(sa.insert(meta).values(key=_key(root.id, repair.id), value=json.dumps(value)))


def find_repairs(c: sa.Connection, root: RootRecord) -> list[Repair]:
    """List the repairs of a root that did not come to their end; rows that can't be read are left out."""
    prefix = _key(root.id, "")
    between = sa.and_(meta.c.key > prefix, meta.c.key < prefix[:-1] + "0")  # "0" follows "/"
    rows = c.execute(sa.select(meta.c.key, meta.c.value).where(between).order_by(meta.c.key)).all()
    found = (_read(root, row.key.removeprefix(prefix), row.value) for row in rows)
    return [repair for repair in found if repair is not None]


def drop_repair(c: sa.Connection, root_id: RootId, repair_id: str) -> None:
    """Forget a repair: it is done, or undone."""
    c.execute(sa.delete(meta).where(meta.c.key == _key(root_id, repair_id)))


def _key(root_id: RootId, repair_id: str) -> str:
    return f"repair/{root_id}/{repair_id}"


def _read(root: RootRecord, repair_id: str, text: str) -> Repair | None:
    """Read a row; None if it is damaged, or of a former root of this number."""
    try:
        value = json.loads(text)
        places = tuple(JournalPlace(*(b64decode(part, validate=True) for part in place)) for place in value["places"])
        judged = None if value["judged"] is None else tuple(int(number) for number in value["judged"])
        if value["root"] != root.token.hex() or not all(map(_is_sound, places)):
            return None
        if judged is not None and len(judged) != 3:
            return None
        return Repair(repair_id, places, str(value["resolution"]), judged)
    except (ValueError, KeyError, TypeError):
        return None


def _is_sound(place: JournalPlace) -> bool:
    """Say whether a row, which is not sealed, speaks of names that a repair gives."""
    is_name = b"/" not in place.name and b"\0" not in place.name and place.name not in (b"", b".", b"..")
    return is_name and all(b"/" not in name and is_kept_by_repair(name) for name in (place.made, place.kept))
