"""
Prepare the process and the catalog, keep memory small between jobs, and mark clean shutdowns.

Catalog: one that can't be relied on is restored from its newest good backup before any job starts (R9).
Capabilities: the unit grants CAP_DAC_READ_SEARCH through the ambient set, which children such as alert commands and
rclone would inherit (capabilities(7)), so it is cleared. Memory: glibc keeps freed memory per thread, and Python
collects cycles (with their descriptors) late, so both are forced. Other C libraries have no such calls.

Clean shutdown (R2): systemd does not tell a service why it stops, so the unit sends SIGPWR before SIGTERM when the
machine goes down. Without the signal, the boot is not marked as clean and later rot is reported as uncertain.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog import copying, findings, roots, runs, sqlite_errors
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.catalog.maintenance import finish_restore, restore
from integrity.catalog.own_files import find_backups, is_being_restored, share_with_group
from integrity.errors import AppError, CatalogCorrupt, CatalogError, CatalogMissing, show_path
from integrity.files.mount_state import is_still_mounted
from integrity.files.system_load import read_boot_uuid
from integrity.model import FindingKind

if TYPE_CHECKING:
    from integrity.config import Config


# malloc.h
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_ARENAS = 2
_LARGE_BYTES = 256 << 10

_BUSY_S = 60.0
"""Interval of trimming in a service that is never idle. It takes 0.1 s, on the slowest machines 1 s."""

_libc = ctypes.CDLL(None)


def limit_memory_use() -> None:
    """Limit the number of malloc arenas, and free large buffers at once. Call this before threads are started."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_ARENA_MAX, _ARENAS)
        _libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)  # otherwise the threshold grows with what is freed
        _libc.mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)


class MemoryTrimmer:
    """Return freed memory to the system: after the last job, and once a minute while jobs follow each other."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._trimmed_at = monotonic()
        self._has_worked = False

    def job_ended(self) -> None:
        """Record that memory can be freed. Any thread may call it."""
        self._has_worked = True

    def trim(self, *, is_busy: bool) -> None:
        """Free memory if it is time to; this takes tens of milliseconds."""
        now = self._monotonic()
        if not self._has_worked or (is_busy and now - self._trimmed_at < _BUSY_S):
            return
        self._has_worked, self._trimmed_at = False, now
        gc.collect()
        if hasattr(_libc, "malloc_trim"):
            _libc.malloc_trim(0)


_log = logging.getLogger(__name__)


def mark_clean_stop(open_catalog: Callable[[], Catalog], now: int) -> None:
    """Record that this boot ends cleanly. Any of our programs that still runs in this boot reverts it."""
    try:
        with open_catalog() as catalog, catalog.transaction() as connection:
            uuid = read_boot_uuid()
            mounts = runs.find_last_mounts(connection, uuid)
            there = [number for number, mount in mounts.items() if is_still_mounted(mount)]
            runs.mark_clean_stop(connection, uuid, now, there)
    except AppError as error:  # at worst, later rot is reported as less certain than it is
        _log.warning("clean_stop_not_marked: %s", error)
        return
    _log.info("the machine goes down in order")


def make_folder(path: bytes) -> None:
    """
    Make the folder of the catalog if it is missing. The link to the control socket is also in it.

    Raises:
        CatalogError: the folder can't be made.
    """
    folder = os.path.dirname(os.path.abspath(path))
    try:
        copying.make_folder(folder)
    except OSError as error:
        raise CatalogError(f"{show_path(folder)}: cannot make the catalog's folder: {error.strerror}") from error


def prepare_catalog(path: bytes, config: Config, *, clock: Callable[[], float]) -> None:
    """
    Create, check, upgrade or restore the catalog.

    A damaged catalog is moved aside and replaced by its newest good backup, which is reported as a finding.

    Raises:
        CatalogMissing: there is no catalog, but backups of one: a new catalog would lose all baselines.
        CatalogError: it can't be opened, or it is damaged and no backup is good.
    """
    folder = config.catalog_backup.folder
    if is_being_restored(path):
        finish_restore(path)  # before the backups: it may have been killed when the former catalog was moved away
    if not os.path.lexists(path):
        backups = list(find_backups(path, folder))
        if backups:
            raise CatalogMissing(
                f"no catalog at {show_path(path)}, but backups of it, the newest being {show_path(backups[-1])}: bring"
                f" it back with: {program.command('catalog restore')}; to begin anew all the same, move the"
                " backups away"
            )
        Catalog.create(path, clock=clock).close()
        _log.info("catalog_made path=%s", show_path(path))
        return
    share_with_group(path)
    try:
        Catalog.open(path, writes=True).close()  # first, for it may have to be upgraded
        complaint = sqlite_errors.check_whole(path)
        if complaint is not None:
            raise sqlite_errors.describe_damage(path, complaint)
    except CatalogCorrupt as error:
        _log.error("catalog_damaged: %s", error)
        taken, aside = restore(path, folder)
        kept = "" if aside is None else f"; the damaged one is kept as {show_path(aside)}"
        message = (
            f"the catalog was damaged and was restored from {show_path(taken)}: what was recorded or verified since is"
            f" done anew{kept}. See how its disk is"
        )
        _log.error("catalog_restored: %s", message)
        with Catalog.open(path, writes=True) as catalog, catalog.transaction() as connection:
            for root in roots.find_roots(connection):
                new = NewFinding(FindingKind.CATALOG_DAMAGED, root.id, None, None, message)
                findings.open_finding(connection, new, now=int(clock()), run_id=None)


_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4  # linux/prctl.h
_PR_GET_NO_NEW_PRIVS = 39
_VERSION_3 = 0x20080522  # linux/capability.h: two words of 32 bits for each set


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilitySets(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def drop_inheritable_capabilities() -> None:
    """
    Clear the ambient set and, unless no_new_privs is set, the inheritable set.

    Call this before threads are started, because they inherit the sets. Under no_new_privs, as in the unit (whose
    system call filter blocks capset(2)), the inheritable set gives children nothing: execve(2).

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _require(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl")
    if libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1:
        return
    header, sets = _CapabilityHeader(_VERSION_3, 0), (_CapabilitySets * 2)()
    _require(libc.capget(ctypes.byref(header), ctypes.byref(sets)), "capget")
    for words in sets:
        words.inheritable = 0
    _require(libc.capset(ctypes.byref(header), ctypes.byref(sets)), "capset")


def _require(answer: int, call: str) -> None:
    if answer != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), call)
