"""
The outbox: messages to send, the channels they go through, and the state of each delivery.

A message is stored before it is sent, with one delivery row for each channel. Invariants:

I1  A message and the records that follow from it (``notified.py``) are written in one transaction.
I2  A delivery is due until the channel accepted it: after any failure or crash it is retried with the same Message-ID.
I3  A message that no channel accepted survives the removal of its channels: it moves to those configured now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.days_run import is_outdated
from integrity.catalog.row_seals import check_seals, select_sealed
from integrity.catalog.rows import read_word
from integrity.catalog.schema import alert, channel, delivery

LONGEST_WAIT_S = 3600
"""Longest wait for a retry. A retry that lies further ahead was scheduled before the clock was set back, and is due."""

LASTING_FAILURE_S = 3600
"""A channel that fails for longer is reported."""

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


@dataclass(frozen=True, slots=True)
class Message:
    """
    A message in all its forms; written once and sent unchanged.

    Attributes:
        message_id: including the angle brackets.
        html: the same as an HTML page.
        facts: the same as a JSON object on one line.
        incidents: ids of the findings that it is about.
    """

    kind: AlertKind
    message_id: str
    subject: str
    body: str
    html: str
    facts: str
    incidents: tuple[int, ...]
    created_at: int


@dataclass(frozen=True, slots=True)
class DueDelivery:
    """A message to send through one channel now."""

    alert_id: int
    attempts: int  # failed ones
    message: Message


@dataclass(frozen=True, slots=True)
class ChannelState:
    """State of a channel."""

    name: str
    waiting: int  # pending messages
    good_at: int | None  # when it last worked
    failing_since: int | None  # None: it works, or was not used yet
    failed_at: int | None
    is_permanent: bool
    last_error: str | None


def queue(c: sa.Connection, message: Message, channels: Collection[str]) -> int:
    """Store a message and its deliveries and return its id; a replaceable message replaces unsent ones of its kind."""
    if message.kind in REPLACEABLE:
        older = sa.select(alert.c.id).where(alert.c.kind == message.kind.value)
        c.execute(sa.delete(delivery).where(delivery.c.alert_id.in_(older), delivery.c.sent_at.is_(None)))
    values = asdict(message) | {"kind": message.kind.value, "incidents": " ".join(map(str, message.incidents))}
    key = c.execute(sa.insert(alert).values(**values)).inserted_primary_key
    assert key is not None
    _add_deliveries(c, key[0], channels, message.created_at)
    return int(key[0])


def find_due(c: sa.Connection, name: str, now: int) -> list[DueDelivery]:
    """Return the deliveries of a channel that are due, the longest waiting first."""
    query = (
        sa.select(alert, delivery.c.attempts)
        .join(delivery, delivery.c.alert_id == alert.c.id)
        .where(delivery.c.channel == name, delivery.c.sent_at.is_(None), _is_due(now))
        .order_by(delivery.c.next_try_at, alert.c.id)
    )
    return [DueDelivery(row.id, row.attempts, _to_message(row)) for row in c.execute(query)]


def next_try_at(c: sa.Connection, channels: Collection[str], now: int) -> int | None:
    """Return when the next delivery through one of these channels is due; None: none is pending."""
    waits = delivery.c.sent_at.is_(None), delivery.c.channel.in_(channels)
    when = sa.case((_is_due(now), now), else_=delivery.c.next_try_at)
    found = c.execute(sa.select(sa.func.min(when)).where(*waits)).scalar()
    return None if found is None else int(found)


def last_sent_at(c: sa.Connection) -> int | None:
    """Return when a channel last accepted a message; None: never."""
    return c.execute(sa.select(sa.func.max(delivery.c.sent_at))).scalar()


def count_unsent(c: sa.Connection) -> tuple[int, int | None]:
    """Return the number of messages with a pending delivery, and when the first of them was written."""
    unsent = sa.select(delivery.c.alert_id).where(delivery.c.sent_at.is_(None))
    query = sa.select(sa.func.count(), sa.func.min(alert.c.created_at)).where(alert.c.id.in_(unsent))
    number, since = c.execute(query).one()
    for _ in check_seals(c, delivery, c.execute(select_sealed(delivery).where(delivery.c.sent_at.is_(None)))):
        pass  # only to note damaged rows
    return int(number), since


class ListedMessage(NamedTuple):
    """A message, and how it left through one channel. ``sent_at``: None while it waits."""

    created_at: int
    subject: str
    channel: str
    sent_at: int | None
    attempts: int
    last_error: str | None


def find_sent(c: sa.Connection, limit: int) -> list[ListedMessage]:
    """Return the last messages, the newest first, once for each channel."""
    columns = (alert.c.created_at, alert.c.subject, delivery.c.channel, delivery.c.sent_at, delivery.c.attempts)
    query = sa.select(*columns, delivery.c.last_error).join(delivery, delivery.c.alert_id == alert.c.id)
    return [
        ListedMessage(*row) for row in c.execute(query.order_by(alert.c.id.desc(), delivery.c.channel).limit(limit))
    ]


def has_been_sent(c: sa.Connection, alert_id: int) -> bool:
    """Return whether a channel accepted a message."""
    query = sa.select(delivery.c.alert_id).where(delivery.c.alert_id == alert_id, delivery.c.sent_at.is_not(None))
    return c.execute(query.limit(1)).first() is not None


def withdraw(c: sa.Connection, alert_id: int) -> None:
    """Delete the pending deliveries of a message, and the message itself if no channel accepted it."""
    is_sent = has_been_sent(c, alert_id)
    c.execute(sa.delete(delivery).where(delivery.c.alert_id == alert_id, delivery.c.sent_at.is_(None)))
    if not is_sent:
        c.execute(sa.delete(alert).where(alert.c.id == alert_id))


def mark_sent(c: sa.Connection, alert_id: int, name: str, now: int) -> None:
    """Record that a channel accepted a message, and that the channel works."""
    c.execute(_delivery(alert_id, name).values(sent_at=now, last_error=None))
    note_success(c, name, now)


def mark_failed(
    c: sa.Connection, alert_id: int, name: str, *, error: str, is_permanent: bool, next_try_at: int, now: int
) -> None:
    """Record that a channel did not accept a message, and when to retry."""
    values = {"attempts": delivery.c.attempts + 1, "next_try_at": next_try_at, "last_error": error}
    c.execute(_delivery(alert_id, name).values(**values))
    note_failure(c, name, error, is_permanent=is_permanent, now=now)


def set_channels(c: sa.Connection, channels: Sequence[str], others: Collection[str], now: int) -> None:
    """
    Bring the outbox in line with the configuration (I3).

    Args:
        c: in a transaction.
        channels: names of the channels that messages are sent through.
        others: names that are monitored but send no messages: the heartbeat.
        now: seconds UTC.
    """
    for name in channels:
        _ensure_channel(c, name, now)
    c.execute(sa.delete(channel).where(channel.c.name.not_in([*channels, *others])))
    if not channels:
        return  # pending messages wait until a channel is configured
    orphaned = delivery.c.sent_at.is_(None), delivery.c.channel.not_in(channels)
    other_delivery = delivery.alias()
    was_never_delivered = ~sa.exists().where(
        other_delivery.c.alert_id == delivery.c.alert_id, other_delivery.c.sent_at.is_not(None)
    )
    ids = c.execute(sa.select(delivery.c.alert_id).where(*orphaned, was_never_delivered).distinct()).scalars().all()
    c.execute(sa.delete(delivery).where(*orphaned))
    for alert_id in ids:
        has = set(c.execute(sa.select(delivery.c.channel).where(delivery.c.alert_id == alert_id)).scalars())
        _add_deliveries(c, alert_id, [name for name in channels if name not in has], now)


def note_success(c: sa.Connection, name: str, now: int) -> None:
    """Record that a channel works."""
    _ensure_channel(c, name, now)
    well = {"failing_since": None, "failed_at": None, "is_permanent": 0, "last_error": None, "told_at": None}
    c.execute(sa.update(channel).where(channel.c.name == name).values(good_at=now, **well))


def note_failure(c: sa.Connection, name: str, error: str, *, is_permanent: bool, now: int) -> None:
    """Record that a channel failed."""
    _ensure_channel(c, name, now)
    since = sa.func.coalesce(channel.c.failing_since, now)
    values = {"failing_since": since, "failed_at": now, "is_permanent": int(is_permanent), "last_error": error}
    c.execute(sa.update(channel).where(channel.c.name == name).values(**values))


def note_tests(c: sa.Connection, results: Iterable[tuple[str, str | None]], now: int) -> None:
    """
    Record which of the service's channels took a test message.

    Others are skipped: a test can be made with another configuration, and nothing would remove what it left.

    Args:
        c: in a transaction.
        results: the name of each channel with its error, or None.
        now: seconds UTC.
    """
    known = set(c.execute(sa.select(channel.c.name)).scalars())
    for name, error in results:
        if name not in known:
            continue
        if error is None:
            note_success(c, name, now)
        else:
            note_failure(c, name, error, is_permanent=False, now=now)


def channel_states(c: sa.Connection) -> list[ChannelState]:
    """Return the state of all channels, in the order of their names."""
    return [_to_state(row) for row in c.execute(_states())]


def find_unreported_failures(c: sa.Connection, longer_than_s: int) -> list[ChannelState]:
    """Return the channels that fail permanently, or for at least this long, and were not reported yet."""
    lasts = channel.c.failed_at - channel.c.failing_since >= longer_than_s
    needs_report = sa.or_(lasts, channel.c.is_permanent == 1)
    query = _states().where(channel.c.failing_since.is_not(None), channel.c.told_at.is_(None), needs_report)
    return [_to_state(row) for row in c.execute(query)]


def mark_failure_reported(c: sa.Connection, name: str, now: int) -> None:
    """Record that a channel's failure was reported."""
    c.execute(sa.update(channel).where(channel.c.name == name).values(told_at=now))


