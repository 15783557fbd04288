"""
The lock that protects the catalog's file from replacement.

Each program that may write to a catalog holds a shared flock(2) on ``CATALOG.lock`` while the catalog is open. What
puts another file in its place (a restore, a salvage, an upgrade) holds it exclusively, so that no program keeps using
the replaced file. The kernel releases the lock when its process ends, so a killed program leaves nothing to clean up.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from integrity.catalog import own_files
from integrity.errors import CatalogError, CatalogLocked, show_path

_TRIES = 20
_BETWEEN_S = 0.1
_COMMAND_BYTES = 200


def hold_shared(catalog: bytes) -> int:
    """
    Take the shared lock and return its descriptor; closing the descriptor releases the lock.

    Raises CatalogLocked if the catalog is being replaced, CatalogError if the lock file cannot be used.
    """
    fd = _open(catalog)
    if _take(fd, fcntl.LOCK_SH):
        return fd
    os.close(fd)
    raise CatalogLocked(
        f"{show_path(catalog)}: is being restored, salvaged or upgraded at this moment; try again when that is done"
    )


@contextmanager
def shared_lock(catalog: bytes) -> Iterator[None]:
    """Hold the shared lock in the block. Raises like ``hold_shared``."""
    fd = hold_shared(catalog)
    try:
        yield
    finally:
        os.close(fd)


@contextmanager
def exclusive_lock(catalog: bytes) -> Iterator[None]:
    """
    Hold the exclusive lock in the block, to replace the catalog's file.

    Raises CatalogLocked, naming the process, if another program has it open.
    """
    fd = _open(catalog)
    try:
        _take_exclusive(catalog, fd)
        yield
    finally:
        os.close(fd)


@contextmanager
def held_alone(catalog: bytes, fd: int) -> Iterator[None]:
    """Upgrade the shared lock of a descriptor to exclusive for the block. Raises like ``exclusive_lock``."""
    try:
        _take_exclusive(catalog, fd)
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_SH)


@contextmanager
def upgrade_mark(catalog: bytes) -> Iterator[None]:
    """
    Let readers know, in the block, that the catalog is being upgraded.

    It excludes nobody, and whoever may read the catalog may hold it: the database's own lock protects the upgrade.
    """
    path, owner = os.path.realpath(catalog) + own_files.UPGRADING, own_files.find_owner(catalog)
    try:
        fd = own_files.open_own(path, os.O_RDWR | os.O_CREAT, owner)
        os.fchmod(fd, stat.S_IMODE(owner.st_mode) & 0o444 | 0o600)
    except OSError as error:
        raise CatalogError(
            f"{show_path(path)}: can't be made, so the catalog was not upgraded: {error.strerror}; free space there,"
            " and check its permissions"
        ) from error
    try:
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        os.close(fd)


def is_being_upgraded(catalog: bytes) -> bool:
    """Return whether a program upgrades the catalog at this moment; one that was killed leaves no lock behind."""
    try:
        path = os.path.realpath(catalog) + own_files.UPGRADING
        fd = own_files.open_own(path, os.O_RDONLY, own_files.find_owner(catalog))
    except (OSError, CatalogError):
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _take_exclusive(catalog: bytes, fd: int) -> None:
    if not _take(fd, fcntl.LOCK_EX):
        raise CatalogLocked(
            f"{show_path(catalog)}: is in use{_describe_holders(fd)}; stop that first (the service with: systemctl"
            " stop integrity), or wait for it to end"
        )


def _open(catalog: bytes) -> int:
    path = os.path.realpath(catalog) + own_files.LOCK
    try:
        return own_files.open_own(path, os.O_RDWR | os.O_CREAT, own_files.find_owner(catalog))
    except OSError as error:
        raise CatalogError(
            f"{show_path(path)}: the lock of the catalog can't be used: {error.strerror}; free space there, and check"
            " its permissions"
        ) from error


def _take(fd: int, kind: int) -> bool:
    """Take a lock, waiting up to 2 s for short commands that hold it; return whether it was taken."""
    for number in range(_TRIES):
        if number:
            time.sleep(_BETWEEN_S)
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return True
    return False


def _describe_holders(fd: int) -> str:
    """List the processes that hold a lock on a file; empty if the kernel does not show them (proc(5), ``locks``)."""
    own = os.fstat(fd)
    device, inode = f"{os.major(own.st_dev):02x}:{os.minor(own.st_dev):02x}", str(own.st_ino)
    try:
        with open("/proc/locks", encoding="ascii") as locks:
            words = [line.split() for line in locks]
    except OSError:
        return ""
    found = [one for one in words if one[1] == "FLOCK" and one[5].rpartition(":")[2] == inode]
    here = [one for one in found if one[5].startswith(device)]  # on btrfs this device differs from that of stat(2)
    pids = sorted({int(one[4]) for one in here or found})
    return f" (by {', '.join(map(_describe_process, pids))})" if pids else ""


def _describe_process(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(_COMMAND_BYTES).rstrip(b"\0").split(b"\0")
    except OSError:
        words = []
    name = b" ".join([os.path.basename(words[1] if len(words) > 1 else words[0]), *words[2:]]) if words[:1] else b""
    return f"process {pid}: {show_path(name)}" if name else f"process {pid}"
