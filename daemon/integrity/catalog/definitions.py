"""
The definitions of tables, indexes and triggers: made in a new catalog, compared in one that is looked through.

SQLite checks that a definition can be read, not that it is the one that was written: with one flipped bit a trigger
fails, or seals less than it should. An upgraded catalog has the same definitions as a new one, in another order.
"""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing

import sqlalchemy as sa

from integrity.catalog import fingerprints, row_seals, schema
from integrity.catalog.core import connect_core
from integrity.catalog.seal import Sealer

QUERY = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"
"""Asks for the definitions that a catalog has, as ``find_changed`` takes them."""


def define(c: sa.Connection) -> None:
    """Make all tables, indexes and triggers, in a transaction."""
    schema.metadata.create_all(c)
    schema.alembic_version.create(c)
    for trigger in (*row_seals.make_triggers(), *fingerprints.make_triggers()):
        c.exec_driver_sql(trigger)


def find_changed(definitions: Iterable[tuple[object, object, object]]) -> list[str]:
    """Say which definitions of a catalog of the present version are missing, or are not as this program makes them."""
    found = {(str(kind), str(name)): split(str(sql)) for kind, name, sql in definitions}
    return [
        f"the definition of {kind} {name} is not as it was written"
        for (kind, name), parts in _get_expected().items()
        if found.get((kind, name)) != parts
    ]


def split(sql: str) -> list[str]:
    """Cut a definition at the commas of its outer brackets, and sort the parts: their order tells nothing."""
    if sql.startswith("CREATE TRIGGER"):
        return [sql]
    parts, depth = [""], 0
    for character in sql:
        depth += (character == "(") - (character == ")")
        if (depth <= 1 and character in ",(") or (depth == 0 and character == ")"):
            parts.append("")
        else:
            parts[-1] += character
    return sorted(re.sub(r"\s+", " ", part).strip(" )") for part in parts)


@functools.cache
def _get_expected() -> Mapping[tuple[str, str], list[str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        with connect_core(db, Sealer()) as c:
            define(c)
        return {(kind, name): split(sql) for kind, name, sql in db.execute(QUERY)}