def first_seen_at(c: sa.Connection) -> int | None:
    """Return since when any channel is configured; None: none is."""
    return c.execute(sa.select(sa.func.min(channel.c.first_seen_at))).scalar()


def created_times(c: sa.Connection, kinds: Collection[AlertKind], limit: int) -> list[int]:
    """Return when the newest messages of some kinds were written, newest first."""
    query = sa.select(alert.c.created_at).where(alert.c.kind.in_([kind.value for kind in kinds]))
    return [int(when) for when in c.execute(query.order_by(alert.c.id.desc()).limit(limit)).scalars()]


def prune(c: sa.Connection, now: int) -> None:
    """Delete messages older than 90 days, except pending ones and the newest of each kind, which dates the kind."""
    last = sa.select(sa.func.max(alert.c.id)).group_by(alert.c.kind)
    waiting = sa.select(delivery.c.alert_id).where(delivery.c.sent_at.is_(None))
    is_old = is_outdated(c, alert.c.created_at, _KEPT_DAYS, now)
    old = sa.select(alert.c.id).where(is_old, alert.c.id.not_in(last), alert.c.id.not_in(waiting))
    ids = c.execute(old).scalars().all()
    c.execute(sa.delete(delivery).where(delivery.c.alert_id.in_(ids)))
    c.execute(sa.delete(alert).where(alert.c.id.in_(ids)))


