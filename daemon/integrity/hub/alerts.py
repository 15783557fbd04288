"""
Send the alerts of the hub: once per incident, a reminder of what stays open, and a notice of its end.

The rules are those of the service (``alerts.incidents``), per channel: one that fails delays no other and gets, once it
works, what is true then. ``finding.alerted`` has for each channel what it was last sent about the finding.

I1  A finding is sent again only if its certainty or its command changed, or in a reminder.
I2  What a channel accepted is recorded at once, in a transaction of its own. A crash in between repeats the message
    with the same Message-ID.
I3  No transaction is open while a message is sent: boxes report meanwhile.
I4  Only findings that are news for some channel are read each minute (``finding.is_news``). All others are read when a
    reminder or an all-clear may be due.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.alerts.channels import Channel
from integrity.alerts.delivery import back_off_s
from integrity.catalog.outbox import LONGEST_WAIT_S, AlertKind, Message
from integrity.config import MAILS_PER_HOUR, Alerts
from integrity.errors import ChannelError
from integrity.hub.alert_words import HubComposer
from integrity.hub.database import AT_ONCE, HubDatabase, chunked
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


_Channel = sa.Row[Any]
"""State of a channel: a row of ``alert_channel``."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """A message for one channel, if any, and what to record when it is accepted. ``is_first``: nothing else is open."""

    message: Message | None
    notes: dict[int, SentNote] = field(default_factory=dict)
    is_first: bool = False


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
        channels: each with a unique name.
        settings: define which alerts are sent, and how often.
        hostname: of the hub, for subjects.
        page_url: of the pages of the hub; findings link to it.
    """
    composer, names = HubComposer(hostname, page_url.rstrip("/")), [one.name for one in channels]
    _meet(database, names)
    for channel in channels:
        with database.read() as c:
            record = c.execute(sa.select(alert_channel).where(alert_channel.c.name == channel.name)).one()
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
                _mark_sent(c, record, plan.message.kind, now, is_first=plan.is_first)
            for finding_id, note in plan.notes.items():
                _set_note(c, finding_id, channel.name, note, names)
    with database.transaction() as c:
        _end_news(c, names)


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

    def __init__(self, c: sa.Connection, record: _Channel, now: int) -> None:
        self._c, self._record, self._now = c, record, now
        self._notes: dict[int, SentNote] = {}
        is_news = finding.c.is_news == 1
        ripe, notes = self._find(is_news, *_are_ripe(now)), self._notes
        self._new = [one for one in ripe if one.id not in notes or notes[one.id].key != find_key(one)]
        ended = self._find(is_news, ~UNRESOLVED, finding.c.alerted.is_not(None))
        self._over = [one for one in ended if one.id in self._notes and not self._notes[one.id].is_over]

    def _find(self, *where: sa.ColumnElement[bool]) -> list[HubFinding]:
        """Return findings, and remember what the channel was sent about them."""
        found = list(find_findings(self._c, *where))
        self._notes |= {one.id: note for one in found if (note := read_note(one.alerted, self._record.name))}
        return found

    def _find_known(self, *where: sa.ColumnElement[bool]) -> list[HubFinding]:
        found = self._find(UNRESOLVED, finding.c.alerted.is_not(None), *where)
        return [one for one in found if one.id in self._notes]

    @cached_property
    def _is_any_known(self) -> bool:
        sent = sa.select(finding.c.alerted).where(UNRESOLVED, finding.c.alerted.is_not(None))
        with self._c.execute(sent.execution_options(yield_per=AT_ONCE)) as rows:
            return any(read_note(row.alerted, self._record.name) for row in rows)

    def plan(self, settings: Alerts, composer: HubComposer) -> _Plan | None:
        """Return what is due now; one message at a time."""
        now, last = self._now, self._record.digest_at
        if self._is_incident_due(settings.group_s):
            changed = frozenset(one.id for one in self._new if one.id in self._notes)
            is_first = not self._over and not self._is_any_known
            return _Plan(composer.incident(self._new, changed, now), self._note(self._new), is_first=is_first)
        if self._over and not self._new and not self._is_any_known:
            message = composer.all_clear(self._over, now) if settings.all_clear else None
            return _Plan(message, self._note(self._over))
        if last is not None and 0 <= now - last < settings.digest_every_s:
            return None
        still = self._find_known(*_are_wanted(now))
        waits_since = min((self._notes[one.id].at for one in (*still, *self._over)), default=now)
        if still and not 0 <= now - max(waits_since, last or 0) < settings.digest_every_s:
            return _Plan(composer.digest(still, self._over, now), self._note(self._over))
        return None

    def _is_incident_due(self, group_s: int) -> bool:
        if not self._new:
            return False
        first = min(self._noticed_at(one) for one in self._new)
        if 0 <= self._now - first < group_s:
            return False
        recent = [at for at in json.loads(self._record.incident_times) if self._now - _HOUR_S < at <= self._now]
        return len(recent) < MAILS_PER_HOUR or self._is_any_first_urgent()

    def _noticed_at(self, one: HubFinding) -> int:
        if one.id in self._notes:
            return one.updated_at
        return one.opened_at + (LASTS_S if one.kind in WAITING else 0)

    def _is_any_first_urgent(self) -> bool:
        """Return whether an urgent finding is new and none of its kind and box was sent within the hour."""
        urgent = {(one.kind, one.box_id) for one in self._new if one.kind in HUB_URGENT}
        sent = self._find_known(finding.c.kind.in_({kind.value for kind, _ in urgent})) if urgent else []
        recent = (one for one in (*sent, *self._over) if self._now - self._notes[one.id].at < _HOUR_S)
        return bool(urgent - {(one.kind, one.box_id) for one in recent})

    def _note(self, findings: Iterable[HubFinding]) -> dict[int, SentNote]:
        return {one.id: SentNote(find_key(one), self._now, one.resolved_at is not None) for one in findings}


