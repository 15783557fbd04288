"""
Decide which alerts are due now, and put them into the outbox.

Each finding is one incident. It is reported shortly after it was found, together with others found at the same time,
and again only if it changes. Open findings are repeated in a reminder every ``digest_every``, which also lists resolved
ones. When no finding is left open, an all-clear is sent at once. A message and the record of what it reported are
written in one transaction, so a kill at any moment neither loses nor repeats an alert.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from integrity.alerts.compose import Alive, Composer
from integrity.alerts.status import WaitReason, find_pending
from integrity.catalog import notified, outbox
from integrity.catalog.connection import Catalog, Connection
from integrity.catalog.findings import count_open
from integrity.catalog.outbox import AlertKind
from integrity.catalog.root_meta import find_reports
from integrity.catalog.roots import count_all_files, find_roots
from integrity.config import MAILS_PER_HOUR, Alerts
from integrity.disks.signs import describe_for_damage
from integrity.kinds import HARDWARE_MATTERS
from integrity.model import Finding

_log = logging.getLogger(__name__)


class AlertPlanner:
    """Plan the alerts of one catalog, which is open for writing. Belongs to one thread."""

    def __init__(self, catalog: Catalog, settings: Alerts, composer: Composer, channels: Sequence[str]) -> None:
        self._catalog = catalog
        self._settings = settings
        self._composer = composer
        self._channels = tuple(channels)
        self._noticed_at: int | None = None  # when the oldest finding without a mail was first seen
        self._told_of_limit: int | None = None  # due time in the last log line about the mail limit

    def queue_due(self, now: int) -> int | None:
        """Queue the alerts that are due; return when the mail about the remaining findings is, or None."""
        if not self._channels:
            return None  # without a channel, findings stay pending
        with self._catalog.read() as c:
            is_due = self._is_anything_due(c, now)
        if is_due:
            with self._catalog.transaction() as c:
                self._queue(c, now)
        with self._catalog.read() as c:
            return self._incident_due_at(c, now)

    def _is_anything_due(self, c: Connection, now: int) -> bool:
        return (
            notified.has_coalescible(c, now)
            or self._is_incident_due(c, now)
            or self._is_all_clear(c, now)
            or self._is_digest_due(c, now)
            or self._is_alive_due(c, now)
            or bool(self._find_failures(c))
        )

    def _queue(self, c: Connection, now: int) -> None:
        """Queue everything that is due. Checked again inside the transaction, because others write too."""
        notified.coalesce(c, now)
        if self._is_incident_due(c, now):
            news = notified.find_pending_incidents(c, now)
            disks = describe_disks(c, [one.finding for one in news], now)
            message = self._composer.incident(news, now, files=count_all_files(c), disks=disks)
            outbox.queue(c, message, self._channels)
            notified.mark_notified(c, [one.finding.id for one in news], now)
        if self._is_all_clear(c, now):
            if self._settings.all_clear:
                over = notified.find_over(c)
                removed = notified.summarize(c, now).resolved - len(over)
                outbox.queue(c, self._composer.all_clear(over, removed, now), self._channels)
            notified.drop_over(c)
        if self._is_digest_due(c, now):
            still, over = notified.find_remindable(c, now), notified.find_over(c)
            disks = describe_disks(c, still, now)
            message = self._composer.digest(still, over, now, files=count_all_files(c), disks=disks)
            outbox.queue(c, message, self._channels)
            notified.drop_over(c)
        if self._is_alive_due(c, now):
            since = self._alive_since(c, now)
            files, size_bytes = notified.count_verified_since(c, since)
            life = Alive(since, files, size_bytes, count_open(c), tuple(outbox.channel_states(c)))
            outbox.queue(c, self._composer.alive(life, now), self._channels)
        for state in self._find_failures(c):
            others = [name for name in self._channels if name != state.name]
            outbox.queue(c, self._composer.channel(state, now), others)
            outbox.mark_failure_reported(c, state.name, now)
        outbox.prune(c, now)

    def _incident_due_at(self, c: Connection, now: int) -> int | None:
        """Return when the mail about new findings is due, or None. Log if it is delayed by the limit."""
        pending = find_pending(c, self._settings.group_s, now, noticed_at=self._noticed_at)
        if pending is None:
            self._noticed_at = None
            return None
        self._noticed_at = pending.noticed_at
        if pending.reason is WaitReason.LIMIT and pending.due_at != self._told_of_limit:
            self._told_of_limit = pending.due_at
            _log.warning("alerts_wait for_s=%d: %d mails within the hour", pending.due_at - now, MAILS_PER_HOUR)
        return pending.due_at

    def _is_incident_due(self, c: Connection, now: int) -> bool:
        due_at = self._incident_due_at(c, now)
        return due_at is not None and due_at <= now

    def _is_all_clear(self, c: Connection, now: int) -> bool:
        state = notified.summarize(c, now)
        return state.unresolved == 0 and state.resolved > 0 and notified.pending_since(c, now) is None

    def _is_digest_due(self, c: Connection, now: int) -> bool:
        state = notified.summarize(c, now)
        if state.waits_since is None or state.unresolved == 0:
            return False
        last = outbox.created_times(c, [AlertKind.DIGEST, AlertKind.REMINDER], 1)
        # What lies ahead was written before the clock was set back; the message sent since tells when the next is due.
        times = [time for time in (state.waits_since, *last) if time <= now]
        return not times or now - max(times) >= self._settings.digest_every_s

    def _is_alive_due(self, c: Connection, now: int) -> bool:
        since = self._alive_since(c, now)
        return now - since >= self._settings.alive_every_s or now < since  # or else the clock was set back

    def _alive_since(self, c: Connection, now: int) -> int:
        last = outbox.created_times(c, [AlertKind.ALIVE], 1)
        return last[0] if last else outbox.first_seen_at(c) or now

    def _find_failures(self, c: Connection) -> list[outbox.ChannelState]:
        """Return the failing channels that another channel can report."""
        failing = outbox.find_unreported_failures(c, outbox.LASTING_FAILURE_S)
        return [state for state in failing if set(self._channels) - {state.name}]


def describe_disks(c: Connection, findings: Iterable[Finding], now: int) -> list[str]:
    """Return a sentence for each disk and array below the roots with damage, as it was last read."""
    damaged = {finding.root for finding in findings if finding.kind in HARDWARE_MATTERS}
    reports = [report for root in find_roots(c) if root.path in damaged for report in find_reports(c, root)]
    return list(dict.fromkeys(describe_for_damage(reports, now)))
