"""Alerts as ``status`` shows them: what waits to be sent and why, and which channels fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity.cli.objects import iso_time
from integrity.cli.output import JsonObject, Output, printable

if TYPE_CHECKING:
    from integrity.alerts.alertstatus import AlertStatus
    from integrity.alerts.pending import PendingMail
    from integrity.catalog.outbox import ChannelState
    from integrity.cli.live import Live


def describe_alerts(alerts: AlertStatus, live: Live) -> Iterator[str]:
    """Write which findings nobody was told of yet, until when and why; nothing if there are none."""
    from integrity.cli.words import count, local_time

    pending = alerts.pending
    if pending is None:
        return
    since = f"{count(alerts.findings_waiting, 'finding')}, the first since {local_time(pending.noticed_at)}"
    yield "Alerts:"
    yield f"  waiting    {since}; {_explain(pending, alerts.group_s, live)}"
    yield "             read them now:  integrity findings"


def _explain(pending: PendingMail, group_s: int, live: Live) -> str:
    from integrity.alerts.pending import WaitReason
    from integrity.cli.words import local_time
    from integrity.config import MAILS_PER_HOUR, spell_duration

    if not live.may_run:
        return "only the service sends alerts, and none runs"
    next_mail = f"next mail {local_time(pending.due_at)}"
    if pending.reason is WaitReason.LIMIT:
        return f"{next_mail}: at most {MAILS_PER_HOUR} mails about new findings are sent within an hour"
    return f"{next_mail}: findings within {spell_duration(group_s)} share a mail ([alerts] group)"


def alerts_object(alerts: AlertStatus, live: Live) -> JsonObject:
    """Write what waits; times and reason are null while nothing does."""
    pending = alerts.pending
    return {
        "findings_waiting": alerts.findings_waiting,
        "waiting_since": iso_time(pending.noticed_at) if pending else None,
        "next_mail_at": iso_time(pending.due_at) if pending and live.may_run else None,
        "waits_for": (pending.reason.value if live.may_run else "service") if pending else None,
    }


def describe_channel(state: ChannelState, output: Output) -> Iterator[str]:
    """Say that alerts do not leave by this channel, and what waits; nothing of one that works."""
    from integrity.cli.words import count, local_time

    if state.failing_since is None:
        return
    waiting = f"; {count(state.waiting, 'message')} waiting for it" if state.waiting else ""
    mark = output.style(f"alerts by {printable(state.name)} fail", "yellow")
    yield f"{mark} since {local_time(state.failing_since)}: {printable(state.last_error or '')}{waiting}"
    yield "  try it when it is mended:  integrity alert test"


def channel_object(state: ChannelState) -> JsonObject:
    """Write how a channel fares."""
    return {
        "name": state.name,
        "is_failing": state.failing_since is not None,
        "failing_since": iso_time(state.failing_since),
        "failed_at": iso_time(state.failed_at),
        "is_permanent": state.is_permanent,
        "good_at": iso_time(state.good_at),
        "waiting": state.waiting,
        "error": state.last_error,
    }