def _are_ripe(now: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Select what is unresolved and wanted, and lasted for as long as its kind has to."""
    is_waiting = finding.c.kind.in_([kind.value for kind in WAITING])
    lasts = sa.or_(~is_waiting, finding.c.opened_at <= now - LASTS_S, finding.c.alerted.is_not(None))
    return UNRESOLVED, *_are_wanted(now), lasts


def find_key(one: HubFinding) -> str:
    """Return what matters of a finding: if it changes, the finding is sent again (I1)."""
    return _write_key(one.certainty.value, one.command)


def _write_key(certainty: str, command: str | None) -> str:
    return f"{certainty} {command or ''}"


def read_note(alerted: str | None, channel: str) -> SentNote | None:
    """Return what a channel was last sent about a finding. ``alerted``: of the finding."""
    values = json.loads(alerted or "{}").get(channel)
    return None if values is None else SentNote(*values)


def _are_wanted(now: int) -> tuple[sa.ColumnElement[bool], ...]:
    is_muted = sa.and_(finding.c.state == FindingState.MUTED.value, finding.c.muted_until > now)
    return finding.c.state != FindingState.ACKNOWLEDGED.value, ~sa.func.coalesce(is_muted, sa.false())


def _meet(database: HubDatabase, names: Sequence[str]) -> None:
    """Remember channels. To a new one all that is unresolved is news."""
    with database.read() as c:
        known = set(c.execute(sa.select(alert_channel.c.name)).scalars())
    if new := [{"name": name, "attempts": 0, "incident_times": "[]"} for name in names if name not in known]:
        with database.transaction() as c:
            c.execute(sa.insert(alert_channel), new)
            c.execute(sa.update(finding).where(UNRESOLVED).values(is_news=1))


def _end_news(c: sa.Connection, channels: Sequence[str]) -> None:
    """Note of which findings each channel was sent all that there is (I4)."""
    columns = finding.c.id, finding.c.alerted, finding.c.certainty, finding.c.command, finding.c.resolved_at
    sent = c.execute(sa.select(*columns).where(finding.c.is_news == 1, finding.c.alerted.is_not(None))).all()
    done = []
    for row in sent:
        notes, key = (read_note(row.alerted, name) for name in channels), _write_key(row.certainty, row.command)
        if row.resolved_at is None and all(note is not None and note.key == key for note in notes):
            done.append(row.id)
    for some in chunked(done):
        c.execute(sa.update(finding).where(finding.c.id.in_(some)).values(is_news=0))


def _mark_sent(c: sa.Connection, record: _Channel, kind: AlertKind, now: int, *, is_first: bool) -> None:
    """Record that a channel works, and when it took a message of this kind."""
    times = json.loads(record.incident_times)
    if kind is AlertKind.INCIDENT:
        times = [*times, now][-MAILS_PER_HOUR:]
    is_digest = is_first or kind in (AlertKind.DIGEST, AlertKind.REMINDER)  # reminders are counted from here
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
    values = {"alerted": None, "is_news": 0} if is_done else {"alerted": json.dumps(notes)}
    c.execute(sa.update(finding).where(is_it).values(values))


def _mark_failed(c: sa.Connection, record: _Channel, error: ChannelError, now: int) -> None:
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
    c.execute(sa.update(alert_channel).where(alert_channel.c.name == name).values(**values))
