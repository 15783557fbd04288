"""
The queue of what is to be reported to a hub, and how much of it the hub has confirmed.

Triggers queue references to what changed (``report_triggers.py``). Before they are sent they become numbered messages,
one batch at a time, so the queue stays small however long the hub is away.

I1  References leave the queue in the transaction that stores their messages. A stored message never changes: it is
    repeated with the same text until it is confirmed, so the chain of the stream holds.
I2  ``confirmed`` and ``chain`` change in the transaction that deletes the confirmed messages.
I3  A new stream repeats all unresolved findings, and the runs and actions that were never confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from integrity.catalog.findings import UNRESOLVED
from integrity.catalog.row_seals import find_damaged
from integrity.catalog.rows import chunked
from integrity.catalog.schema import finding, meta, report_change, report_folder, report_message, report_state

STATE = "state"
_QUEUE = (report_change, report_message)
_NO_CHAIN = bytes(16)


class ReportState(NamedTuple):
    """How far a hub was told. The fields are the columns of ``report_state``."""

    url: str
    stream: bytes
    started_at: int
    confirmed: int
    chain: bytes
    complete_at: int | None
    failing_since: int | None
    last_error: str | None


class QueuedChange(NamedTuple):
    """A reference in the queue; ``id`` is its place."""

    id: int
    kind: str
    item_id: int


class QueuedMessage(NamedTuple):
    """A numbered message. ``body``: JSON, as it is sent."""

    number: int
    at: int
    kind: str
    item_id: int
    body: str


def load_state(c: sa.Connection) -> ReportState | None:
    """Return how far the hub was told; None if the box reports to none."""
    row = c.execute(sa.select(*(report_state.c[name] for name in ReportState._fields))).one_or_none()
    return None if row is None else ReportState(*row)


def has_damage(c: sa.Connection) -> bool:
    """Return whether a row of the queue or the state is damaged, so that a new stream is needed."""
    return next(iter(find_damaged(c, (report_state, *_QUEUE))), None) is not None


def start_stream(c: sa.Connection, url: str, stream: bytes, now: int) -> None:
    """
    Begin a stream of messages, in place of the former one if there is one (I3).

    Its first message is ``state``; all unresolved findings follow, then the rest.
    """
    _drop_damaged(c)
    of_message, of_change = (sa.select(table.c.kind, table.c.item_id) for table in (report_message, report_change))
    rest = [tuple(row) for row in c.execute(of_message.union(of_change).order_by("kind", "item_id"))]
    open_ids = c.execute(sa.select(finding.c.id).where(UNRESOLVED).order_by(finding.c.id)).scalars()
    queued = [(STATE, 0), *(("finding", number) for number in open_ids)]
    queued += [item for item in rest if item[0] in ("run", "action")]
    for table in _QUEUE:
        c.execute(sa.delete(table))
    c.execute(sa.insert(report_change), [{"kind": kind, "item_id": item_id} for kind, item_id in queued])
    state = load_state(c)
    kept_fields = {} if state is None or state.url != url else {"complete_at": state.complete_at}
    c.execute(sa.delete(report_state))
    values = {"url": url, "stream": stream, "started_at": now, "confirmed": 0, "chain": _NO_CHAIN}
    c.execute(sa.insert(report_state).values(id=1, **values, **kept_fields))


def stop_reporting(c: sa.Connection) -> None:
    """Remove all that belongs to reports: the box reports to no hub any more."""
    for table in (*_QUEUE, report_folder, report_state):
        c.execute(sa.delete(table))
    c.execute(sa.delete(meta).where(meta.c.key.startswith("report/")))


def find_changes(c: sa.Connection, limit: int) -> list[QueuedChange]:
    """Return the references that wait longest."""
    query = sa.select(*(report_change.c[name] for name in QueuedChange._fields)).order_by(report_change.c.id)
    return [QueuedChange(*row) for row in c.execute(query.limit(limit))]


def find_messages(c: sa.Connection) -> list[QueuedMessage]:
    """Return the messages that are not confirmed, in the order of their numbers."""
    query = sa.select(*(report_message.c[name] for name in QueuedMessage._fields)).order_by(report_message.c.number)
    return [QueuedMessage(*row) for row in c.execute(query)]


def get_newest(c: sa.Connection) -> int:
    """Return the highest number of a message, confirmed or not; 0: there was none."""
    newest = c.execute(sa.select(sa.func.max(report_message.c.number))).scalar_one()
    confirmed = c.execute(sa.select(report_state.c.confirmed)).scalar_one_or_none()
    return int(newest or confirmed or 0)


def count_queued(c: sa.Connection, kind: str) -> int:
    """Count the references of a kind; each becomes a message, unless it is of a run or an action that is gone."""
    query = sa.select(sa.func.count()).select_from(report_change).where(report_change.c.kind == kind)
    return int(c.execute(query).scalar_one())


def count_waiting(c: sa.Connection) -> int:
    """Count the messages that are not confirmed, and the references that are to become messages."""
    counts = (c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in _QUEUE)
    return int(sum(counts))


def add_messages(c: sa.Connection, messages: Sequence[QueuedMessage], changes: Iterable[QueuedChange]) -> None:
    """Store messages, and remove what they report from the queue (I1)."""
    if messages:
        c.execute(sa.insert(report_message), [message._asdict() for message in messages])
    for chunk in chunked(change.id for change in changes):
        c.execute(sa.delete(report_change).where(report_change.c.id.in_(chunk)))


def confirm(c: sa.Connection, number: int, chain: bytes) -> None:
    """Record that the hub has all messages up to this number (I2). ``chain``: up to it."""
    c.execute(sa.delete(report_message).where(report_message.c.number <= number))
    c.execute(sa.update(report_state).values(confirmed=number, chain=chain))


def note_complete(c: sa.Connection, now: int) -> None:
    """Record that the hub has everything."""
    c.execute(sa.update(report_state).values(complete_at=now, failing_since=None, last_error=None))


def note_failure(c: sa.Connection, error: str, now: int) -> None:
    """Record why a report failed."""
    since = sa.func.coalesce(report_state.c.failing_since, now)
    c.execute(sa.update(report_state).values(failing_since=since, last_error=error))


def _drop_damaged(c: sa.Connection) -> None:
    """Delete damaged references and messages. What they were about can't be known; a new stream repeats findings."""
    for row in list(find_damaged(c, _QUEUE)):
        table = report_change.metadata.tables[row.table]
        c.execute(sa.delete(table).where(next(iter(table.primary_key)) == row.key[0]))
