"""
Create and copy catalog files so that they survive a power cut and have the right owner.

Every file that the catalog creates belongs to the owner of the catalog (or of its folder), also when root creates it
(R9). Only the owner can read it, because it contains all file names.

Catalogs of other machines may have been made to run something by a trigger, a view, or a virtual table. Nothing of such
a file is run before its definitions are known to be those of a catalog: they are read as text, by a connection that may
do nothing else. What passes is opened as any other catalog, and upgraded if it is older.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

import apsw

from integrity.catalog import own_files, sqlite_errors
from integrity.catalog.db import APPLICATION_ID, LOCKLESS, SCHEMA_REVISION, Connection, make_empty
from integrity.errors import CatalogError, show_path
from integrity.files.capability import get_capability
from integrity.files.mounts import mount_of
from integrity.files.open_beneath import make_folder_at
from integrity.files.replace_file import may_exchange, rename_to_free

_BYTES_AT_ONCE = 1 << 20
# Programs up to 1.0 look here before they look at the version of the schema, and would advise to seal anew.
_FOR_OLDER_PROGRAMS = {"seal_check": "ddd443c59b135b4d779d77cdea9b3a7c"}


def make_folder(folder: bytes) -> None:
    """Create the catalog's folder and its missing parents, mode 0700; as root, for the owner of the parent folder."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder) or b"."
    make_folder(above)
    above_fd = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        make_folder_at(above_fd, os.path.basename(folder), mode=0o700)
    finally:
        os.close(above_fd)


def sync_file(path: bytes) -> None:
    """Sync a file or a folder; never an open database: closing any descriptor of it drops SQLite's locks, fcntl(2)."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def forget_cached(path: bytes) -> None:
    """Have an open database read from the disk (R4), by its own descriptor: closing another would drop its locks."""
    fd = own_files.find_descriptor(os.stat(path))
    if fd is not None:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)


def copy_database(source: Connection, path: bytes, owner: os.stat_result) -> None:
    """
    Copy a database while others use it. The copy gets its name only when it is checked and synced.

    The copy is a snapshot: changes committed during the copy are not in it. Otherwise each commit would restart it.

    Args:
        source: a connection without a transaction.
        path: destination; replaced if it exists.
        owner: stat of the file or folder whose owner gets the copy.
    """

    def write(partial: bytes, fd: int) -> None:
        with closing(make_empty(partial)) as target:
            own_files.require_opened(partial, fd)
            target.run("PRAGMA journal_mode = OFF")  # an unfinished copy is deleted
            with target.driver.backup("main", source.driver, "main") as copying:
                copying.step()

    make_copy(path, owner, write)


def copy_file(source: bytes, path: bytes, owner: os.stat_result, *, is_trusted: bool) -> None:
    """
    Copy an unused database to be the catalog, as ``copy_database`` does.

    The group of its folder may read the copy, if only that group may enter the folder. ``is_trusted``: a user named the
    source; otherwise it must belong to the owner, the caller, or root.
    """
    import shutil  # here, for few commands make a copy

    def write(_: bytes, fd: int) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC
        from_fd = os.open(source, flags) if is_trusted else own_files.open_own(source, flags, owner)
        with open(from_fd, "rb") as reader, open(fd, "wb", closefd=False) as writer:
            shutil.copyfileobj(reader, writer, _BYTES_AT_ONCE)
        own_files.share_new_with_group(fd, path)

    make_copy(path, owner, write)


def make_copy(path: bytes, owner: os.stat_result, write: Callable[[bytes, int], None]) -> None:
    """Write a copy under a temporary name and rename it when complete; ``write`` gets that name and its open file."""
    partial = path + own_files.PARTIAL
    try:
        with own_files.claim(partial, owner) as fd:
            write(partial, fd)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # what is checked comes from the disk (R4)
            complaint = sqlite_errors.check_whole(partial, is_alone=True)
            if complaint is not None:
                raise CatalogError(f"{show_path(path)}: the copy is not whole: {complaint}; check both disks")
            os.rename(partial, path)
            sync_file(os.path.dirname(path) or b".")
    except OSError as error:
        raise CatalogError(f"{show_path(path)}: cannot write a copy of the catalog: {error.strerror}") from error
    except apsw.Error as error:
        raise CatalogError(f"{show_path(path)}: cannot copy the catalog there: {error}") from error


@cache
def read_schema() -> str:
    """Return the statements that make an empty catalog."""
    return Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")


def build(path: bytes, now: int) -> None:
    """Create an empty catalog, or raise OSError or apsw.Error. If another program created one first, keep that one."""
    draft = path + b".new-" + os.urandom(4).hex().encode()
    make_folder(os.path.dirname(path))
    has_flags = may_exchange(get_capability(mount_of(os.path.dirname(path)).fs_type))
    with own_files.claim(draft, os.stat(os.path.dirname(path))) as fd:
        own_files.share_new_with_group(fd, draft)  # before SQLite gives its files the same mode
        with closing(make_empty(draft)) as c:
            own_files.require_opened(draft, fd)
            c.run("PRAGMA journal_mode = WAL")
            write_schema(c)
            values = {"uuid": str(uuid.uuid4()), "created_at": str(now), "next_file_id": "1", **_FOR_OLDER_PROGRAMS}
            c.run_many("INSERT INTO meta (key, value) VALUES (?, ?)", values.items())
        os.fsync(fd)
        folder, name = os.path.split(path)
        folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with suppress(FileExistsError):
                rename_to_free(folder_fd, os.path.basename(draft), name, has_flags=has_flags)
            os.fsync(folder_fd)
        finally:
            os.close(folder_fd)


def write_schema(c: Connection) -> None:
    """Write an empty schema."""
    c.driver.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    c.driver.execute(f"BEGIN IMMEDIATE; {read_schema()}; COMMIT")
    c.run("INSERT INTO alembic_version (version_num) VALUES (?)", SCHEMA_REVISION)


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
