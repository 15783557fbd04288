"""Rows of ``meta`` that belong to a root: JSON objects with the key ``NAME/ROOT_ID/ID``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from integrity.catalog.db import Connection
from integrity.catalog.roots import RootRecord
from integrity.model import RootId


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
