"""
The outbox: messages to send, the channels they go through, and the state of each delivery.

A message is stored before it is sent, with one delivery row for each channel. Invariants:

I1  A message and the records that follow from it (``notified.py``) are written in one transaction.
I2  A delivery is due until the channel accepted it: after any failure or crash it is retried with the same Message-ID.
I3  A message that no channel accepted survives the removal of its channels: it moves to those configured now.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from integrity.catalog.db import Connection
from integrity.catalog.rows import is_outdated, quoted, read_word

LONGEST_WAIT_S = 3600
"""Longest wait for a retry. A retry that lies further ahead was scheduled before the clock was set back, and is due."""

LASTING_FAILURE_S = 3600  # a channel that fails for longer is reported
_KEPT_DAYS = 90


class AlertKind(StrEnum):
    """The purpose of a message."""

    INCIDENT = "incident"  # new or changed findings
    DIGEST = "digest"  # findings resolved since, and findings still open
    REMINDER = "reminder"  # findings still open
    ALL_CLEAR = "all_clear"  # every finding that the user was notified of is resolved
    ALIVE = "alive"
    CHANNEL = "channel"  # another channel fails
    TEST = "test"


REPLACEABLE = frozenset({AlertKind.REMINDER, AlertKind.ALIVE})
"""Kinds of which a newer message replaces an unsent one, because it says the same."""

ABOUT_OPEN_FINDINGS = frozenset({AlertKind.INCIDENT, AlertKind.REMINDER})
"""Kinds that are no longer true once a finding in them is resolved."""


class Message(NamedTuple):
    """A message in all its forms; written once and sent unchanged."""

    kind: AlertKind
    message_id: str  # including the angle brackets
    subject: str
    body: str
    html: str  # the same as an HTML page
    facts: str  # the same as a JSON object on one line
    incidents: tuple[int, ...]  # ids of the findings that it is about
    created_at: int


class DueDelivery(NamedTuple):
    """A message to send through one channel now."""

    alert_id: int
    attempts: int  # failed ones
    message: Message


class ChannelState(NamedTuple):
    """State of a channel."""

    name: str
    waiting: int  # pending messages
    good_at: int | None  # when it last worked
    failing_since: int | None  # None: it works, or was not used yet
    failed_at: int | None
    is_permanent: bool
    last_error: str | None


_MESSAGE = "kind, message_id, subject, body, html, facts, incidents, created_at"  # in the order of Message's fields
_IS_DUE = f"(next_try_at <= ?1 OR next_try_at > ?1 + {LONGEST_WAIT_S})"  # ?1: the time
_STATES = """
SELECT name, (SELECT count(*) FROM delivery WHERE channel = channel.name AND sent_at IS NULL), good_at, failing_since,
    failed_at, is_permanent, last_error
