"""
Catalogs of other machines, which may have been made to run something by a trigger, a view, or a virtual table.

Nothing of such a file is run before its definitions are known to be those of a catalog. They are read as text, by a
connection that may do nothing else. What passes is opened as any other catalog, and upgraded if it is older.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import closing
from functools import cache

import apsw

from integrity.catalog.copying import read_schema
from integrity.catalog.db import LOCKLESS, SCHEMA_REVISION, Connection
from integrity.errors import CatalogError, show_path

_QUERY = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"
_ALLOWED = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_PRAGMA})
_OLDER = frozenset(
    {
        "b4ab9b92e5328671c77df9ee9f2dea9cfedeb79ec3ce62b92342de02ed611781",  # 0010
        "6cdf392e30cc939d567aa19f4c6972d7d79321e79266d2147485890eda7e63ab",  # 0011
        "fc8579db6204ee7e2dce10639e9413ecfe3bcc2bbbee30cfea1158b0c52f7d26",  # 0011, upgraded from 0010
    }
)
"""Digests of what older catalogs define: hubs have some since 0010."""


def require_own_definitions(path: bytes) -> None:
    """Require, before any of it is run, that a file defines what a catalog defines, and nothing else."""
    try:
        with closing(Connection(path, LOCKLESS)) as c:
            c.run("PRAGMA trusted_schema = OFF")
            c.run("PRAGMA cell_size_check = ON")
            c.driver.set_authorizer(_authorize)
            page_bytes = c.value("PRAGMA page_size")
            found = sorted(c.rows(_QUERY))
    except (apsw.Error, UnicodeDecodeError) as error:
        raise CatalogError(f"{show_path(path)}: what came from the hub is no catalog: {error}") from error
    own_page_bytes, own = _find_own()
    if page_bytes != own_page_bytes or (found != own and _digest(found) not in _OLDER):
        raise CatalogError(
            f"{show_path(path)}: the catalog from the hub defines other tables or triggers than this program does"
            f" (schema {SCHEMA_REVISION}), so it was not opened: another version of integrity made it (install the same"
            " on all machines), or an attacker (revoke the token of the box that stored it)"
        )


def _authorize(action: int, table: str | None, *_: str | None) -> int:
    """Allow to read the definitions; SQLite asks before it does anything."""
    is_definition = action == apsw.SQLITE_READ and table == "sqlite_master"
    return apsw.SQLITE_OK if is_definition or action in _ALLOWED else apsw.SQLITE_DENY


@cache
def _find_own() -> tuple[int, list[tuple[object, ...]]]:
    with closing(Connection(b"")) as c:
        c.driver.execute(read_schema())
        return c.value("PRAGMA page_size"), sorted(c.rows(_QUERY))


def _digest(definitions: Iterable[tuple[object, ...]]) -> str:
    """Return a digest of definitions, whatever their blanks."""
    words = [(kind, name, *str(sql).split()) for kind, name, sql in definitions]
    return hashlib.sha256(repr(words).encode()).hexdigest()
