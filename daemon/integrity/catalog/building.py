"""Make a new catalog: whole and on the disk before it has its name."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress

import sqlalchemy as sa

from integrity.catalog import copying, definitions, filenames, own_files, schema, sqlite_errors
from integrity.catalog.core import connect_core
from integrity.catalog.seal import Sealer
from integrity.files.capability import get_capability
from integrity.files.mounts import mount_of
from integrity.files.renaming import may_exchange, rename_to_free


def build(path: bytes, sealer: Sealer, now: int) -> None:
    """
    Make an empty catalog under a name that is free.

    If another program makes one there at the same time, the one that was first stays.

    Raises:
        OSError: a folder or a file could not be made.
        sqlite3.Error: it could not be written.
    """
    draft = filenames.draft_path(path)
    copying.make_folder(os.path.dirname(path))
    with own_files.claim(draft, os.stat(os.path.dirname(path))) as fd:
        _write_schema(draft, fd, sealer, now)
        os.fsync(fd)
        _publish(draft, path)


def _write_schema(path: bytes, fd: int, sealer: Sealer, now: int) -> None:
    """Write an empty schema into an empty file, which is open as ``fd``, too."""
    db = sqlite_errors.connect(path, "mode=rw")
    try:
        own_files.require_opened(path, fd)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        with connect_core(db, sealer) as c:
            c.exec_driver_sql("BEGIN IMMEDIATE")
            definitions.define(c)
            c.execute(schema.alembic_version.insert().values(version_num=schema.SCHEMA_REVISION))
            c.execute(sa.insert(schema.meta), _first_meta(sealer, now))
            c.commit()
    finally:
        db.close()


def _first_meta(sealer: Sealer, now: int) -> list[dict[str, str]]:
    values = {
        "uuid": str(uuid.uuid4()),
        "created_at": str(now),
        "next_file_id": "1",
        "seal_check": sealer.key_check,
    }
    return [{"key": key, "value": value} for key, value in values.items()]


def _publish(draft: bytes, path: bytes) -> None:
    """Give a finished file its name; if another program was first, leave that one its name."""
    folder, name = os.path.split(path)
    has_flags = may_exchange(get_capability(mount_of(folder).fs_type))
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileExistsError):
            rename_to_free(folder_fd, os.path.basename(draft), name, has_flags=has_flags)
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)
