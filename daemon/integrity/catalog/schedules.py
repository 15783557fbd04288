"""When schedules were begun: what must outlast the daemon, so that it can tell what it missed (R8)."""

from __future__ import annotations

from typing import NamedTuple, NewType

import sqlalchemy as sa

from integrity.catalog.schema import schedule_run
from integrity.model import RootId

ScheduleRunId = NewType("ScheduleRunId", int)

_KEPT_S = 400 * 86_400


class Unfinished(NamedTuple):
    """A run of a schedule of which no end is written down: it goes on, or was interrupted and is to go on."""

    id: ScheduleRunId
    started_at: int


def note_started(
    c: sa.Connection, schedule: str, root_id: RootId | None, *, due_at: int | None, now: int
) -> ScheduleRunId:
    """
    Write down that what a schedule asks for is begun; what is older than a year is forgotten.

    Args:
        c: in a transaction.
        schedule: its name, as in the config: scan, scrub, compare.
        root_id: the root; None: all of them.
        due_at: when it should have begun; None: somebody asked for it.
        now: the time.
    """
    c.execute(sa.delete(schedule_run).where(*_of(schedule, root_id), schedule_run.c.started_at < now - _KEPT_S))
    values = {"schedule": schedule, "root_id": root_id, "due_at": due_at, "started_at": now}
    key = c.execute(sa.insert(schedule_run).values(**values)).inserted_primary_key
    assert key is not None
    return ScheduleRunId(key[0])


def note_finished(c: sa.Connection, run_id: ScheduleRunId, outcome: str, *, now: int) -> None:
    """Write down how it ended."""
    values = {"finished_at": now, "outcome": outcome}
    c.execute(sa.update(schedule_run).where(schedule_run.c.id == run_id).values(**values))


def last_started(c: sa.Connection, schedule: str, root_id: RootId | None = None) -> int | None:
    """Tell when a schedule was last begun for a root (None: for all of them); None: never."""
    started_at: int | None = c.execute(
        sa.select(sa.func.max(schedule_run.c.started_at)).where(*_of(schedule, root_id))
    ).scalar_one()
    return started_at


def find_unfinished(c: sa.Connection, schedule: str, root_id: RootId | None = None) -> Unfinished | None:
    """Find the newest run of a schedule, if its end is not written down."""
    newest = sa.select(schedule_run).where(*_of(schedule, root_id))
    row = c.execute(newest.order_by(schedule_run.c.started_at.desc(), schedule_run.c.id.desc()).limit(1)).one_or_none()
    return None if row is None or row.finished_at is not None else Unfinished(row.id, row.started_at)


def _of(schedule: str, root_id: RootId | None) -> tuple[sa.ColumnElement[bool], ...]:
    return schedule_run.c.schedule == schedule, schedule_run.c.root_id.is_not_distinct_from(root_id)
