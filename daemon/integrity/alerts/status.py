"""
Report the state of alerts: who gets them, which are pending, and whether the channels work.

Decides when the mail about new findings is due, for ``incidents``, which queues it, and for the command ``status``,
which explains the delay. Recipients are read from the configuration alone, because importing the channels takes 0.1 s.
"""

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
    """The next mail about new findings: when the first finding was noticed, when the mail is due, and why it waits."""

    noticed_at: int
    due_at: int
    reason: WaitReason


def find_pending(c: Connection, group_s: int, now: int, *, noticed_at: int | None = None) -> PendingMail | None:
    """
    Return the mail that new findings wait for, or None if there are no new findings.

    A scrub that finds damage for hours sends a few mails, not one every two minutes. The first grave finding of its
    kind in a root within an hour ignores the limit, no matter how many mails were sent before.

    Args:
        noticed_at: when the caller first saw a pending finding, if it did.
    """
    oldest = notified.pending_since(c, now)
    if oldest is None:
        return None
    # The caller remembers this time, so that a finding that is found repeatedly does not wait longer each time. Limited
    # to now, because the clock may have been set back.
    first = min(oldest, now, now if noticed_at is None else noticed_at)
    grouped = PendingMail(first, first + group_s, WaitReason.GROUP)
    earlier = outbox.created_times(c, [AlertKind.INCIDENT], MAILS_PER_HOUR)
    if len(earlier) < MAILS_PER_HOUR or not now - _HOUR_S < earlier[-1] <= now:
        return grouped
    limited = PendingMail(first, earlier[-1] + _HOUR_S, WaitReason.LIMIT)
    if limited.due_at <= grouped.due_at:
        return grouped
    grave_at = notified.urgent_pending_since(c, now, now - _HOUR_S)
    if grave_at is not None and grave_at + group_s < limited.due_at:
        return PendingMail(first, grave_at + group_s, WaitReason.GROUP)
    return limited


NOBODY = "nobody will be told of damage: no channel is configured"
"""The warning if no channel is configured."""

HOW_TO_TELL = "set `to` in [mail], or `apprise`, `command` or `heartbeat_url` in [alerts]"
"""The remedy for it."""


def sends_messages(config: Config) -> bool:
    """Return whether any channel takes messages. The heartbeat takes none."""
    return bool(config.mail.to or config.alerts.apprise or config.alerts.command)


def find_recipients(config: Config) -> tuple[str, ...]:
    """Return the recipients without secrets: addresses, kinds of services, the command's program, the heartbeat."""
    alerts = config.alerts
    names = [f"mail:{address}" for address in config.mail.to]
    names += [f"apprise:{url.partition(':')[0]}" for url in alerts.apprise]
    names += [f"command:{alerts.command[0]}"] if alerts.command else []
    names += ["heartbeat"] if alerts.heartbeat_url else []
    return tuple(dict.fromkeys(names))


class AlertStatus(NamedTuple):
    """
    Recipients, pending messages, and the state of the channels. Times are UTC seconds.

    Args:
        last_sent_at: when a channel last accepted a message; None if none did.
        waiting_since: when the first of them was noticed; None if there are none.
        pending: the mail about them; None if there are none, or no channel takes messages.
        unsent: messages that at least one channel has not accepted yet.
        unsent_since: when the first of them was written; None if there are none.
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
    group_s = config.alerts.group_s
    unsent, unsent_since = outbox.count_unsent(c)
    return AlertStatus(
        recipients=find_recipients(config),
        last_sent_at=outbox.last_sent_at(c),
        findings_waiting=notified.count_pending(c, now),
        waiting_since=notified.pending_since(c, now),
        pending=find_pending(c, group_s, now) if sends_messages(config) else None,
        group_s=group_s,
        unsent=unsent,
        unsent_since=unsent_since,
        channels=tuple(outbox.channel_states(c)),
    )
