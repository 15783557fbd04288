"""
Open and configure the SQLite file of a catalog; reject files that are not catalogs; check its log (``-wal``).

Settings:

    page checksums       each page that is read from the disk is what was written (``db.py``)
    WAL                  readers never wait for the writer; a killed process loses only uncommitted changes
    synchronous=FULL     WAL with NORMAL loses acknowledged commits in a power cut; commit at most once a second (R9)
    busy_timeout=30 s    short writes of commands wait for a job's commit
    foreign_keys=ON      off by default in SQLite
    temp_store=FILE      a worklist of ten million files must not take memory
    cache_size=24 MiB    of writers: holds the indexes of some million rows; with the default of 2 MiB random inserts
                         read the disk. Readers go through tables in order, and gain nothing from it

Without a log the file is complete, so who may not make the log's index (``-shm``) beside it reads it as if nothing
could change it (``immutable``); SQLite then notices no writer that starts meanwhile. Of a log in use SQLite compares no
checksums: it would return a flipped bit as data, and carry it over under a right checksum of its page.

I1  What was read without locks counts only if no program can have written to the file since it was opened.
I2  No frame of a log is carried over whose checksum was not compared: checkpoints are made here only.
"""

import mmap
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

import apsw

from integrity import program
from integrity._native import ffi, lib
from integrity.catalog import own_files, sqlite_errors
from integrity.catalog.db import APPLICATION_ID, LOCKLESS, SCHEMA_REVISION, Connection
from integrity.catalog.own_files import LOG, is_being_upgraded
from integrity.errors import CatalogCorrupt, CatalogError, CatalogLocked, CatalogMissing, SchemaMismatch, show_path

_FIRST_CHECKED = 12  # since this revision pages have checksums

_PRAGMAS = ("foreign_keys = ON", "trusted_schema = OFF", "temp_store = FILE")
_WRITER_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "cache_size = -24576")
_MISSING_TABLE = apsw.SQLITE_ERROR

_TRIES = 20
_BETWEEN_S = 0.05
"""A program that starts or ends writing makes and removes log and index one after the other, within milliseconds."""


class CatalogFile(NamedTuple):
    """An open catalog file: a connection in autocommit, and the revision of its schema."""

    connection: Connection
    revision: str
    lockless: "LocklessFile | None" = None  # set if it is read without locks


def open_database(path: bytes, *, writes: bool, busy_timeout_s: float) -> CatalogFile:
    """
    Open a catalog's file. A reader who may not write beside it opens it without locks if no program has it open.

    Raises:
        CatalogCorrupt: what is read first is damaged, twice (EIO can look like corruption once, R9), or no catalog.
        CatalogError: the disk is full, or the catalog was not closed properly and the reader may not index its log.
        apsw.Error: any other failure.
    """
    if sqlite_errors.may_end_by_signal(path):
        if writes:
            raise sqlite_errors.describe_full(path)
        return _open_on_full_disk(path, busy_timeout_s=busy_timeout_s)
    for number in range(_TRIES):
        if number:
            time.sleep(_BETWEEN_S)
        try:
            return _open_shared(path, writes=writes, busy_timeout_s=busy_timeout_s)
        except apsw.Error as error:
            if writes or not sqlite_errors.is_closed_to_reader(path, error):
                raise
            refused = error
        opened = _open_lockless(path)
        if opened is not None:
            return opened
    if os.path.lexists(os.path.realpath(path) + own_files.LOG_INDEX):
        raise refused
    raise _describe_unclosed(path)


def _open_shared(path: bytes, *, writes: bool, busy_timeout_s: float) -> CatalogFile:
    """Open a catalog beside other programs. Raises like ``open_database``."""
    for is_last in (False, True):
        c = Connection(path, "mode=rw" if writes else "mode=ro", busy_timeout_s=busy_timeout_s)
        try:
            return _set_up(path, c, last=_WRITER_PRAGMAS if writes else ())
        except apsw.Error as error:
            if writes or not sqlite_errors.is_without_room(path, error):
                raise
            return _open_alone(path, busy_timeout_s=busy_timeout_s)
        except CatalogCorrupt:
            if is_last:
                raise
    raise AssertionError("the second attempt returns or raises")


def _open_lockless(path: bytes) -> CatalogFile | None:
    """Open a catalog that no program has open; return None if one may have written to it meanwhile."""
    state = LocklessFile(path)
    if state.is_changed():
        return None
    try:
        return _set_up(path, Connection(path, LOCKLESS), state=state)
    except (CatalogError, apsw.Error):
        if state.is_changed():
            return None
        raise


def _describe_unclosed(path: bytes) -> CatalogError:
    return CatalogError(
        f"{show_path(path)}: was not closed properly, and only a program that may write to its folder can read its log;"
        " start the service (systemctl start integrity), or run this as the catalog's owner"
    )


