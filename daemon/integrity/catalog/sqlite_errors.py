"""
Translate driver errors to ``errors.py``, and collect the damaged rows that were met while a catalog was open.

SQLite reports CORRUPT also when the disk failed a read (R9), so this error is believed only after a second check. Jobs
skip damaged rows, and listings show what can be read of them: the opener of the catalog must report that the result may
be incomplete.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

import sqlalchemy as sa

from integrity import program
from integrity.catalog import lockless, own_files
from integrity.errors import CatalogCorrupt, CatalogError, CatalogLocked, show_path

_INDEX_PAGE_BYTES = 4096

CORRUPT_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def primary_code(error: sqlite3.Error) -> int | None:
    """Return the primary result code of an error; None for errors of the driver itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def translate(path: bytes, error: sqlite3.Error) -> CatalogError:
    """Convert a driver error to a CatalogError with cause, path, and remedy."""
    where, code = show_path(path), primary_code(error)
    if code == sqlite3.SQLITE_FULL and not _is_full(path):  # a quota, or the disk of SQLite's temporary files
        return CatalogError(
            f"{where}: disk full; free space in the folder of temporary files (/var/tmp, or name another one in"
            f" SQLITE_TMPDIR) or on {show_path(_folder(path))}, nothing is lost"
        )
    if code == sqlite3.SQLITE_FULL or is_without_room(path, error):
        return describe_full(path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return CatalogLocked(f"{where}: another program is writing to the catalog; try again when it is done")
    if code in CORRUPT_CODES:
        return _diagnose(path, error)
    if code == sqlite3.SQLITE_IOERR:
        return CatalogError(f"{where}: the disk failed below the catalog ({error}); see the kernel's log")
    if code == sqlite3.SQLITE_READONLY:
        return CatalogError(f"{where}: the catalog cannot be written ({error}); check its permissions and its disk")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return CatalogError(
            f"{where}: cannot be opened ({error}); check the permissions of the catalog, of the files beside it, and of"
            " their folder, or run this as the catalog's owner"
        )
    return CatalogError(f"{where}: {type(error).__name__}: {error}; run `{program.command('catalog check')}`")


def describe_full(path: bytes) -> CatalogError:
    """Return the error for a full disk."""
    return CatalogError(f"{show_path(path)}: disk full; free space on {show_path(_folder(path))}, nothing is lost")


def may_end_by_signal(path: bytes) -> bool:
    """
    Return whether a full disk would kill the process by SIGBUS instead of an SQLite error.

    SQLite maps the index of the log. It reserves space by writing one byte of each 4 KiB, which is not enough on file
    systems with smaller blocks.
    """
    return os.statvfs(_folder(path)).f_frsize < _INDEX_PAGE_BYTES and _is_full(path)


def is_without_room(path: bytes, error: sqlite3.Error) -> bool:
    """Return whether an I/O error means no space for the log's index of 32 KiB (SQLITE_IOERR_SHMSIZE)."""
    return primary_code(error) == sqlite3.SQLITE_IOERR and _is_full(path)


def is_closed_to_reader(path: bytes, error: sqlite3.Error) -> bool:
    """Return whether a catalog can't be opened because its reader may not make the log's index beside it."""
    is_refused = primary_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
    return is_refused and not may_write_beside(path) and os.access(path, os.R_OK)


def may_write_beside(path: bytes) -> bool:
    """Return whether the caller may create files beside a catalog."""
    return os.access(_folder(os.path.realpath(path)), os.W_OK)


def describe_unindexed(path: bytes) -> CatalogError:
    """Return the error for a log without its index, for a reader who may not make one."""
    return CatalogError(
        f"{show_path(path)}: was not closed properly, and only a program that may write to its folder can read its log;"
        " start the service (systemctl start integrity), or run this as the catalog's owner"
    )


def _is_full(path: bytes) -> bool:
    status = os.statvfs(_folder(path))
    return status.f_bavail * status.f_frsize < 1 << 16


def _folder(path: bytes) -> bytes:
    return os.path.dirname(path) or b"."


def _diagnose(path: bytes, error: sqlite3.Error) -> CatalogError:
    complaint = quick_check(path)
    if complaint is None:
        return CatalogError(f"{show_path(path)}: a read failed ({error}), but the file is whole; try again")
    return describe_damage(path, complaint)


def describe_damage(path: bytes, complaint: str, newest_backup: bytes | None = None) -> CatalogError:
    """
    Return the error for a damaged catalog, with the remedy; or for a failed disk, if that is the cause.

    SQLite's checks report an unreadable page as damage, with the number of the I/O error.
    """
    code = re.search(r"error code=(\d+)", complaint)
    if code is not None and int(code[1]) & 0xFF == sqlite3.SQLITE_IOERR:
        return _disk_failed(path, complaint)
    hint = f" (newest backup: {show_path(newest_backup)})" if newest_backup else ""
    return CatalogCorrupt(
        f"{show_path(path)}: damaged: {complaint}; bring back a backup: {program.command('catalog restore')}{hint}"
    )


def _disk_failed(path: bytes, complaint: object) -> CatalogError:
    return CatalogError(f"{show_path(path)}: the disk failed below the catalog ({complaint}); see the kernel's log")


def quick_check(path: bytes, *, is_alone: bool = False) -> str | None:
    """
    Run SQLite's quick check on a file, through a new connection.

    Args:
        path: the database.
        is_alone: no other program uses the file, such as a backup; no side files are created then.

    Returns:
        None if the file is intact, else the first complaint.
    """
    try:
        with closing(connect(path, lockless.OPTIONS if is_alone else find_reading_options(path))) as db:
            answer = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    except UnicodeDecodeError:  # the driver failed to decode a message that quotes a damaged schema
        return "its schema is damaged"
    return None if answer == "ok" else answer


def find_reading_options(path: bytes) -> str:
    """Return the options for a short look at a catalog, also for a reader who may not write beside it."""
    has_log = os.path.lexists(os.path.realpath(path) + own_files.LOG)
    return "mode=ro" if has_log or may_write_beside(path) else lockless.OPTIONS


def connect(path: bytes, options: str, *, busy_timeout_s: float = 30.0) -> sqlite3.Connection:
    """Open a database by URI (any bytes in its path), in autocommit."""
    quoted = "".join(chr(b) if chr(b).isascii() and (chr(b).isalnum() or b in b"/._-") else f"%{b:02X}" for b in path)
    db = sqlite3.connect(f"file:{quoted}?{options}", uri=True, timeout=busy_timeout_s, isolation_level=None)
    # Invalid UTF-8 must be returned as a wrong word, not raise a driver error in the middle of a page.
    db.text_factory = _decode
    return db


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


_NOTED = "integrity.damaged_rows"
_KEPT = 100


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row whose seal, parity, or words are wrong."""

    table: str
    key: tuple[object, ...]

    def __str__(self) -> str:
        key = ", ".join(one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in self.key)
        return f"row {key} of {self.table} is not as it was written"


def note_damage(c: sa.Connection, rows: Iterable[DamagedRow]) -> None:
    """Remember damaged rows until the catalog is closed, at most 100."""
    noted = c.info.setdefault(_NOTED, {})
    for row in rows:
        if len(noted) < _KEPT:
            noted[row] = None


def find_noted(c: sa.Connection) -> tuple[DamagedRow, ...]:
    """Return the remembered damaged rows, in the order in which they were met."""
    return tuple(c.info.get(_NOTED, ()))


def list_damage(rows: Iterable[DamagedRow], shown: int = 3) -> str:
    """Format damaged rows for people: the first few, and the number of the others."""
    met = list(rows)
    more = f"; {len(met) - shown:,} more" if len(met) > shown else ""
    return "; ".join(map(str, met[:shown])) + more