def _is_due(now: int) -> sa.ColumnElement[bool]:
    return sa.or_(delivery.c.next_try_at <= now, delivery.c.next_try_at > now + LONGEST_WAIT_S)


def _delivery(alert_id: int, name: str) -> sa.Update:
    return sa.update(delivery).where(delivery.c.alert_id == alert_id, delivery.c.channel == name)


def _add_deliveries(c: sa.Connection, alert_id: int, channels: Collection[str], now: int) -> None:
    for name in channels:
        values = {"alert_id": alert_id, "channel": name, "attempts": 0, "next_try_at": now}
        c.execute(sa.insert(delivery).values(**values))


def _ensure_channel(c: sa.Connection, name: str, now: int) -> None:
    if c.execute(sa.select(channel.c.name).where(channel.c.name == name)).first() is None:
        c.execute(sa.insert(channel).values(name=name, first_seen_at=now, is_permanent=0))


def _states() -> sa.Select[Any]:
    waiting = sa.select(sa.func.count()).where(delivery.c.channel == channel.c.name, delivery.c.sent_at.is_(None))
    return sa.select(channel, waiting.scalar_subquery().label("waiting")).order_by(channel.c.name)


def _to_state(row: sa.Row[Any]) -> ChannelState:
    return ChannelState(
        name=row.name,
        waiting=row.waiting,
        good_at=row.good_at,
        failing_since=row.failing_since,
        failed_at=row.failed_at,
        is_permanent=bool(row.is_permanent),
        last_error=row.last_error,
    )


def _to_message(row: sa.Row[Any]) -> Message:
    return Message(
        kind=read_word(AlertKind, row.kind),
        message_id=row.message_id,
        subject=row.subject,
        body=row.body,
        html=row.html,
        facts=row.facts,
        incidents=tuple(int(number) for number in row.incidents.split()),
        created_at=row.created_at,
    )