def _open_on_full_disk(path: bytes, *, busy_timeout_s: float) -> CatalogFile:
    """Open a catalog for reading without writing to the index of its log, which another program may have in use."""
    try:
        return _set_up(path, Connection(path, "mode=ro&readonly_shm=1", busy_timeout_s=busy_timeout_s))
    except (apsw.CantOpenError, apsw.ReadOnlyError):  # there is no index
        return _open_alone(path, busy_timeout_s=busy_timeout_s)


def _open_alone(path: bytes, *, busy_timeout_s: float) -> CatalogFile:
    """
    Open a catalog for reading on a full disk, which has no room for the log's shared index (``-shm``).

    In exclusive locking mode SQLite keeps the index in memory, and no other program can use the catalog. If another
    program has it open, the index file exists already and this function is not needed.
    """
    c = Connection(path, "mode=rw", busy_timeout_s=busy_timeout_s)
    return _set_up(path, c, first=("locking_mode = EXCLUSIVE", "query_only = ON"))


def require_file(path: bytes) -> None:
    """
    Require that a catalog file exists and that every SQLite side file belongs to it.

    An interrupted restore is finished first.

    Raises:
        CatalogMissing: the file does not exist.
        CatalogCorrupt: the file is empty.
        CatalogLocked: a restore is not finished, and the caller may not finish it.
        CatalogError: the file was not made by this program, or cannot be read.
    """
    if own_files.is_being_restored(path):
        if not sqlite_errors.may_write_beside(path):
            raise CatalogLocked(
                f"{show_path(path)}: is being restored; try again when that is done. The next start of the service"
                " finishes a restore that was interrupted"
            )
        from integrity.catalog.maintenance import finish_restore  # here, for hardly any restore is interrupted

        finish_restore(path)
    try:
        own_files.require_own(path)
        size = os.stat(path).st_size
    except FileNotFoundError as error:
        raise CatalogMissing(
            f"{show_path(path)}: there is no catalog; make one: {program.command('scan FOLDER')}; "
            f"or bring back a backup: {program.command('catalog restore')}"
        ) from error
    except OSError as error:
        raise CatalogError(f"{show_path(path)}: the catalog cannot be opened: {error.strerror}") from error
    if size == 0:
        raise sqlite_errors.describe_damage(path, "the file is empty")


def _set_up(
    path: bytes,
    c: Connection,
    *,
    first: Sequence[str] = (),
    last: Sequence[str] = (),
    state: "LocklessFile | None" = None,
) -> CatalogFile:
    """Configure a connection, by further pragmas first, and last when it is known as a catalog's; close it else."""
    with ExitStack() as opened:
        opened.callback(c.close)
        try:
            for pragma in (*first, *_PRAGMAS):
                c.run(f"PRAGMA {pragma}")
            if c.value("PRAGMA application_id") != APPLICATION_ID:
                raise sqlite_errors.describe_damage(path, "it is no catalog of integrity, or its first page is lost")
            revision = str(c.value("SELECT version_num FROM alembic_version"))
            for pragma in last:
                c.run(f"PRAGMA {pragma}")
        except (apsw.Error, UnicodeDecodeError) as error:
            if not sqlite_errors.is_damage(error) and sqlite_errors.primary_code(error) != _MISSING_TABLE:
                raise
            raise sqlite_errors.describe_damage(path, sqlite_errors.describe_complaint(error)) from error
        if not revision.isdigit():
            raise sqlite_errors.describe_damage(path, "its schema has no version")
        if int(revision) >= _FIRST_CHECKED:
            if c.value("PRAGMA checksum_verification") != "1":
                raise sqlite_errors.describe_damage(path, "its header says that its pages have no checksums")
            if check_log(c, os.path.realpath(path)) is None:
                raise sqlite_errors.describe_damage(path, DAMAGED_LOG)
        if state is not None:
            state.require_unchanged()
        opened.pop_all()
    return CatalogFile(c, revision, state)


def require_usable(path: bytes, revision: str, *, writes: bool) -> bool:
    """
    Return whether a catalog of this revision must be upgraded first.

    Raises:
        SchemaMismatch: the schema is newer, or older and ``writes`` is False.
        CatalogLocked: the same, and the catalog is being upgraded.
    """
    if int(revision) > int(SCHEMA_REVISION):
        back = ""
        if copy := own_files.find_before(path, SCHEMA_REVISION):
            back = ", or go back to the catalog as it was before the upgrade, without what was recorded since:"
            back += f" {program.command('catalog restore', copy)}"
        raise SchemaMismatch(
            f"{show_path(path)}: was written by a newer integrity (schema {revision}; this program knows "
            f"{SCHEMA_REVISION}); upgrade the program{back}"
        )
    is_older = int(revision) < int(SCHEMA_REVISION)
    if is_older and not writes and is_being_upgraded(path):
        raise CatalogLocked(
            f"{show_path(path)}: is being upgraded for this version of integrity, which takes some minutes for a large"
            " catalog; try again when that is done"
        )
    if is_older and not writes:
        raise SchemaMismatch(
            f"{show_path(path)}: was written by an older integrity (schema {revision}); run:"
            f" {program.command('catalog upgrade')}; a service upgrades it when it starts, which takes some minutes"
        )
    return is_older


