"""
The outbox: what is to be told, through which channel, and how that goes.

A message is a row before it is sent, and each channel has a delivery row of its own. Invariants:

I1  A message and everything that follows from having said it (``told.py``) are written in one transaction.
I2  A delivery is due until the channel took it: whatever fails or is killed, it is tried again, under the same
    Message-ID.
I3  A message that nobody got does not die with its channel: whoever is configured now gets it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from integrity.catalog.row_seals import check_seals, select_sealed
from integrity.catalog.rows import read_word
from integrity.catalog.schema import alert, channel, delivery

LONGEST_WAIT_S = 3600
"""No delivery waits longer for its next try; one that seems to was written before the clock was put back."""

LASTING_FAILURE_S = 3600
"""A channel that fails for longer does not mend by itself, and somebody has to know."""

_KEPT_S = 90 * 86400


class AlertKind(StrEnum):
    """What a message is for."""

    INCIDENT = "incident"  # findings that are new, or say something new
    DIGEST = "digest"  # what was resolved since, and what is still open
    REMINDER = "reminder"  # what is still open
    ALL_CLEAR = "all_clear"  # nothing of what was told is open any more
    ALIVE = "alive"
    CHANNEL = "channel"  # another channel fails
    TEST = "test"


REPLACEABLE = frozenset({AlertKind.REMINDER, AlertKind.ALIVE})
"""They say nothing that the next one does not say, so an unsent one gives way to it."""


@dataclass(frozen=True, slots=True)
class Message:
    """
    What is to be told, in all its forms; written once, sent as it is.

    Attributes:
        kind: what it is for.
        message_id: with its angle brackets.
        subject: one line.
        body: plain text.
        html: the same as an HTML page.
        facts: the same as a JSON object on one line.
        incidents: numbers of the findings that it is about.
        created_at: when it was written.
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
    """A message that one channel shall be tried with now."""

    alert_id: int
    attempts: int  # that failed
    message: Message


@dataclass(frozen=True, slots=True)
class ChannelState:
    """How a channel fares."""

    name: str
    waiting: int  # messages that it did not take yet
    good_at: int | None  # when it last worked
    failing_since: int | None  # None: it works, or was not used yet
    failed_at: int | None
    is_permanent: bool
    last_error: str | None


def queue(c: sa.Connection, message: Message, channels: Collection[str]) -> int:
    """Write a message and what it takes to deliver it, and return its number; unsent older ones may give way to it."""
    if message.kind in REPLACEABLE:
        older = sa.select(alert.c.id).where(alert.c.kind == message.kind.value)
        c.execute(sa.delete(delivery).where(delivery.c.alert_id.in_(older), delivery.c.sent_at.is_(None)))
    values = asdict(message) | {"kind": message.kind.value, "incidents": " ".join(map(str, message.incidents))}
    key = c.execute(sa.insert(alert).values(**values)).inserted_primary_key
    assert key is not None
    _add_deliveries(c, key[0], channels, message.created_at)
    return int(key[0])


def find_due(c: sa.Connection, name: str, now: int) -> list[DueDelivery]:
    """List what a channel shall be tried with now, that which waits longest first."""
    query = (
        sa.select(alert, delivery.c.attempts)
        .join(delivery, delivery.c.alert_id == alert.c.id)
        .where(delivery.c.channel == name, delivery.c.sent_at.is_(None), _is_due(now))
        .order_by(delivery.c.next_try_at, alert.c.id)
    )
    return [DueDelivery(row.id, row.attempts, _to_message(row)) for row in c.execute(query)]


def next_try_at(c: sa.Connection, channels: Collection[str], now: int) -> int | None:
    """Say when the next delivery through one of these channels is due; None: nothing waits."""
    waits = delivery.c.sent_at.is_(None), delivery.c.channel.in_(channels)
    when = sa.case((_is_due(now), now), else_=delivery.c.next_try_at)
    found = c.execute(sa.select(sa.func.min(when)).where(*waits)).scalar()
    return None if found is None else int(found)


def last_sent_at(c: sa.Connection) -> int | None:
    """Return when a channel last took a message; None: none did."""
    return c.execute(sa.select(sa.func.max(delivery.c.sent_at))).scalar()


def count_unsent(c: sa.Connection) -> tuple[int, int | None]:
    """Count the messages that a channel did not take yet, and return when the first of them was written."""
    unsent = sa.select(delivery.c.alert_id).where(delivery.c.sent_at.is_(None))
    query = sa.select(sa.func.count(), sa.func.min(alert.c.created_at)).where(alert.c.id.in_(unsent))
    number, since = c.execute(query).one()
    for _ in check_seals(c, delivery, c.execute(select_sealed(delivery).where(delivery.c.sent_at.is_(None)))):
        pass  # what waits, and by which channel, is shown as numbers only
    return int(number), since


