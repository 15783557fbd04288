"""
When the mail about new findings is due, and what it waits for.

Decides for the planner, which queues the mail, and for ``status``, which says why none has come yet.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from integrity.catalog import notified, outbox
from integrity.catalog.connection import Connection
from integrity.catalog.outbox import AlertKind
from integrity.config import MAILS_PER_HOUR

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
