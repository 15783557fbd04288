"""
Catalogs of other machines, which may have been made to run something by a trigger, a view, or a virtual table.

Nothing of such a file is run before its definitions are known to be those of a catalog. They are read as text, by a
connection that may do nothing else. What passes is opened as any other catalog.
"""

from __future__ import annotations

import functools
import sqlite3
from contextlib import closing

from integrity.catalog import lockless, row_seals, sqlite_errors
from integrity.catalog.compiled_sql import connect_core
from integrity.catalog.schema import SCHEMA_REVISION
from integrity.catalog.seal import Sealer
from integrity.errors import CatalogError, show_path

_FIRST_REVISION = 10
"""Since then catalogs are exchanged."""

_QUERY = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_PRAGMA})

_Definitions = dict[tuple[str, str], list[str]]


def require_own_definitions(path: bytes) -> None:
    """
    Require that a file defines what a catalog defines, and nothing else.

    Raises:
        CatalogError: it does not, or is no database; nothing of it was run.
    """
    try:
        with closing(sqlite_errors.connect(path, lockless.OPTIONS)) as db:
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA cell_size_check = ON")
            db.set_authorizer(_authorize)
            page_bytes = int(db.execute("PRAGMA page_size").fetchone()[0])
            rows = db.execute(_QUERY).fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise CatalogError(f"{show_path(path)}: what came from the hub is no catalog: {error}") from error
    found = {(str(kind), str(name)): row_seals.split(str(sql)) for kind, name, sql in rows}
    # Named twice, one of them would not be looked at.
    if len(found) < len(rows) or page_bytes != _read_page_size() or not _are_known(found):
        raise CatalogError(
            f"{show_path(path)}: the catalog from the hub defines other tables or triggers than this program does, so"
            " it was not opened: a newer version of integrity made it (upgrade this machine), or an attacker (revoke"
            " the token of the box that stored it)"
        )


def _authorize(action: int, table: str | None, *_: str | None) -> int:
    """Allow to read the definitions; SQLite asks before it does anything."""
    is_definition = action == sqlite3.SQLITE_READ and table == "sqlite_master"
    return sqlite3.SQLITE_OK if is_definition or action in _ALLOWED else sqlite3.SQLITE_DENY


def _are_known(found: _Definitions) -> bool:
    """Return whether a catalog of this or of an older schema, which is upgraded when it is opened, has them."""
    revisions = range(int(SCHEMA_REVISION), _FIRST_REVISION - 1, -1)
    return any(found == _make_definitions(f"{number:04}") for number in revisions)


@functools.cache
def _make_definitions(revision: str) -> _Definitions:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        if revision == SCHEMA_REVISION:
            with connect_core(db, Sealer()) as c:
                row_seals.define(c)
        else:
            from integrity.catalog.upgrade import run_migrations  # Alembic takes 130 ms

            run_migrations(db, Sealer(), to=revision)
        return {(kind, name): row_seals.split(sql) for kind, name, sql in db.execute(_QUERY)}


@functools.cache
def _read_page_size() -> int:
    with closing(sqlite3.connect(":memory:")) as db:
        return int(db.execute("PRAGMA page_size").fetchone()[0])
