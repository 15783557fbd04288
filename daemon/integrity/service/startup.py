"""
Keep the service small between its jobs.

The C library keeps what a job has freed, and has each thread keep its own: a service that records a large tree once
would stay as large for months. Other libraries than glibc have no such calls, and need none.

Python frees a job's objects late: they refer to each other in cycles, and full garbage collections become the rarer
the more a process holds. Until then they keep their memory, and descriptors as well.

Whether the machine goes down in order, so that it can be told from a power cut afterwards (R2).

systemd tells a service that it ends, but not why, and who runs without rights may not ask the manager. So the unit asks
for us when it is stopped, and sends a SIGPWR ahead of the SIGTERM if the machine goes down. Whoever starts the service
in another way can do the same. Without the signal nothing is marked, and rot that is found later is called uncertain.

Before anything else: a catalog that can be relied on, restored from its newest good backup if it can't (R9).

What the service may, its children may not: commands that alerts run, rclone.

The unit gives the service CAP_DAC_READ_SEARCH, to read what is only its owner's. systemd does so through the ambient
set, which every program that is started inherits: capabilities(7).
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from integrity.catalog import copying, findings, roots, runs
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.catalog.own_files import find_backups
from integrity.catalog.restore import restore
from integrity.catalog.sqlite_errors import list_damage
from integrity.config import read_seal_key
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
"""So often memory is given back by a service that is never idle: 0.1 s of a minute, on the slowest machines 1 s."""

_libc = ctypes.CDLL(None)


def be_small() -> None:
    """Have threads share what they free, and large buffers go back at once; to be called before threads are started."""
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_M_ARENA_MAX, _ARENAS)
        _libc.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)  # else it grows with what is freed
        _libc.mallopt(_M_TRIM_THRESHOLD, _LARGE_BYTES)


class MemoryTrimmer:
    """
    Gives the system what jobs have left: when the last one has ended, and once a minute while others follow.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._trimmed_at = monotonic()
        self._has_worked = False

    def job_ended(self) -> None:
        """Learn that there is something to give back; for any thread."""
        self._has_worked = True

    def trim(self, *, is_busy: bool) -> None:
        """Give memory back if it is time to; takes some tens of milliseconds then."""
        now = self._monotonic()
        if not self._has_worked or (is_busy and now - self._trimmed_at < _BUSY_S):
            return
        self._has_worked, self._trimmed_at = False, now
        gc.collect()
        if hasattr(_libc, "malloc_trim"):
            _libc.malloc_trim(0)


_log = logging.getLogger(__name__)

GOES_DOWN = signal.SIGPWR


def mark_clean_stop(open_catalog: Callable[[], Catalog], now: int) -> None:
    """Write down that this boot ends in order; whatever program of ours still runs in it takes that back."""
    try:
        with open_catalog() as catalog, catalog.transaction() as connection:
            uuid = read_boot_uuid()
            mounts = runs.find_last_mounts(connection, uuid)
            there = [number for number, mount in mounts.items() if is_still_mounted(mount)]
            runs.mark_clean_stop(connection, uuid, now, there)
    except AppError as error:  # the worst that follows is rot that is called less certain than it is
        _log.warning("clean_stop_not_marked: %s", error)
        return
    _log.info("the machine goes down in order")


def make_folder(path: bytes) -> None:
    """
    Make the folder of the catalog, if need be: the link to the service's socket lies there, too.

    Raises:
        CatalogError: it can't be made.
    """
    folder = os.path.dirname(os.path.abspath(path))
    try:
        copying.make_folder(folder)
    except OSError as error:
        raise CatalogError(f"{show_path(folder)}: cannot make the catalog's folder: {error.strerror}") from error


def prepare_catalog(path: bytes, config: Config, *, clock: Callable[[], float]) -> None:
    """
    See to it that there is a catalog, whole and of this version; it is upgraded if need be.

    A damaged one is put aside and its newest good backup takes its place, which is told as a finding. One with damaged
    rows stays, and that is told, too.

    Raises:
        CatalogMissing: there is none, but backups of one: making a new one would forget all baselines.
        CatalogError: it can't be opened, or it is damaged and no backup is good.
    """
    key, folder = read_seal_key(config), config.catalog_backup.folder
    if not os.path.lexists(path):
        backups = list(find_backups(path, folder))
        if backups:
            raise CatalogMissing(
                f"no catalog at {show_path(path)}, but backups of it, the newest being {show_path(backups[-1])}: bring"
                " it back with: integrity catalog restore; to begin anew all the same, move the backups away"
            )
        Catalog.create(path, seal_key=key, clock=clock).close()
        _log.info("catalog_made path=%s", show_path(path))
        return
    try:
        with Catalog.open(path, writes=True, seal_key=key) as catalog:
            rows = catalog.damaged_rows
            if rows:
                message = f"the catalog is damaged: {list_damage(rows)}; run: integrity catalog check"
                _log.warning("catalog_damaged: %s", message)
                _tell(catalog, message, int(clock()))
    except CatalogCorrupt as error:
        _log.error("catalog_damaged: %s", error)
        taken, aside = restore(path, folder, seal_key=key)
        kept = "" if aside is None else f"; the damaged one is kept as {show_path(aside)}"
        message = (
            f"the catalog was damaged and was restored from {show_path(taken)}: what was recorded or verified since is"
            f" done anew{kept}. See how its disk is"
        )
        _log.error("catalog_restored: %s", message)
        with Catalog.open(path, writes=True, seal_key=key) as catalog:
            _tell(catalog, message, int(clock()))


def _tell(catalog: Catalog, message: str, now: int) -> None:
    with catalog.transaction() as connection:
        for root in roots.find_roots(connection):
            new = NewFinding(FindingKind.CATALOG_DAMAGED, root.id, None, None, message)
            findings.open_finding(connection, new, now=now, run_id=None)


_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4  # linux/prctl.h
_PR_GET_NO_NEW_PRIVS = 39
_VERSION_3 = 0x20080522  # linux/capability.h: two words of 32 bits for each set


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Words(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def keep_capabilities_to_ourselves() -> None:
    """
    Clear the ambient set and, where it could give a child anything, the inheritable one.

    Before other threads are started, which inherit these. Under no_new_privs, as in the unit, whose filter of system
    calls leaves out capset(2), no program gets anything from the inheritable set: execve(2).

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _require(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "prctl")
    if libc.prctl(_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1:
        return
    header, sets = _Header(_VERSION_3, 0), (_Words * 2)()
    _require(libc.capget(ctypes.byref(header), ctypes.byref(sets)), "capget")
    for words in sets:
        words.inheritable = 0
    _require(libc.capset(ctypes.byref(header), ctypes.byref(sets)), "capset")


def _require(answer: int, call: str) -> None:
    if answer != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), call)
