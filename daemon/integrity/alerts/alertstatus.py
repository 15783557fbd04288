"""The state of alerts at one moment, read from the catalog for ``status``."""

from __future__ import annotations

from dataclasses import dataclass

from integrity.alerts.recipients import find_recipients, sends_messages
from integrity.alerts.status import PendingMail, find_pending
from integrity.catalog import notified, outbox
from integrity.catalog.connection import Connection
from integrity.catalog.outbox import ChannelState
from integrity.config import Config


@dataclass(frozen=True, slots=True)
class AlertStatus:
    """
    Who is told, what waits to be sent, and how the channels work.

    Args:
        recipients: who is told, as configured.
        last_sent_at: when a channel last took a message; None: none did yet.
        findings_waiting: findings whose mail is not written yet.
        waiting_since: when the first of them was noticed; None: there is none.
        pending: the mail about them; None: nothing waits, or no channel could take the mail.
        group_s: how long a finding waits for others that share its mail.
        unsent: messages that at least one channel did not take yet.
        unsent_since: when the first of them was written; None: there is none.
        channels: the state of each configured channel that was used.
    """

    recipients: tuple[str, ...]
    last_sent_at: int | None
    findings_waiting: int
    waiting_since: int | None
    pending: PendingMail | None
    group_s: int
    unsent: int
    unsent_since: int | None
    channels: tuple[ChannelState, ...]


def find_alert_status(c: Connection, config: Config, now: int) -> AlertStatus:
    """Read the state of alerts."""
    group_s = config.alerts.group_s
    unsent, unsent_since = outbox.count_unsent(c)
    return AlertStatus(
        recipients=find_recipients(config),
        last_sent_at=outbox.last_sent_at(c),
        findings_waiting=notified.count_unsaid(c, now),
        waiting_since=notified.unsaid_since(c, now),
        pending=find_pending(c, group_s, now) if sends_messages(config) else None,
        group_s=group_s,
        unsent=unsent,
        unsent_since=unsent_since,
        channels=tuple(outbox.channel_states(c)),
    )