_GRANULE_NS = 20_000_000  # two writes within one tick of the kernel's clock can leave the same times (R1)


class LocklessFile:
    """The state of a catalog file, which may be a link, taken before SQLite opens it without locks."""

    def __init__(self, path: bytes) -> None:
        self._path = os.path.realpath(path)
        self._seen = self._look()
        *_, mtime_ns, ctime_ns = self._seen
        self._is_racy = abs(time.time_ns() - max(mtime_ns, ctime_ns)) < _GRANULE_NS

    def is_changed(self) -> bool:
        """Return whether a program may have written to the file. A file that was written just now counts as changed."""
        # The log first: if a writer has removed its log again, the times of the file have moved.
        return self._is_racy or os.path.lexists(self._path + LOG) or self._look() != self._seen

    def require_unchanged(self) -> None:
        """Raise CatalogLocked if a program may have written to the file: what was read may be wrong."""
        if self.is_changed():
            raise CatalogLocked(
                f"{show_path(self._path)}: another program began to write to the catalog while it was read; try again"
            )

    def _look(self) -> tuple[int, ...]:
        """Return what changes when the log is written back into the file."""
        try:
            seen = os.stat(self._path)
        except FileNotFoundError:  # a restore moves it away
            return 0, 0, 0, 0, 0
        return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


LIMIT_BYTES = 8 << 20
LIMIT_S = 60.0  # a log that is longer, or older, is carried over: at most that much is lost with it

DAMAGED_LOG = "its log (-wal) is not as it was written"


class LogFrames(NamedTuple):
    """The frames of a log: whose checksums are right, and commits behind one whose checksum is wrong."""

    sound: int
    lost: int = 0
    is_torn: bool = False  # the wrong one is a commit itself, which a program may be writing

    @property
    def are_whole(self) -> bool:
        """Return whether no commit is lost, or is being written."""
        return not (self.lost or self.is_torn)


def check_log(c: Connection, path: bytes) -> LogFrames | None:
    """
    Check the log of an open catalog at its real path; None if a frame of it that is in use is damaged.

    Other programs add frames meanwhile, and begin the log anew, so one look proves no damage.

    Raises CatalogError if a commit stays unfinished, and the caller is not told whether it is in use.
    """
    c.row("SELECT 1 FROM sqlite_master")  # else a new connection has not opened the log, and counts nothing
    is_unfinished = False
    for _ in range(_TRIES):
        before, found, after = _count_in_use(c), _read_log(path), _count_in_use(c)
        if found is None:
            continue
        if before is not None and after is not None:
            if found.sound >= min(before, after):
                return found
            continue
        if found.are_whole:
            return found
        is_unfinished = not found.lost
        time.sleep(_BETWEEN_S)  # a program that was interrupted between two writes
    if is_unfinished:
        raise _describe_unclosed(path)
    return None


def carry_over(c: Connection, path: bytes, *, wholly: bool = False) -> bool:
    """
    Write the log back into the file, as far as no reader needs it; return False, and do nothing, if it is damaged.

    ``wholly``: then empty it, if nobody else has the catalog open.
    """
    if check_log(c, path) is None:
        return False
    mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if wholly else apsw.SQLITE_CHECKPOINT_PASSIVE
    c.driver.wal_checkpoint(mode=mode)
    return True


def end_lost(c: Connection, path: bytes) -> bool:
    """Return whether a crash left commits behind a damaged frame, which nothing can bring back; end that log then."""
    found = check_log(c, path)
    if found is None or found.are_whole:
        return False
    c.run("BEGIN IMMEDIATE")  # else they may be those of another program, which writes them at this moment
    found = _read_log(path)
    c.run("COMMIT")
    if found is None or found.are_whole:
        return False
    return carry_over(c, path, wholly=True)


def _count_in_use(c: Connection) -> int | None:
    """Return how many frames are in use, by the index that all programs share; who may not write is not told."""
    try:
        frames, _ = c.driver.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    except apsw.ReadOnlyError:
        return None
    return max(frames, 0)


def _read_log(path: bytes) -> LogFrames | None:
    try:
        with open(path + LOG, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as log:
            found = ffi.new("wal_frames *")
            data = ffi.from_buffer("uint8_t[]", log)
            is_log = lib.wal_check(data, len(log), found)
            ffi.release(data)
    except (FileNotFoundError, ValueError):  # there is none, or it is empty
        return LogFrames(0)
    return LogFrames(found.sound, found.lost, bool(found.is_torn)) if is_log else None
