"""
When a root was moved to another place, or released onto other storage, and how far it had been scanned until then.

Nobody can have edited its files through the recorded place in between, so an older time of a changed file explains
nothing. It holds for each file until its content is recorded or found as recorded at the new place.
"""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from integrity.catalog.root_meta import RootMeta
from integrity.catalog.roots import RootRecord, count_files_until
from integrity.catalog.rows import FileRecord
from integrity.catalog.schema import run
from integrity.model import Job, Tally

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


def save_move(c: sa.Connection, root: RootRecord, now: int) -> None:
    """Record that a root is moved."""
    _MOVES.drop(c, root.id, _ID)
    _MOVES.save(c, root, _ID, {"moved_at": now, "scanned_at": _find_last_scan(c, root, now)})


def find_move(c: sa.Connection, root: RootRecord) -> RootMove | None:
    """Return the last move of a root; None if it was never moved."""
    for _, value in _MOVES.find(c, root):
        numbers = value.get("moved_at"), value.get("scanned_at")
        if isinstance(numbers[0], int) and isinstance(numbers[1], int):
            return RootMove(numbers[0], numbers[1])
    return None


def _find_last_scan(c: sa.Connection, root: RootRecord, now: int) -> int:
    """Return the start of the last run that counted each file of a root; 0: there is none, or it is long ago."""
    known: sa.ColumnElement[int] = sum((run.c[tally.value] for tally in Tally), start=sa.literal_column("0"))
    looks = run.c.root_id == root.id, run.c.job.in_([Job.SCAN.value, Job.SCRUB.value]), run.c.outcome.is_not(None)
    query = sa.select(run.c.started_at, run.c.last_file_id, known - run.c.skipped).where(*looks)
    query = query.where(run.c.started_at <= now)  # not one under a clock that was ahead
    for started_at, last_file_id, count in c.execute(query.order_by(run.c.id.desc()).limit(_RUNS_LOOKED_AT)):
        if count and count >= count_files_until(c, root.id, last_file_id or 0):
            return int(started_at)
    return 0