FROM channel"""


def queue(c: Connection, message: Message, channels: Collection[str]) -> int:
    """Store a message and its deliveries and return its id; a replaceable message replaces unsent ones of its kind."""
    if message.kind in REPLACEABLE:
        unsent = "alert_id IN (SELECT id FROM alert WHERE kind = ?) AND sent_at IS NULL"
        c.run(f"DELETE FROM delivery WHERE {unsent}", message.kind)
    alert_id = c.insert(
        f"INSERT INTO alert ({_MESSAGE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        *(message.kind, message.message_id, message.subject, message.body, message.html, message.facts),
        *(" ".join(map(str, message.incidents)), message.created_at),
    )
    query = "INSERT INTO delivery (alert_id, channel, attempts, next_try_at) VALUES (?, ?, 0, ?)"
    c.run_many(query, [(alert_id, name, message.created_at) for name in channels])
    return alert_id


def find_due(c: Connection, name: str, now: int) -> list[DueDelivery]:
    """Return the deliveries of a channel that are due, the longest waiting first."""
    query = f"""
        SELECT id, attempts, {_MESSAGE} FROM alert JOIN delivery ON alert_id = id
        WHERE channel = ?2 AND sent_at IS NULL AND {_IS_DUE} ORDER BY next_try_at, id"""
    due: list[DueDelivery] = []
    for alert_id, attempts, *columns in c.rows(query, now, name):
        stored: Any = Message(*columns)
        about = tuple(map(int, stored.incidents.split()))
        message = stored._replace(kind=read_word(AlertKind, stored.kind), incidents=about)
        due.append(DueDelivery(alert_id, attempts, message))
    return due


def next_try_at(c: Connection, channels: Collection[str], now: int) -> int | None:
    """Return when the next delivery through one of these channels is due; None: none is pending."""
    query = f"""
        SELECT min(CASE WHEN {_IS_DUE} THEN ?1 ELSE next_try_at END) FROM delivery
        WHERE sent_at IS NULL AND channel IN (SELECT value FROM json_each(?2))"""
    return c.value(query, now, json.dumps(list(channels)))


def last_sent_at(c: Connection) -> int | None:
    """Return when a channel last accepted a message; None: never."""
    return c.value("SELECT max(sent_at) FROM delivery")


def count_unsent(c: Connection) -> tuple[int, int | None]:
    """Return the number of messages with a pending delivery, and when the first of them was written."""
    unsent = "SELECT alert_id FROM delivery WHERE sent_at IS NULL"
    return next(c.rows(f"SELECT count(*), min(created_at) FROM alert WHERE id IN ({unsent})"))


class ListedMessage(NamedTuple):
    """A message, and how it left through one channel. ``sent_at``: None while it waits."""

    created_at: int
    subject: str
    channel: str
    sent_at: int | None
    attempts: int
    last_error: str | None


def find_sent(c: Connection, limit: int) -> list[ListedMessage]:
    """Return the last messages, the newest first, once for each channel."""
    query = """
        SELECT created_at, subject, channel, sent_at, attempts, last_error FROM alert JOIN delivery ON alert_id = id
        ORDER BY id DESC, channel LIMIT ?"""
    return c.all(ListedMessage, query, limit)


def has_been_sent(c: Connection, alert_id: int) -> bool:
    """Return whether a channel accepted a message."""
    return c.row("SELECT 1 FROM delivery WHERE alert_id = ? AND sent_at IS NOT NULL LIMIT 1", alert_id) is not None


def withdraw(c: Connection, alert_id: int) -> None:
    """Delete the pending deliveries of a message, and the message itself if no channel accepted it."""
    c.run("DELETE FROM delivery WHERE alert_id = ? AND sent_at IS NULL", alert_id)
    c.run("DELETE FROM alert WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM delivery WHERE alert_id = ?1)", alert_id)


def mark_sent(c: Connection, alert_id: int, name: str, now: int) -> None:
    """Record that a channel accepted a message, and that the channel works."""
    c.run("UPDATE delivery SET sent_at = ?, last_error = NULL WHERE alert_id = ? AND channel = ?", now, alert_id, name)
    note_success(c, name, now)


def mark_failed(
    c: Connection, alert_id: int, name: str, *, error: str, is_permanent: bool, next_try_at: int, now: int
) -> None:
    """Record that a channel did not accept a message, and when to retry."""
    query = """
        UPDATE delivery SET attempts = attempts + 1, next_try_at = ?, last_error = ?
        WHERE alert_id = ? AND channel = ?"""
    c.run(query, next_try_at, error, alert_id, name)
    note_failure(c, name, error, is_permanent=is_permanent, now=now)


def set_channels(c: Connection, channels: Sequence[str], others: Collection[str], now: int) -> None:
    """Bring the outbox in line with the configuration (I3). ``others``: names without messages: the heartbeat."""
    query = "INSERT OR IGNORE INTO channel (name, first_seen_at, is_permanent) VALUES (?, ?, 0)"
    c.run_many(query, [(name, now) for name in channels])
    known = json.dumps([*channels, *others])
    c.run("DELETE FROM channel WHERE name NOT IN (SELECT value FROM json_each(?))", known)
    if not channels:
        return  # pending messages wait until a channel is configured
    orphaned = "sent_at IS NULL AND channel NOT IN (SELECT value FROM json_each(?1))"
    configured = json.dumps(channels)
    query = f"""
        INSERT OR IGNORE INTO delivery (alert_id, channel, attempts, next_try_at)
        SELECT alert_id, configured.value, 0, ?2 FROM delivery JOIN json_each(?1) AS configured
        WHERE {orphaned} AND alert_id NOT IN (SELECT alert_id FROM delivery WHERE sent_at IS NOT NULL)"""
    c.run(query, configured, now)
    c.run(f"DELETE FROM delivery WHERE {orphaned}", configured)


def note_success(c: Connection, name: str, now: int) -> None:
    """Record that a channel works."""
    query = """
        INSERT INTO channel (name, first_seen_at, good_at, is_permanent) VALUES (?1, ?2, ?2, 0)
        ON CONFLICT (name) DO UPDATE SET
            good_at = ?2, failing_since = NULL, failed_at = NULL, is_permanent = 0, last_error = NULL, told_at = NULL"""
    c.run(query, name, now)


def note_failure(c: Connection, name: str, error: str, *, is_permanent: bool, now: int) -> None:
    """Record that a channel failed."""
    query = """
        INSERT INTO channel (name, first_seen_at, failing_since, failed_at, is_permanent, last_error)
        VALUES (?1, ?2, ?2, ?2, ?3, ?4) ON CONFLICT (name) DO UPDATE SET
            failing_since = coalesce(failing_since, ?2), failed_at = ?2, is_permanent = ?3, last_error = ?4"""
    c.run(query, name, now, is_permanent, error)


def note_tests(c: Connection, results: Iterable[tuple[str, str | None]], now: int) -> None:
    """
    Record which of the service's channels took a test message: the name of each with its error, or None.

    Others are skipped: a test can be made with another configuration, and nothing would remove what it left.
    """
    known = set(c.column("SELECT name FROM channel"))
    for name, error in results:
        if name not in known:
            continue
        if error is None:
            note_success(c, name, now)
        else:
            note_failure(c, name, error, is_permanent=False, now=now)


def channel_states(c: Connection) -> list[ChannelState]:
    """Return the state of all channels, in the order of their names."""
    return c.all(_to_state, f"{_STATES} ORDER BY name")


def find_unreported_failures(c: Connection, longer_than_s: int) -> list[ChannelState]:
    """Return the channels that fail permanently, or for at least this long, and were not reported yet."""
    query = f"""
        {_STATES} WHERE failing_since IS NOT NULL AND told_at IS NULL
            AND (failed_at - failing_since >= ? OR is_permanent = 1) ORDER BY name"""
    return c.all(_to_state, query, longer_than_s)


def mark_failure_reported(c: Connection, name: str, now: int) -> None:
    """Record that a channel's failure was reported."""
    c.run("UPDATE channel SET told_at = ? WHERE name = ?", now, name)


def first_seen_at(c: Connection) -> int | None:
    """Return since when any channel is configured; None: none is."""
    return c.value("SELECT min(first_seen_at) FROM channel")


def created_times(c: Connection, kinds: Collection[AlertKind], limit: int) -> list[int]:
    """Return when the newest messages of some kinds were written, newest first."""
    return c.column(f"SELECT created_at FROM alert WHERE kind IN ({quoted(kinds)}) ORDER BY id DESC LIMIT ?", limit)


def prune(c: Connection, now: int) -> None:
    """Delete messages older than 90 days, except pending ones and the newest of each kind, which dates the kind."""
    c.run(f"""
        DELETE FROM alert WHERE {is_outdated(c, "created_at", _KEPT_DAYS, now)}
            AND id NOT IN (SELECT max(id) FROM alert GROUP BY kind)
            AND id NOT IN (SELECT alert_id FROM delivery WHERE sent_at IS NULL)""")


def _to_state(*columns: Any) -> ChannelState:
    stored = ChannelState(*columns)
    return stored._replace(is_permanent=bool(stored.is_permanent))
