"""
The queue of what is to be reported to a hub, and how much of it the hub has confirmed.

Triggers queue references to what changed: no code that writes rows needs to know about reports. Before they are sent
they become numbered messages, one batch at a time, so the queue stays small however long the hub is away.

I1  While ``report_state`` has a row, each change of a finding, each run that ends, and each action is in the queue from
    the transaction on that made it: one row for each finding and action, and 10,000 for runs.
I2  References leave the queue in the transaction that stores their messages. A stored message never changes: it is
    repeated with the same text until it is confirmed, so the chain of the stream holds.
I3  ``confirmed`` and ``chain`` change in the transaction that deletes the confirmed messages.
I4  A new stream repeats all unresolved findings, and the runs and actions that were never confirmed.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from integrity.catalog.db import Connection, numbers

STATE = "state"
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


def load_state(c: Connection) -> ReportState | None:
    """Return how far the hub was told; None if the box reports to none."""
    query = "SELECT url, stream, started_at, confirmed, chain, complete_at, failing_since, last_error FROM report_state"
    return c.one(ReportState, query)


def start_stream(c: Connection, url: str, stream: bytes, now: int) -> None:
    """Begin a stream of messages (I4): ``state``, then all unresolved findings, then the rest."""
    query = """
        SELECT kind, item_id FROM report_message WHERE kind IN ('run', 'action')
        UNION SELECT kind, item_id FROM report_change WHERE kind IN ('run', 'action') ORDER BY kind, item_id"""
    rest = list(c.rows(query))
    c.run("DELETE FROM report_message")
    c.run("DELETE FROM report_change")
    c.run("INSERT INTO report_change (kind, item_id) VALUES (?, 0)", STATE)
    query = """
        INSERT INTO report_change (kind, item_id)
        SELECT 'finding', id FROM finding WHERE state != 'resolved' ORDER BY id"""
    c.run(query)
    c.run_many("INSERT INTO report_change (kind, item_id) VALUES (?, ?)", rest)
    query = """
        INSERT OR REPLACE INTO report_state (id, url, stream, started_at, confirmed, chain, complete_at)
        VALUES (1, ?1, ?2, ?3, 0, ?4, (SELECT complete_at FROM report_state WHERE url = ?1))"""
    c.run(query, url, stream, now, _NO_CHAIN)


def stop_reporting(c: Connection) -> None:
    """Remove all that belongs to reports: the box reports to no hub any more."""
    for table in ("report_change", "report_message", "report_folder", "report_state"):
        c.run(f"DELETE FROM {table}")
    c.run("DELETE FROM meta WHERE key > 'report/' AND key < 'report0'")


def find_changes(c: Connection, limit: int) -> list[QueuedChange]:
    """Return the references that wait longest."""
    return c.all(QueuedChange, "SELECT id, kind, item_id FROM report_change ORDER BY id LIMIT ?", limit)


def find_messages(c: Connection) -> list[QueuedMessage]:
    """Return the messages that are not confirmed, in the order of their numbers."""
    return c.all(QueuedMessage, "SELECT number, at, kind, item_id, body FROM report_message ORDER BY number")


def get_newest(c: Connection) -> int:
    """Return the highest number of a message, confirmed or not; 0: there was none."""
    return int(
        c.value("SELECT coalesce((SELECT max(number) FROM report_message), (SELECT confirmed FROM report_state), 0)")
    )


def count_queued(c: Connection, kind: str) -> int:
    """Count the references of a kind; each becomes a message, unless it is of a run or an action that is gone."""
    return c.value("SELECT count(*) FROM report_change WHERE kind = ?", kind)


def count_waiting(c: Connection) -> int:
    """Count the messages that are not confirmed, and the references that are to become messages."""
    return c.value("SELECT (SELECT count(*) FROM report_change) + (SELECT count(*) FROM report_message)")


def add_messages(c: Connection, messages: Sequence[QueuedMessage], changes: Iterable[QueuedChange]) -> None:
    """Store messages, and remove what they report from the queue (I2)."""
    c.run_many("INSERT INTO report_message (number, at, kind, item_id, body) VALUES (?, ?, ?, ?, ?)", messages)
    ids = numbers(change.id for change in changes)
    c.run("DELETE FROM report_change WHERE id IN (SELECT value FROM json_each(?))", ids)


def confirm(c: Connection, number: int, chain: bytes) -> None:
    """Record that the hub has all messages up to this number (I3). ``chain``: up to it."""
    c.run("DELETE FROM report_message WHERE number <= ?", number)
    c.run("UPDATE report_state SET confirmed = ?, chain = ?", number, chain)


def note_complete(c: Connection, now: int) -> None:
    """Record that the hub has everything."""
    c.run("UPDATE report_state SET complete_at = ?, failing_since = NULL, last_error = NULL", now)


def note_failure(c: Connection, error: str, now: int) -> None:
    """Record why a report failed."""
    c.run("UPDATE report_state SET failing_since = coalesce(failing_since, ?), last_error = ?", now, error)
