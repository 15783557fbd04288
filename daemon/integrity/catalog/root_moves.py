"""
When a root was moved to another place, or released onto other storage, and how far it had been scanned until then.

Nobody can have edited its files through the recorded place in between, so an older time of a changed file explains
nothing. It holds for each file until its content is recorded or found as recorded at the new place.
"""

from __future__ import annotations

from typing import NamedTuple

from integrity.catalog.db import Connection
from integrity.catalog.root_meta import RootMeta
from integrity.catalog.roots import RootRecord, count_files_until
from integrity.catalog.rows import FileRecord
from integrity.model import Tally

_MOVES = RootMeta("moved")
_ID = "last"
_RUNS_LOOKED_AT = 100


class RootMove(NamedTuple):
    """The last move of a root: when, and the start of the last run that had looked at every file before. Seconds."""

    moved_at: int
    scanned_at: int

    def covers(self, checked_at: int) -> bool:
        """Return whether a file that was last recorded or verified then has not been seen at the new place."""
        return checked_at <= self.moved_at

    def covers_file(self, record: FileRecord) -> bool:
        """Return whether a file has not been seen at the new place."""
        return self.covers(max(record.recorded_at, record.verified_at or 0))

    def is_unwritten(self, record: FileRecord, mtime_ns: int) -> bool:
        """
        Return whether the time of a changed file shows no write: it went back when the root was moved.

        A later time than the recorded one is that of a version which was put here since, with its own time (rsync -a).
        """
        is_older = mtime_ns < min(record.witness.mtime_ns, self.scanned_at * 10**9)
        return is_older and self.covers_file(record)


def save_move(c: Connection, root: RootRecord, now: int) -> None:
    """Record that a root is moved."""
    _MOVES.save(c, root, _ID, {"moved_at": now, "scanned_at": _find_last_scan(c, root, now)})


def find_move(c: Connection, root: RootRecord) -> RootMove | None:
    """Return the last move of a root; None if it was never moved."""
    return next((RootMove(value["moved_at"], value["scanned_at"]) for _, value in _MOVES.find(c, root)), None)


def _find_last_scan(c: Connection, root: RootRecord, now: int) -> int:
    """Return the start of the last run that counted each file of a root; 0: there is none, or it is long ago."""
    query = f"""
        SELECT started_at, coalesce(last_file_id, 0), {" + ".join(Tally)} - skipped FROM run
        WHERE root_id = ? AND job IN ('scan', 'scrub') AND outcome IS NOT NULL
            AND started_at <= ? -- not one under a clock that was ahead
        ORDER BY id DESC LIMIT {_RUNS_LOOKED_AT}"""
    rows = c.rows(query, root.id, now)
    for started_at, last_file_id, count in rows:
        if count and count >= count_files_until(c, root.id, last_file_id):
            return int(started_at)
    return 0
