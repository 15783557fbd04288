"""
When the mail about new findings is due, and what it waits for.

Decides for the planner, which queues the mail, and for ``status``, which says why none has come yet.

Who is told, read from the configuration alone: loading the channels themselves takes a tenth of a second.

The state of alerts at one moment, read from the catalog for ``status``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from integrity.catalog import notified, outbox
from integrity.catalog.connection import Connection
from integrity.catalog.outbox import AlertKind, ChannelState
from integrity.config import MAILS_PER_HOUR, Config

_HOUR_S = 3600


class WaitReason(StrEnum):
    """Why the mail about a finding is not sent at once."""

    GROUP = "group"  # more findings may follow: those within [alerts] group share a mail
    LIMIT = "limit"  # MAILS_PER_HOUR mails about new findings were sent within the last hour


class PendingMail(NamedTuple):
    """The next mail about new findings: when the first of them was noticed, when the mail is due, what it waits for."""

    noticed_at: int
    due_at: int
    reason: WaitReason


def find_pending(c: Connection, group_s: int, now: int, *, noticed_at: int | None = None) -> PendingMail | None:
    """
    Return the mail that new findings wait for; None: there are none.

    A scrub that finds damage for hours sends a few mails, not one every two minutes. The first grave finding of its
    kind in a root within the hour waits for no limit, however many mails there were before.

    Args:
        c: the catalog.
        group_s: how long a finding waits for others that share its mail.
        now: UTC seconds.
        noticed_at: when the caller first saw that something waits, if it did.
    """
    oldest = notified.unsaid_since(c, now)
    if oldest is None:
        return None
    # Remembered by the caller, for a finding that is found again and again must not wait again and again. Never in the
    # future: the clock may have been put back.
    first = min(oldest, now, now if noticed_at is None else noticed_at)
    grouped = PendingMail(first, first + group_s, WaitReason.GROUP)
    earlier = outbox.created_times(c, [AlertKind.INCIDENT], MAILS_PER_HOUR)
    if len(earlier) < MAILS_PER_HOUR or not now - _HOUR_S < earlier[-1] <= now:
        return grouped
    limited = PendingMail(first, earlier[-1] + _HOUR_S, WaitReason.LIMIT)
    if limited.due_at <= grouped.due_at:
        return grouped
    grave_at = notified.unsaid_grave_since(c, now, now - _HOUR_S)
    if grave_at is not None and grave_at + group_s < limited.due_at:
        return PendingMail(first, grave_at + group_s, WaitReason.GROUP)
    return limited


NOBODY = "nobody will be told of damage: no channel is configured"
"""What is wrong where there is no channel."""

HOW_TO_TELL = "set `to` in [mail], or `apprise`, `command` or `heartbeat_url` in [alerts]"
"""What to do about it."""


def sends_messages(config: Config) -> bool:
    """Return whether messages leave through any channel; the heartbeat carries none."""
    return bool(config.mail.to or config.alerts.apprise or config.alerts.command)


def find_recipients(config: Config) -> tuple[str, ...]:
    """List who is told, without secrets: addresses, kinds of services, the program of a command, the heartbeat."""
    alerts = config.alerts
    names = [f"mail:{address}" for address in config.mail.to]
    names += [f"apprise:{url.partition(':')[0]}" for url in alerts.apprise]
    names += [f"command:{alerts.command[0]}"] if alerts.command else []
    names += ["heartbeat"] if alerts.heartbeat_url else []
    return tuple(dict.fromkeys(names))


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
