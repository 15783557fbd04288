"""Alerts as commands and pages show them: who is told, what waits to be sent and why, which channels fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from integrity import program
from integrity.config import MAILS_PER_HOUR, format_duration
from integrity.errors import printable, show_path
from integrity.views.objects import JsonObject, iso_time
from integrity.views.service import ServiceView
from integrity.views.text import count, local_time

if TYPE_CHECKING:
    from integrity.alerts.status import AlertStatus
    from integrity.catalog.outbox import ChannelState
    from integrity.views.text import Styler


def describe_alerts(alerts: AlertStatus, live: ServiceView, config_path: bytes) -> Iterator[str]:
    """Write who is told, when it was last done, and which findings nobody was told of yet, until when and why."""
    sent = "none sent yet" if alerts.last_sent_at is None else f"last sent {local_time(alerts.last_sent_at)}"
    if not alerts.recipients:
        yield from (f"{'' if number else 'Alerts: '}{line}" for number, line in enumerate(describe_nobody(config_path)))
    elif live.may_run:
        yield f"Alerts: to {_list(alerts.recipients)}; {sent}"
    else:
        yield "Alerts: nobody will be told of damage while the service does not run"
        yield f"  once it runs: to {_list(alerts.recipients)} ({sent})"
    if alerts.unsent and alerts.unsent_since is not None:
        yield f"  unsent     {count(alerts.unsent, 'message')}, written since {local_time(alerts.unsent_since)}"
    if alerts.findings_waiting and alerts.waiting_since is not None:
        since = f"{count(alerts.findings_waiting, 'finding')}, the first since {local_time(alerts.waiting_since)}"
        yield f"  waiting    {since}{_explain(alerts, live)}"
        yield f"             read them now:  {program.command('findings')}"


def describe_nobody(config_path: bytes) -> Iterator[str]:
    """Say that no channel is configured, and what to set in which file."""
    from integrity.alerts.status import HOW_TO_TELL, NOBODY

    yield NOBODY
    yield f"  {HOW_TO_TELL}, in {show_path(config_path)}"
    yield f"  a commented sample:  {program.command('config sample')};  to try it:  {program.command('alert test')}"


def describe_recipients(recipients: Sequence[str]) -> str:
    """Write who is told, on one line."""
    return f"alerts go to {_list(recipients)}; to try it:  {program.command('alert test')}"


def _list(recipients: Sequence[str]) -> str:
    return ", ".join(printable(name) for name in recipients)


def _explain(alerts: AlertStatus, live: ServiceView) -> str:
    """Say when the mail about new findings comes, and why not at once; nothing if none can come."""
    from integrity.alerts.status import WaitReason

    if alerts.pending is None or not live.may_run:
        return ""
    next_mail = f"; next mail {local_time(alerts.pending.due_at)}"
    if alerts.pending.reason is WaitReason.LIMIT:
        return f"{next_mail}: at most {MAILS_PER_HOUR} mails about new findings are sent within an hour"
    return f"{next_mail}: findings within {format_duration(alerts.group_s)} share a mail ([alerts] group)"


def alerts_object(alerts: AlertStatus, live: ServiceView) -> JsonObject:
    """Write who is told and what waits; times and reason of what waits are null while nothing does."""
    pending = alerts.pending
    waits_for = None
    if alerts.findings_waiting:
        waits_for = "channel" if pending is None else pending.reason.value if live.may_run else "service"
    return {
        "recipients": list(alerts.recipients),
        "is_anybody_told": bool(alerts.recipients) and live.may_run,
        "last_sent_at": iso_time(alerts.last_sent_at),
        "messages_waiting": alerts.unsent,
        "findings_waiting": alerts.findings_waiting,
        "waiting_since": iso_time(alerts.waiting_since),
        "next_mail_at": iso_time(pending.due_at) if pending and live.may_run else None,
        "waits_for": waits_for,
    }


def describe_channel(state: ChannelState, styler: Styler) -> Iterator[str]:
    """Say that alerts do not leave by this channel, and what waits; nothing of one that works."""
    if state.failing_since is None:
        return
    waiting = f"; {count(state.waiting, 'message')} waiting for it" if state.waiting else ""
    mark = styler.style(f"alerts by {printable(state.name)} fail", "yellow")
    yield f"{mark} since {local_time(state.failing_since)}: {printable(state.last_error or '')}{waiting}"
    yield f"  once it works again, try it:  {program.command('alert test')}"


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
