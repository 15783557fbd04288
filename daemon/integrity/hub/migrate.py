"""
Create the tables of the hub, or bring those of an older version up to date.

The only module of the hub that imports Alembic. All steps run in one transaction: a failing step leaves the database
unchanged.
"""

from __future__ import annotations

from importlib import resources

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from integrity.errors import HubDatabaseError
from integrity.hub import schema
from integrity.hub.database import HubDatabase, read_revision


def migrate(database: HubDatabase) -> str | None:
    """
    Run all migrations that are missing; return the revision that the database had before. None: it was empty.

    Args:
        database: opened with ``any_revision``.

    Raises:
        HubDatabaseError: a step failed, or the database was made by a newer version; it is unchanged.
    """
    with database.transaction() as c:
        if database.is_postgres:  # one at a time: several processes may start at once
            c.execute(sa.select(sa.func.pg_advisory_xact_lock(0x696E7465)))
        before = read_revision(c)
        if before is not None and before > schema.SCHEMA_REVISION:
            raise HubDatabaseError(f"{database.place}: was made by a newer version (schema {before}); use that version")
        try:
            command.upgrade(_configure(c), schema.SCHEMA_REVISION)
        except (sa.exc.SQLAlchemyError, CommandError) as error:
            raise HubDatabaseError(
                f"{database.place}: the migration to schema {schema.SCHEMA_REVISION} failed and was undone: {error};"
                " use the older version until this is solved"
            ) from error
    return before


def _configure(c: sa.Connection) -> Config:
    config = Config()
    with resources.as_file(resources.files("integrity.migrations")) as scripts:
        config.set_main_option("script_location", str(scripts / "hub" / "environment"))
        config.set_main_option("version_locations", str(scripts / "hub"))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = c
    return config
