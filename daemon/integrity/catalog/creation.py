"""Create the SQLite file of a catalog, which gets its name only when it is complete and synced."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

from integrity.catalog import copying, own_files
from integrity.catalog.db import APPLICATION_ID, SCHEMA_REVISION, Connection, make_empty
from integrity.files.capability import get_capability
from integrity.files.mounts import mount_of
from integrity.files.replace_file import may_exchange, rename_to_free

# Programs up to 1.0 look here before they look at the version of the schema, and would advise to seal anew.
_FOR_OLDER_PROGRAMS = {"seal_check": "ddd443c59b135b4d779d77cdea9b3a7c"}


@cache
def read_schema() -> str:
    """Return the statements that make an empty catalog."""
    return Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


def build(path: bytes, now: int) -> None:
    """Create an empty catalog, or raise OSError or apsw.Error. If another program created one first, keep that one."""
    draft = path + b".new-" + os.urandom(4).hex().encode()
    copying.make_folder(os.path.dirname(path))
    has_flags = may_exchange(get_capability(mount_of(os.path.dirname(path)).fs_type))
    with own_files.claim(draft, os.stat(os.path.dirname(path))) as fd:
        own_files.share_new_with_group(fd, draft)  # before SQLite gives its files the same mode
        c = make_empty(draft)
        try:
            own_files.require_opened(draft, fd)
            c.run("PRAGMA journal_mode = WAL")
            write_schema(c)
            values = {"uuid": str(uuid.uuid4()), "created_at": str(now), "next_file_id": "1", **_FOR_OLDER_PROGRAMS}
            c.run_many("INSERT INTO meta (key, value) VALUES (?, ?)", values.items())
        finally:
            c.close()
        os.fsync(fd)
        _publish(draft, path, has_flags=has_flags)


def write_schema(c: Connection) -> None:
    """Write an empty schema."""
    c.driver.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    c.driver.execute(f"BEGIN IMMEDIATE; {read_schema()}; COMMIT")
    c.run("INSERT INTO alembic_version (version_num) VALUES (?)", SCHEMA_REVISION)


def _publish(draft: bytes, path: bytes, *, has_flags: bool) -> None:
    """Rename a finished file to its final name; if the name is taken, leave the existing file."""
    folder, name = os.path.split(path)
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(FileExistsError):
            rename_to_free(folder_fd, os.path.basename(draft), name, has_flags=has_flags)
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)
