"""
Send the alerts of the hub: once per incident, a reminder of what stays open, and a notice of its end.

The rules are those of the service (``alerts.incidents``), per channel: one that fails delays no other and gets, once it
works, what is true then. ``finding.alerted`` has for each channel what it was last sent about the finding.

I1  A finding is sent again only if its certainty or its command changed, or in a reminder.
I2  What a channel accepted is recorded at once, in a transaction of its own. A crash in between repeats the message
    with the same Message-ID.
I3  No transaction is open while a message is sent: boxes report meanwhile.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.alerts.channel import Channel
from integrity.alerts.delivery import back_off_s
from integrity.catalog.outbox import LONGEST_WAIT_S, AlertKind, Message
from integrity.config import MAILS_PER_HOUR, Alerts
from integrity.errors import ChannelError
from integrity.hub.alert_words import HubComposer
from integrity.hub.database import HubDatabase
from integrity.hub.findings import UNRESOLVED, HubFinding, find_findings
from integrity.hub.kinds import HUB_URGENT, WAITING
from integrity.hub.schema import alert_channel, finding
from integrity.model import FindingState

_log = logging.getLogger(__name__)

LASTS_S = 86400
"""How long what looks like a replication under way has to last until a mail is sent: most replications run daily."""

_HOUR_S = 3600


class SentNote(NamedTuple):
    """What a channel was last sent about a finding: what mattered of it, when first, and whether that it is over."""

    key: str
    at: int
    is_over: bool


@dataclass(frozen=True, slots=True)
class ChannelRecord:
    """State of a channel; see the columns of ``alert_channel``."""

    name: str
    attempts: int = 0
    failing_since: int | None = None
    next_try_at: int | None = None
    digest_at: int | None = None
    incident_times: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    """A message for one channel, if any, and what to record when it is accepted."""

    message: Message | None
    notes: dict[int, SentNote] = field(default_factory=dict)


def send_alerts(
    database: HubDatabase,
    now: int,
    *,
    channels: Sequence[Channel],
    settings: Alerts,
    hostname: str,
    page_url: str = "",
) -> None:
    """
    Send what is due through each channel.

    Args:
        database: of the hub.
        now: seconds UTC.
        channels: each with a unique name.
        settings: define which alerts are sent, and how often.
        hostname: of the hub, for subjects.
        page_url: of the pages of the hub; findings link to it.
    """
    composer = HubComposer(hostname, page_url.rstrip("/"))
    for channel in channels:
        with database.read() as c:
            record = _get_record(c, channel.name)
            if record.next_try_at is not None and now < record.next_try_at <= now + LONGEST_WAIT_S:
                continue
            plan = ChannelNews(c, record, now).plan(settings, composer)
        if plan is None:
            continue
        error = None if plan.message is None else _send(channel, plan.message)
        with database.transaction() as c:
            if error is not None:
                _mark_failed(c, record, error, now)
                continue
            if plan.message is not None:
                _mark_sent(c, record, plan.message.kind, now)
            for finding_id, note in plan.notes.items():
                _set_note(c, finding_id, channel.name, note, [one.name for one in channels])


def _send(channel: Channel, message: Message) -> ChannelError | None:
    try:
        channel.send(message)
    except ChannelError as error:
        _log.warning("alert not sent channel=%s error=%s", channel.name, error)
        return error
    _log.info("alert sent channel=%s kind=%s", channel.name, message.kind.value)
    return None


class ChannelNews:
    """What one channel has not been sent yet."""

    def __init__(self, c: sa.Connection, record: ChannelRecord, now: int) -> None:
        self._record, self._now = record, now
        unresolved = list(find_findings(c, UNRESOLVED))
        ended = list(find_findings(c, ~UNRESOLVED, finding.c.alerted.is_not(None)))
        self._notes = {one.id: note for one in (*unresolved, *ended) if (note := read_note(one, record.name))}
        self._sent = [one for one in (*unresolved, *ended) if one.id in self._notes]
        self._known = [one for one in unresolved if one.id in self._notes]
        self._over = [one for one in ended if one.id in self._notes and not self._notes[one.id].is_over]
        self._new = [one for one in unresolved if _is_wanted(one, now) and self._is_news(one)]

    def _is_news(self, one: HubFinding) -> bool:
        note = self._notes.get(one.id)
        if note is not None:
            return note.key != find_key(one)
        return one.kind not in WAITING or self._now - one.opened_at >= LASTS_S

    def plan(self, settings: Alerts, composer: HubComposer) -> _Plan | None:
        """Return what is due now; one message at a time."""
        now = self._now
        if self._is_incident_due(settings.group_s):
            changed = frozenset(one.id for one in self._new if one.id in self._notes)
            return _Plan(composer.incident(self._new, changed, now), self._note(self._new))
        if self._over and not self._known and not self._new:
            message = composer.all_clear(self._over, now) if settings.all_clear else None
            return _Plan(message, self._note(self._over))
        still = [one for one in self._known if _is_wanted(one, now)]
        waits_since = min((self._notes[one.id].at for one in (*still, *self._over)), default=now)
        last = max(waits_since, self._record.digest_at or 0)
        if still and not 0 <= now - last < settings.digest_every_s:
            return _Plan(composer.digest(still, self._over, now), self._note(self._over))
        return None

    def _is_incident_due(self, group_s: int) -> bool:
        if not self._new:
            return False
        first = min(self._noticed_at(one) for one in self._new)
        if 0 <= self._now - first < group_s:
            return False
        recent = [at for at in self._record.incident_times if self._now - _HOUR_S < at <= self._now]
        return len(recent) < MAILS_PER_HOUR or any(self._is_first_urgent(one) for one in self._new)

    def _noticed_at(self, one: HubFinding) -> int:
        if one.id in self._notes:
            return one.updated_at
        return one.opened_at + (LASTS_S if one.kind in WAITING else 0)

    def _is_first_urgent(self, one: HubFinding) -> bool:
        """Return whether no urgent finding of the same kind and box was sent within the hour."""
        return one.kind in HUB_URGENT and not any(
            (other.kind, other.box_id) == (one.kind, one.box_id) and self._now - self._notes[other.id].at < _HOUR_S
            for other in self._sent
        )

    def _note(self, findings: Iterable[HubFinding]) -> dict[int, SentNote]:
        return {one.id: SentNote(find_key(one), self._now, one.resolved_at is not None) for one in findings}


def find_key(one: HubFinding) -> str:
    """Return what matters of a finding: if it changes, the finding is sent again (I1)."""
    return f"{one.certainty.value} {one.command or ''}"


def read_note(one: HubFinding, channel: str) -> SentNote | None:
    """Return what a channel was last sent about a finding."""
    values = json.loads(one.alerted or "{}").get(channel)
    return None if values is None else SentNote(*values)


def _is_wanted(one: HubFinding, now: int) -> bool:
    is_muted = one.state is FindingState.MUTED and one.muted_until is not None and now < one.muted_until
    return one.state is not FindingState.ACKNOWLEDGED and not is_muted


def _get_record(c: sa.Connection, name: str) -> ChannelRecord:
    row = c.execute(sa.select(alert_channel).where(alert_channel.c.name == name)).first()
    if row is None:
        return ChannelRecord(name)
    times = tuple(json.loads(row.incident_times))
    return ChannelRecord(name, row.attempts, row.failing_since, row.next_try_at, row.digest_at, times)


def _mark_sent(c: sa.Connection, record: ChannelRecord, kind: AlertKind, now: int) -> None:
    """Record that a channel works, and when it took a message of this kind."""
    times = record.incident_times
    if kind is AlertKind.INCIDENT:
        times = (*times, now)[-MAILS_PER_HOUR:]
    is_digest = kind in (AlertKind.DIGEST, AlertKind.REMINDER)
    _set_record(
        c,
        record.name,
        good_at=now,
        failing_since=None,
        attempts=0,
        next_try_at=None,
        last_error=None,
        digest_at=now if is_digest else record.digest_at,
        incident_times=json.dumps(times),
    )


def _set_note(c: sa.Connection, finding_id: int, channel: str, note: SentNote, channels: Sequence[str]) -> None:
    is_it = finding.c.id == finding_id
    text = c.execute(sa.select(finding.c.alerted).where(is_it)).scalar()
    notes: dict[str, Any] = json.loads(text or "{}")
    notes[channel] = note
    # Once each channel that knew of it was sent that it is over, nothing has to be remembered.
    is_done = all(notes[name][2] for name in channels if name in notes)
    c.execute(sa.update(finding).where(is_it).values(alerted=None if is_done else json.dumps(notes)))


def _mark_failed(c: sa.Connection, record: ChannelRecord, error: ChannelError, now: int) -> None:
    wait_s = LONGEST_WAIT_S if error.is_permanent else back_off_s(record.attempts)
    _set_record(
        c,
        record.name,
        failing_since=now if record.failing_since is None else record.failing_since,
        attempts=record.attempts + 1,
        next_try_at=now + wait_s,
        last_error=str(error),
    )


def _set_record(c: sa.Connection, name: str, **values: Any) -> None:
    is_it = alert_channel.c.name == name
    if c.execute(sa.update(alert_channel).where(is_it).values(**values)).rowcount == 0:
        c.execute(sa.insert(alert_channel).values(**{"attempts": 0, "incident_times": "[]"} | values, name=name))
