"""
Rows of ``meta`` that belong to a root: JSON objects with the key ``NAME/ROOT_ID/ID``.

I1  An object that can't be read, or that belongs to a former root with the same number, is left out: its root's token
    is in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from integrity.catalog.roots import RootRecord
from integrity.catalog.schema import meta
from integrity.model import RootId

_TOKEN = "root"  # noqa: S105 - the key of the root's token, which is no secret


class RootMeta:
    """
    The objects of one kind.

    Args:
        name: of the kind, the first part of the keys.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def save(self, c: sa.Connection, root: RootRecord, row_id: str, value: Mapping[str, object]) -> None:
        """Insert an object."""
        text = json.dumps({_TOKEN: root.token.hex(), **value})
        c.execute(sa.insert(meta).values(key=self._key(root.id, row_id), value=text))

    def find(self, c: sa.Connection, root: RootRecord) -> Iterator[tuple[str, dict[str, object]]]:
        """Return id and object of each row of a root, in the order of the ids (I1)."""
        prefix = self._key(root.id, "")
        between = sa.and_(meta.c.key > prefix, meta.c.key < prefix[:-1] + "0")  # "0" follows "/"
        for row in c.execute(sa.select(meta.c.key, meta.c.value).where(between).order_by(meta.c.key)).all():
            value = _read(row.value)
            if value.get(_TOKEN) == root.token.hex():
                yield row.key.removeprefix(prefix), value

    def drop(self, c: sa.Connection, root_id: RootId, row_id: str) -> None:
        """Delete an object."""
        c.execute(sa.delete(meta).where(meta.c.key == self._key(root_id, row_id)))

    def _key(self, root_id: RootId, row_id: str) -> str:
        return f"{self._name}/{root_id}/{row_id}"


def _read(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
