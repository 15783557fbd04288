"""The state of alerts at one moment, read from the catalog for ``status``."""

from __future__ import annotations

from dataclasses import dataclass

from integrity.alerts.pending import PendingMail, find_pending
from integrity.alerts.recipients import sends_messages
from integrity.catalog import outbox, told
from integrity.catalog.connect import Connection
from integrity.catalog.outbox import ChannelState
from integrity.config import Config


@dataclass(frozen=True, slots=True)
class AlertStatus:
    """
    What waits to be sent, and how the channels work.

    Args:
        findings_waiting: findings whose mail is not written yet.
        pending: that mail; None while no finding waits, or no channel could take the mail.
        group_s: how long a finding waits for others that share its mail.
        channels: the state of each configured channel that was used.
    """

    findings_waiting: int
    pending: PendingMail | None
    group_s: int
    channels: tuple[ChannelState, ...]


def find_alert_status(c: Connection, config: Config, now: int) -> AlertStatus:
    """Read the state of alerts."""
    group_s = config.alerts.group_s
    return AlertStatus(
        findings_waiting=told.count_unsaid(c, now),
        pending=find_pending(c, group_s, now) if sends_messages(config) else None,
        group_s=group_s,
        channels=tuple(outbox.channel_states(c)),
    )
