"""
Upgrade a catalog of an older version. The only module that imports Alembic, which takes 130 ms.

A copy is made first. All steps run in one transaction, so that a failing step leaves the catalog unchanged.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from importlib.util import find_spec

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from integrity.catalog import copying, own_files, schema
from integrity.catalog.compiled_sql import connect_core
from integrity.catalog.locking import upgrade_mark
from integrity.catalog.seal import Sealer
from integrity.errors import CatalogError, show_path


def upgrade(
    path: bytes,
    db: sqlite3.Connection,
    sealer: Sealer,
    *,
    to: str = schema.SCHEMA_REVISION,
    scripts: str | None = None,
    clock: Callable[[], float] = time.time,
) -> bytes:
    """
    Upgrade a catalog.

    Args:
        db: a connection to it, in autocommit; stays open.
        sealer: of its rows.
        to: target revision.
        scripts: folder of the Alembic environment; None: the shipped one.
        clock: for the name of the copy.

    Returns:
        The path of the copy that was made before.

    Raises:
        CatalogError: a step failed; the catalog is unchanged.
    """
    copy = own_files.before_path(path, to, int(clock()))
    with upgrade_mark(path):
        copying.copy_database(db, copy, os.stat(path))
        _run_or_undo(path, db, sealer, copy, to=to, scripts=scripts)
    return copy


def _run_or_undo(
    path: bytes, db: sqlite3.Connection, sealer: Sealer, copy: bytes, *, to: str, scripts: str | None
) -> None:
    try:
        run_migrations(db, sealer, to=to, scripts=scripts)
    except (sa.exc.SQLAlchemyError, sqlite3.Error, CommandError) as error:
        raise CatalogError(
            f"{show_path(path)}: the upgrade to schema {to} failed and was undone: {error}; the catalog is as it was, "
            f"a copy of it is {show_path(copy)}; use the older integrity until this is solved"
        ) from error


def run_migrations(db: sqlite3.Connection, sealer: Sealer, *, to: str, scripts: str | None = None) -> None:
    """Run all steps up to a revision in one transaction; any error rolls it back."""
    # Off while tables are rebuilt: SQLite would delete rows that refer to the old table. Checked before the commit.
    db.execute("PRAGMA foreign_keys = OFF")
    try:
        with connect_core(db, sealer) as c:
            c.exec_driver_sql("BEGIN IMMEDIATE")
            config = Config()
            config.set_main_option("script_location", scripts or shipped_scripts())
            config.attributes["connection"] = c
            command.upgrade(config, to)
            _check_foreign_keys(c)
            c.commit()
    finally:
        if db.in_transaction:
            db.rollback()
        db.execute("PRAGMA foreign_keys = ON")


def shipped_scripts() -> str:
    """Return the folder of the migrations that are shipped with this program."""
    spec = find_spec("integrity.migrations")
    assert spec is not None
    assert spec.origin is not None
    return os.path.dirname(spec.origin)


def _check_foreign_keys(c: sa.Connection) -> None:
    broken = c.exec_driver_sql("PRAGMA foreign_key_check").first()
    if broken is not None:
        raise sa.exc.SQLAlchemyError(f"a row of {broken[0]} points to a row of {broken[2]} that is not there")
