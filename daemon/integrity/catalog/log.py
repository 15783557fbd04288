"""
The log of a catalog (``-wal``): checked when the catalog is opened and before it is carried over, and kept short.

SQLite compares the checksums of a log only when it recovers one after a crash. Of a log in use a flipped bit is
returned as data, and the page that it lies in then gets a right checksum in the file.

I1  No frame is carried over whose checksum was not compared: checkpoints are made here only.
"""

from __future__ import annotations

import mmap
from typing import NamedTuple

import apsw

from integrity._native import ffi, lib
from integrity.catalog.db import Connection
from integrity.catalog.own_files import LOG

LIMIT_BYTES = 8 << 20
LIMIT_S = 60.0  # a log that is longer, or older, is carried over: at most that much is lost with it

DAMAGED_LOG = "its log (-wal) is not as it was written"

_TRIES = 5


class LogFrames(NamedTuple):
    """The frames of a log: whose checksums are right, and commits behind one whose checksum is wrong."""

    sound: int
    lost: int


def check_log(c: Connection, path: bytes) -> LogFrames | None:
    """Check the log of an open catalog at its real path; None if a frame of it that is in use is damaged."""
    c.row("SELECT 1 FROM sqlite_master")  # else a new connection has not opened the log, and counts nothing
    for _ in range(_TRIES):
        before, found, after = _count_in_use(c), _read_log(path), _count_in_use(c)
        if found is None:
            continue
        # Other programs add frames, and begin the log anew.
        if not found.lost if before is None or after is None else found.sound >= min(before, after):
            return found
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
    if found is None or not found.lost:
        return False
    c.run("BEGIN IMMEDIATE")  # else they may be those of another program, which writes them at this moment
    found = _read_log(path)
    c.run("COMMIT")
    if found is None or not found.lost:
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
        return LogFrames(0, 0)
    return LogFrames(found.sound, found.lost) if is_log else None