def mark_sent(c: sa.Connection, alert_id: int, name: str, now: int) -> None:
    """Write down that a channel took a message: it works."""
    c.execute(_delivery(alert_id, name).values(sent_at=now, last_error=None))
    note_success(c, name, now)


def mark_failed(
    c: sa.Connection, alert_id: int, name: str, *, error: str, is_permanent: bool, next_try_at: int, now: int
) -> None:
    """Write down that a channel did not take a message, and when it is to be tried again."""
    values = {"attempts": delivery.c.attempts + 1, "next_try_at": next_try_at, "last_error": error}
    c.execute(_delivery(alert_id, name).values(**values))
    note_failure(c, name, error, is_permanent=is_permanent, now=now)


def set_channels(c: sa.Connection, channels: Sequence[str], others: Collection[str], now: int) -> None:
    """
    Bring the outbox in line with the configuration (I3).

    Args:
        c: in a transaction.
        channels: through which messages leave.
        others: what else is watched, but takes no messages: the heartbeat.
        now: the time.
    """
    for name in channels:
        _ensure_channel(c, name, now)
    c.execute(sa.delete(channel).where(channel.c.name.not_in([*channels, *others])))
    if not channels:
        return  # what waits goes on waiting for somebody who can be told
    orphaned = delivery.c.sent_at.is_(None), delivery.c.channel.not_in(channels)
    got_it = delivery.alias()
    nobody_got_it = ~sa.exists().where(got_it.c.alert_id == delivery.c.alert_id, got_it.c.sent_at.is_not(None))
    ids = c.execute(sa.select(delivery.c.alert_id).where(*orphaned, nobody_got_it).distinct()).scalars().all()
    c.execute(sa.delete(delivery).where(*orphaned))
    for alert_id in ids:
        has = set(c.execute(sa.select(delivery.c.channel).where(delivery.c.alert_id == alert_id)).scalars())
        _add_deliveries(c, alert_id, [name for name in channels if name not in has], now)


def note_success(c: sa.Connection, name: str, now: int) -> None:
    """Write down that a channel works."""
    _ensure_channel(c, name, now)
    well = {"failing_since": None, "failed_at": None, "is_permanent": 0, "last_error": None, "told_at": None}
    c.execute(sa.update(channel).where(channel.c.name == name).values(good_at=now, **well))


def note_failure(c: sa.Connection, name: str, error: str, *, is_permanent: bool, now: int) -> None:
    """Write down that a channel fails."""
    _ensure_channel(c, name, now)
    since = sa.func.coalesce(channel.c.failing_since, now)
    values = {"failing_since": since, "failed_at": now, "is_permanent": int(is_permanent), "last_error": error}
    c.execute(sa.update(channel).where(channel.c.name == name).values(**values))


def channel_states(c: sa.Connection) -> list[ChannelState]:
    """List all channels with how they fare, in the order of their names."""
    return [_to_state(row) for row in c.execute(_states())]


def find_untold_failures(c: sa.Connection, longer_than_s: int) -> list[ChannelState]:
    """List the channels that fail for good or for so long, and of which nobody was told yet."""
    lasts = channel.c.failed_at - channel.c.failing_since >= longer_than_s
    is_grave = sa.or_(lasts, channel.c.is_permanent == 1)
    query = _states().where(channel.c.failing_since.is_not(None), channel.c.told_at.is_(None), is_grave)
    return [_to_state(row) for row in c.execute(query)]


def mark_failure_told(c: sa.Connection, name: str, now: int) -> None:
    """Write down that a channel's failure was told."""
    c.execute(sa.update(channel).where(channel.c.name == name).values(told_at=now))


def first_seen_at(c: sa.Connection) -> int | None:
    """Say since when somebody can be told of anything."""
    return c.execute(sa.select(sa.func.min(channel.c.first_seen_at))).scalar()


def created_times(c: sa.Connection, kinds: Collection[AlertKind], limit: int) -> list[int]:
    """List when the last messages of some kinds were written, newest first."""
    query = sa.select(alert.c.created_at).where(alert.c.kind.in_([kind.value for kind in kinds]))
    return [int(when) for when in c.execute(query.order_by(alert.c.id.desc()).limit(limit)).scalars()]


def prune(c: sa.Connection, now: int) -> None:
    """Remove messages older than 90 days that do not wait for anybody, but the last of each kind: it says when."""
    last = sa.select(sa.func.max(alert.c.id)).group_by(alert.c.kind)
    waiting = sa.select(delivery.c.alert_id).where(delivery.c.sent_at.is_(None))
    old = sa.select(alert.c.id).where(
        alert.c.created_at < now - _KEPT_S, alert.c.id.not_in(last), alert.c.id.not_in(waiting)
    )
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
