"""
What the driver's errors mean, in the words of ``errors.py``.

SQLite says CORRUPT also when the disk refused a read (R9), so that word is only believed after a second look.

Damaged rows that were met while a catalog was open, for whoever opened it to report.

A job goes on without such a row, and what is listed or summed up is shown as far as it can be read: neither may pass
for the whole truth.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass

import sqlalchemy as sa

from integrity.errors import CatalogCorrupt, CatalogError, CatalogLocked, show_path

_INDEX_PAGE_BYTES = 4096

CORRUPT_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


def primary_code(error: sqlite3.Error) -> int | None:
    """Name the kind of an error: its extended code without the extension; None for errors of the driver itself."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def translate(path: bytes, error: sqlite3.Error) -> CatalogError:
    """Turn an error of the driver into what happened, where, and what to do next."""
    where, code = show_path(path), primary_code(error)
    if code == sqlite3.SQLITE_FULL and not _is_full(path):  # a quota, or the disk of what SQLite puts aside
        return CatalogError(
            f"{where}: disk full; free space in the folder of temporary files (/var/tmp, or name another one in"
            f" SQLITE_TMPDIR) or on {show_path(_folder(path))}, nothing is lost"
        )
    if code == sqlite3.SQLITE_FULL or is_without_room(path, error):
        return describe_full(path)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return CatalogLocked(f"{where}: another program is writing to the catalog; try again when it is done")
    if code in CORRUPT_CODES:
        return _look_again(path, error)
    if code == sqlite3.SQLITE_IOERR:
        return CatalogError(f"{where}: the disk failed below the catalog ({error}); see the kernel's log")
    if code == sqlite3.SQLITE_READONLY:
        return CatalogError(f"{where}: the catalog cannot be written ({error}); check its permissions and its disk")
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH):
        return CatalogError(
            f"{where}: cannot be opened ({error}); its folder must be writable to you, also for reading: "
            "run this as the catalog's owner"
        )
    return CatalogError(f"{where}: {type(error).__name__}: {error}; run `integrity catalog check`")


def describe_full(path: bytes) -> CatalogError:
    """Say that there is no room to write."""
    return CatalogError(f"{show_path(path)}: disk full; free space on {show_path(_folder(path))}, nothing is lost")


def may_end_by_signal(path: bytes) -> bool:
    """
    Say of a full disk that SQLite would not notice it: its log has an index that is mapped, and would end us by SIGBUS.

    To have the room it writes a byte of each 4 KiB of the index, which is only a part of it where blocks are smaller.
    """
    return os.statvfs(_folder(path)).f_frsize < _INDEX_PAGE_BYTES and _is_full(path)


def is_without_room(path: bytes, error: sqlite3.Error) -> bool:
    """Say of an error that the log's index (32 KiB) found no room: an I/O error to SQLite (SQLITE_IOERR_SHMSIZE)."""
    return primary_code(error) == sqlite3.SQLITE_IOERR and _is_full(path)


def _is_full(path: bytes) -> bool:
    status = os.statvfs(_folder(path))
    return status.f_bavail * status.f_frsize < 1 << 16


def _folder(path: bytes) -> bytes:
    return os.path.dirname(path) or b"."


def _look_again(path: bytes, error: sqlite3.Error) -> CatalogError:
    complaint = quick_check(path)
    if complaint is None:
        return CatalogError(f"{show_path(path)}: a read failed ({error}), but the file is whole; try again")
    return describe_damage(path, complaint)


def describe_damage(path: bytes, complaint: str, newest_backup: bytes | None = None) -> CatalogError:
    """
    Say that the catalog is damaged and how to get it back; or that the disk failed, if that is what SQLite means.

    Its checks report a page that could not be read among the damages, with the number of the error.
    """
    code = re.search(r"error code=(\d+)", complaint)
    if code is not None and int(code[1]) & 0xFF == sqlite3.SQLITE_IOERR:
        return _disk_failed(path, complaint)
    hint = f" (newest backup: {show_path(newest_backup)})" if newest_backup else ""
    return CatalogCorrupt(
        f"{show_path(path)}: damaged: {complaint}; bring back a backup: integrity catalog restore{hint}"
    )


def _disk_failed(path: bytes, complaint: object) -> CatalogError:
    return CatalogError(f"{show_path(path)}: the disk failed below the catalog ({complaint}); see the kernel's log")


def quick_check(path: bytes, *, is_alone: bool = False) -> str | None:
    """
    Ask SQLite whether a file is whole, through a connection of its own.

    Args:
        path: the database.
        is_alone: nobody else has it open or will (a backup): no side files are made then.

    Returns:
        None if it is whole, else the first complaint.
    """
    try:
        with closing(connect(path, "mode=ro&immutable=1" if is_alone else "mode=ro")) as db:
            answer = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.Error as error:
        return str(error)
    except UnicodeDecodeError:  # the driver, over a message of SQLite's that quotes a damaged schema
        return "its schema is damaged"
    return None if answer == "ok" else answer


def connect(path: bytes, options: str, *, busy_timeout_s: float = 30.0) -> sqlite3.Connection:
    """Open a database by URI (any bytes in its path), in autocommit."""
    quoted = "".join(chr(b) if chr(b).isascii() and (chr(b).isalnum() or b in b"/._-") else f"%{b:02X}" for b in path)
    db = sqlite3.connect(f"file:{quoted}?{options}", uri=True, timeout=busy_timeout_s, isolation_level=None)
    # A damaged word must come out as a wrong word, not as an error of the driver in the middle of a page.
    db.text_factory = _decode
    return db


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


_MET = "integrity.damaged_rows"
_KEPT = 100


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """A row that is not as it was written."""

    table: str
    key: tuple[object, ...]

    def __str__(self) -> str:
        key = ", ".join(one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in self.key)
        return f"row {key} of {self.table} is not as it was written"


def note_damage(c: sa.Connection, rows: Iterable[DamagedRow]) -> None:
    """Keep damaged rows in mind until the catalog is closed, the first 100."""
    met = c.info.setdefault(_MET, {})
    for row in rows:
        if len(met) < _KEPT:
            met[row] = None


def find_noted(c: sa.Connection) -> tuple[DamagedRow, ...]:
    """List the damaged rows that were met, in the order in which they were."""
    return tuple(c.info.get(_MET, ()))


def list_damage(rows: Iterable[DamagedRow], shown: int = 3) -> str:
    """Write what is damaged for people: the first rows, and how many there are."""
    met = list(rows)
    more = f"; {len(met) - shown:,} more" if len(met) > shown else ""
    return "; ".join(map(str, met[:shown])) + more
