"""
Errors of SQLite as errors of this program, with cause, path and remedy.

SQLite reports CORRUPT also when the disk failed a read (R9), so that is believed only after a second look.
"""

from __future__ import annotations

import os
import re
from contextlib import closing

import apsw

from integrity import program
from integrity.catalog import own_files
from integrity.catalog.db import LOCKLESS, Connection
from integrity.errors import CatalogCorrupt, CatalogError, CatalogLocked, show_path

_INDEX_PAGE_BYTES = 4096
_WRONG_PAGE = "the checksum of a page is wrong: it is damaged, or another program wrote to it"
_DISK_FAILED = "the disk failed below the catalog"

_IN_CHANGE = (apsw.SQLITE_READONLY_RECOVERY, apsw.SQLITE_READONLY_CANTINIT)
"""A reader who may not write the log's index met it in the midst of a change, and can't tell that from a crash."""

CORRUPT_CODES = frozenset({apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB})


def primary_code(error: BaseException) -> int | None:
    """Return the primary result code of an error; None for errors of the driver itself."""
    code: int | None = getattr(error, "result", None)
    return None if code is None or code < 0 else code & 0xFF


def is_wrong_page(error: BaseException) -> bool:
    """Return whether a page of the file is not what was written, by its checksum."""
    return getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_DATA


def is_damage(error: BaseException) -> bool:
    """Return whether the file is not what was written."""
    # The driver can't decode a text, or a message of SQLite's that quotes one.
    return primary_code(error) in CORRUPT_CODES or is_wrong_page(error) or isinstance(error, UnicodeDecodeError)


def translate(path: bytes, error: apsw.Error) -> CatalogError:
    """Convert an error of the driver to a CatalogError with cause, path, and remedy."""
    where, code = show_path(path), primary_code(error)
    if code == apsw.SQLITE_FULL and not _is_full(path):  # a quota, or the disk of SQLite's temporary files
        return CatalogError(
            f"{where}: disk full; free space in the folder of temporary files (/var/tmp, or name another one in"
            f" SQLITE_TMPDIR) or on {show_path(_folder(path))}, nothing is lost"
        )
    if code == apsw.SQLITE_FULL or is_without_room(path, error):
        return describe_full(path)
    if getattr(error, "extendedresult", None) in _IN_CHANGE:
        return CatalogLocked(
            f"{where}: another program is writing to the catalog; try again, and if this stays so, start the service"
            " (systemctl start integrity), or run this as the catalog's owner"
        )
    if code in (apsw.SQLITE_BUSY, apsw.SQLITE_LOCKED):
        return CatalogLocked(f"{where}: another program is writing to the catalog; try again when it is done")
    if is_damage(error):
        complaint = check_whole(path)
        if complaint is None:
            return CatalogError(f"{where}: a read failed ({error}), but the file is whole; try again")
        return describe_damage(path, complaint)
    if code == apsw.SQLITE_IOERR:
        return describe_damage(path, describe_complaint(error))
    if code == apsw.SQLITE_READONLY:
        return CatalogError(f"{where}: the catalog cannot be written ({error}); check its permissions and its disk")
    if code in (apsw.SQLITE_CANTOPEN, apsw.SQLITE_PERM, apsw.SQLITE_AUTH):
        return CatalogError(
            f"{where}: cannot be opened ({error}); check the permissions of the catalog, of the files beside it, and of"
            " their folder, or run this as the catalog's owner"
        )
    return CatalogError(f"{where}: {type(error).__name__}: {error}; run `{program.command('catalog check')}`")


def find_full_folder(path: bytes) -> bytes | None:
    """Return the folder of a catalog if its disk is full, so that nothing can be recorded; None if it is not."""
    return _folder(path) if _is_full(path) else None


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


def is_without_room(path: bytes, error: BaseException) -> bool:
    """Return whether an I/O error means no space for the log's index of 32 KiB (SQLITE_IOERR_SHMSIZE)."""
    return primary_code(error) == apsw.SQLITE_IOERR and not is_wrong_page(error) and _is_full(path)


def is_closed_to_reader(path: bytes, error: BaseException) -> bool:
    """Return whether a catalog can't be opened because its reader may not make the log's index beside it."""
    is_refused = primary_code(error) in (apsw.SQLITE_CANTOPEN, apsw.SQLITE_READONLY)
    return is_refused and not may_write_beside(path) and os.access(path, os.R_OK)


def may_write_beside(path: bytes) -> bool:
    """Return whether the caller may create files beside a catalog."""
    return os.access(_folder(os.path.realpath(path)), os.W_OK)


def describe_damage(path: bytes, complaint: str) -> CatalogError:
    """Return the error for a damaged catalog, with the remedies; or for a failed disk, if that is the complaint."""
    if complaint.startswith(_DISK_FAILED):
        return CatalogError(f"{show_path(path)}: {complaint}; see the kernel's log")
    newest = next(reversed(own_files.find_backups(path)), None)
    hint = "" if newest is None else f" (newest backup: {show_path(newest)})"
    return CatalogCorrupt(
        f"{show_path(path)}: damaged: {complaint}; bring back a backup: {program.command('catalog restore')}{hint};"
        f" or keep what can be read of it: {program.command('catalog salvage')}"
    )


def check_whole(path: bytes, *, is_alone: bool = False) -> str | None:
    """Read all pages anew; return the first complaint, or None. ``is_alone``: nobody else uses the file."""
    try:
        is_shared = os.path.lexists(os.path.realpath(path) + own_files.LOG) or may_write_beside(path)
        with closing(Connection(path, "mode=ro" if is_shared and not is_alone else LOCKLESS)) as c:
            return find_complaint(c)
    except (apsw.Error, UnicodeDecodeError) as error:
        return describe_complaint(error)


def find_complaint(c: Connection, checks: str = "quick_check(1)") -> str | None:
    """Return what SQLite's checks say first of a file; None if it is intact."""
    try:
        answer = str(c.value(f"PRAGMA {checks}"))
    except (apsw.Error, UnicodeDecodeError) as error:
        if not is_damage(error):
            raise
        return describe_complaint(error)
    if answer == "ok":
        return None
    code = re.search(r"error code=(\d+)", answer)  # of a page that could not be read
    if code is None:
        return answer.removeprefix("*** in database main ***\n")
    return _WRONG_PAGE if int(code[1]) == apsw.SQLITE_IOERR_DATA else f"{_DISK_FAILED} ({code[0]})"


def describe_complaint(error: apsw.Error | UnicodeDecodeError) -> str:
    """Say what is wrong with a file of which an error was raised."""
    if is_wrong_page(error):
        return _WRONG_PAGE
    if primary_code(error) == apsw.SQLITE_IOERR:
        return f"{_DISK_FAILED} ({error})"
    return "its schema is damaged" if isinstance(error, UnicodeDecodeError) else str(error)


def _is_full(path: bytes) -> bool:
    status = os.statvfs(_folder(path))
    return status.f_bavail * status.f_frsize < 1 << 16


def _folder(path: bytes) -> bytes:
    return os.path.dirname(path) or b"."
