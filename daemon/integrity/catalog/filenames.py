"""
What the files are called that stand beside a catalog because of it.

    CATALOG-wal, -shm, -journal         SQLite's own
    CATALOG.lock                        who has it open (locking.py)
    CATALOG.root-N.lock                 who works on root N (jobs/lock.py)
    CATALOG.control                     leads to the service's socket (service/sockets.py)
    CATALOG.new-XXXXXXXX                a catalog until it is whole (building.py)
    CATALOG.restoring                   the backup that a restore brings back (restoring.py)
    CATALOG.replaced-TIME               the catalog before a restore
    CATALOG.before-REVISION-TIME        the catalog before an upgrade (upgrade.py)
    STEM-TIME.SUFFIX                    a backup; CATALOG is STEM.SUFFIX (backup.py)
    FILE.partial                        a copy of a catalog until it is whole (copying.py)

Times sort as text. SQLite names its files after what a link leads to, and so do the locks.
"""

from __future__ import annotations

import os
import re
import secrets
import time

from integrity.model import RootId

LOG, LOG_INDEX, JOURNAL = b"-wal", b"-shm", b"-journal"
SQLITE_SUFFIXES = (LOG, LOG_INDEX, JOURNAL)

_TIME = rb"\d{8}T\d{6}Z"


def lock_path(catalog: bytes) -> bytes:
    """Name the lock of a catalog's file."""
    return os.path.realpath(catalog) + b".lock"


def root_lock_path(catalog: bytes, root_id: RootId) -> bytes:
    """Name the lock of a root."""
    return os.path.realpath(catalog) + b".root-%d.lock" % root_id


def control_path(catalog: bytes) -> bytes:
    """Name the link that leads to the socket of the service."""
    return catalog + b".control"


def draft_path(catalog: bytes) -> bytes:
    """Make up a name for a catalog that is being made."""
    return catalog + b".new-" + secrets.token_hex(4).encode()


def restoring_path(catalog: bytes) -> bytes:
    """Name what a restore brings back."""
    return catalog + b".restoring"


def is_being_restored(catalog: bytes) -> bool:
    """Say whether a restore was decided, and is not at its end: whoever opens the catalog ends it."""
    return os.path.lexists(restoring_path(os.path.realpath(catalog)))


def replaced_path(catalog: bytes, at: int) -> bytes:
    """Name the catalog that a restore replaces, at a time in seconds UTC."""
    return catalog + b".replaced-" + _write_time(at)


def before_path(catalog: bytes, revision: str, at: int) -> bytes:
    """Name the copy of a catalog from before its upgrade to a revision of the schema."""
    return catalog + b".before-" + revision.encode() + b"-" + _write_time(at)


def partial_path(copy: bytes) -> bytes:
    """Name a copy while it is being written."""
    return copy + b".partial"


def backup_name(catalog: bytes, at: int) -> bytes:
    """Name a backup, without its folder."""
    stem, suffix = os.path.splitext(os.path.basename(catalog))
    return stem + b"-" + _write_time(at) + suffix


def find_backups(catalog: bytes, folder: bytes = b"") -> list[bytes]:
    """
    List the backups of a catalog, oldest first.

    Args:
        catalog: its path.
        folder: where they are; beside the catalog when empty.
    """
    stem, suffix = (re.escape(part) for part in os.path.splitext(os.path.basename(catalog)))
    pattern = re.compile(stem + b"-" + _TIME + suffix)
    folder = folder or os.path.dirname(catalog) or b"."
    if not os.path.isdir(folder):
        return []
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if pattern.fullmatch(name)]


def compile_own_names(catalog: bytes) -> re.Pattern[bytes]:
    """Match the names of the catalog and of all files that stand beside it because of it, in one folder."""
    stem, suffix = (re.escape(part) for part in os.path.splitext(os.path.basename(catalog)))
    tails = rb"-wal|-shm|-journal|(\.root-\d+)?\.lock|\.control|\.restoring|\.partial|\.new-\w+"
    copies = rb"\.(damaged|replaced|before)-.*"  # what versions before this one put aside was called damaged
    return re.compile(stem + rb"(-" + _TIME + rb")?" + suffix + rb"(" + tails + rb"|" + copies + rb")*")


def compile_alike(name: bytes) -> re.Pattern[bytes]:
    """Match the names of files that are made for the same purpose: they differ in a time, or in something random."""
    fixed = re.split(_TIME + rb"|(?<=\.new-)[0-9a-f]{8}", name)
    return re.compile(rb"\w+".join(map(re.escape, fixed)))


def _write_time(at: int) -> bytes:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at)).encode()
