"""
Alerts as commands show them: who is told, what waits to be sent and why, which channels fail.

What a running service says of itself, for ``status``: nothing here fails or takes long if it can't be asked.

What status says of a copy: what of it was compared, how closely, how long ago, and what is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity import __version__
from integrity.cli.json_objects import iso_time
from integrity.cli.output import JsonObject, Output, printable
from integrity.cli.session import Session
from integrity.errors import CatalogError, show_path
from integrity.kinds import INTEGRITY_PROBLEMS
from integrity.paths import absolute, path_fields

if TYPE_CHECKING:
    from integrity.alerts.status import AlertStatus
    from integrity.catalog.outbox import ChannelState
    from integrity.jobs.compare.deadline import CopyStatus
    from integrity.service.states import BusyRoot, DaemonState, QueuedJob, WatchState


def describe_alerts(alerts: AlertStatus, live: ServiceView, config_path: bytes) -> Iterator[str]:
    """Write who is told, when it was last done, and which findings nobody was told of yet, until when and why."""
    from integrity.cli.text import count, local_time

    sent = "none sent yet" if alerts.last_sent_at is None else f"last sent {local_time(alerts.last_sent_at)}"
    if not alerts.recipients:
        yield from (f"{'' if number else 'Alerts: '}{line}" for number, line in enumerate(describe_nobody(config_path)))
    elif live.may_run:
        yield f"Alerts: to {_list(alerts.recipients)}; {sent}"
    else:
        yield "Alerts: nobody will be told of damage: only the service sends alerts, and none runs"
        yield f"  to {_list(alerts.recipients)} once it runs ({sent}):  integrity service install --now"
    if alerts.unsent and alerts.unsent_since is not None:
        yield f"  unsent     {count(alerts.unsent, 'message')}, written since {local_time(alerts.unsent_since)}"
    if alerts.findings_waiting and alerts.waiting_since is not None:
        since = f"{count(alerts.findings_waiting, 'finding')}, the first since {local_time(alerts.waiting_since)}"
        yield f"  waiting    {since}{_explain(alerts, live)}"
        yield "             read them now:  integrity findings"


def describe_nobody(config_path: bytes) -> Iterator[str]:
    """Say that no channel is configured, and what to set in which file."""
    from integrity.alerts.status import HOW_TO_TELL, NOBODY

    yield NOBODY
    yield f"  {HOW_TO_TELL}, in {show_path(config_path)}"
    yield "  a commented sample:  integrity config sample;  to try it:  integrity alert test"


def describe_recipients(recipients: Sequence[str]) -> str:
    """Write who is told, on one line."""
    return f"alerts go to {_list(recipients)}; to try it:  integrity alert test"


def _list(recipients: Sequence[str]) -> str:
    return ", ".join(printable(name) for name in recipients)


def _explain(alerts: AlertStatus, live: ServiceView) -> str:
    """Say when the mail about new findings comes, and why not at once; nothing if none can come."""
    from integrity.alerts.status import WaitReason
    from integrity.cli.text import local_time
    from integrity.config import MAILS_PER_HOUR, spell_duration

    if alerts.pending is None or not live.may_run:
        return ""
    next_mail = f"; next mail {local_time(alerts.pending.due_at)}"
    if alerts.pending.reason is WaitReason.LIMIT:
        return f"{next_mail}: at most {MAILS_PER_HOUR} mails about new findings are sent within an hour"
    return f"{next_mail}: findings within {spell_duration(alerts.group_s)} share a mail ([alerts] group)"


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


def describe_channel(state: ChannelState, output: Output) -> Iterator[str]:
    """Say that alerts do not leave by this channel, and what waits; nothing of one that works."""
    from integrity.cli.text import count, local_time

    if state.failing_since is None:
        return
    waiting = f"; {count(state.waiting, 'message')} waiting for it" if state.waiting else ""
    mark = output.style(f"alerts by {printable(state.name)} fail", "yellow")
    yield f"{mark} since {local_time(state.failing_since)}: {printable(state.last_error or '')}{waiting}"
    yield "  once it works again, try it:  integrity alert test"


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


_PATIENCE_S = 2.0
"""A service answers in a few milliseconds; on a machine that swaps it takes longer, and status is wanted then."""

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ServiceView:
    """
    What is known of the service at this moment.

    Args:
        state: as it tells it; None if there is none, or it can't be asked.
        trouble: why it can't be asked; None if there is none to ask.
    """

    state: DaemonState | None
    trouble: str | None = None

    @property
    def may_run(self) -> bool:
        """Return whether a service runs, or one that can't be asked may run."""
        return self.state is not None or self.trouble is not None

    @property
    def stop_reason(self) -> str:
        """Say why the service can't record what it finds, which makes it useless; empty if it can."""
        return "" if self.state is None else printable(self.state.trouble)


def find_live(session: Session) -> ServiceView:
    """Ask the service of this catalog, if there is one."""
    from integrity.cli.daemon_client import find_state

    try:
        return ServiceView(find_state(session, patience_s=_PATIENCE_S))
    except CatalogError as error:
        return ServiceView(None, str(error))


def describe_service(live: ServiceView) -> Iterator[str]:
    """Say whether the service runs, what it does, what waits for it, and what comes next."""
    from integrity.cli.text import local_time

    state = live.state
    if live.trouble is not None:
        yield f"Service: {printable(live.trouble)}"
        yield "Next runs: not known, for the service does not tell"
        return
    if state is None:
        yield "Service: none runs for this catalog"
        yield "Next runs: none by themselves; have cron or a timer run `integrity scrub --due` every night"
        return
    other = "" if state.version == __version__ else f"; this command is version {__version__}: restart the service"
    yield (
        f"Service: runs since {local_time(state.started_at)}, version {printable(state.version)}"
        f", process {state.pid}{other}"
    )
    if live.stop_reason:
        yield f"  its last job could not be recorded: {live.stop_reason}"
    yield from _shorten("  now        ", [_describe_busy(one) for one in state.busy] or ["nothing"])
    yield from _shorten("  waiting    ", [_describe_queued(one) for one in state.queued])
    runs = ", ".join(f"{printable(one.name)} {local_time(one.at)}" for one in state.next_runs)
    yield f"Next runs: {runs or 'none'}"


def _shorten(label: str, lines: Sequence[str]) -> Iterator[str]:
    """Write the first lines behind a label, and how many there are besides."""
    for number, line in enumerate(lines[:_SHOWN]):
        yield f"{' ' * len(label) if number else label}{line}"
    if len(lines) > _SHOWN:
        yield f"{' ' * len(label)}and {len(lines) - _SHOWN:,} more"


def _describe_busy(one: BusyRoot) -> str:
    from integrity.cli.text import count
    from integrity.config import format_size

    total = "" if one.bytes_total is None else f" of {format_size(one.bytes_total)}"
    rate = "" if one.rate_bytes_per_s is None else f", {format_size(one.rate_bytes_per_s)} a second"
    done = f"{count(one.files_done, 'file')}, {format_size(one.bytes_done)}{total}{rate}"
    return f"{printable(one.job)} of {_place(one.root)}{_with(one.copy)}: {printable(one.phase)}, {done}"


def _describe_queued(one: QueuedJob) -> str:
    return f"{printable(one.job)} of {_place(one.root)}{_with(one.copy)}: {printable(one.reason)}"


def _with(copy: str) -> str:
    return f" with {printable(copy)}" if copy else ""


def _place(root: bytes) -> str:
    return show_path(root) if root else "several roots"


def describe_watch(live: ServiceView, root: bytes) -> Iterator[str]:
    """Say how well a root is watched, and what of it is not seen and why; nothing where no service tells."""
    from integrity.cli.text import count

    if live.state is None:
        return
    watch = _find_watch(live.state, root)
    if watch is None:
        yield "  watched    no, or not yet: changes are found by scans"
        return
    if watch.folders:
        yield f"  watched    {count(watch.folders, 'folder')}: changes are noticed as they happen"
    yield from _shorten("  not seen   ", [printable(text) for text in watch.blind])


def _find_watch(state: DaemonState, root: bytes) -> WatchState | None:
    return next((one for one in state.watch if one.root == root), None)


def find_wait(live: ServiceView, copy: str) -> str | None:
    """Say why a copy that is due is not compared; None: it is not due, or nobody tells."""
    waits = live.state.copies if live.state is not None else ()
    return next((one.reason for one in waits if one.name == copy), None)


def service_object(live: ServiceView) -> JsonObject:
    """Write what is known of the service; lists are empty where it tells nothing."""
    state = live.state
    return {
        "is_running": state is not None,
        "trouble": live.trouble or live.stop_reason or None,
        "pid": state.pid if state else None,
        "version": state.version if state else None,
        "started_at": iso_time(state.started_at) if state else None,
        "busy": [_busy_object(one) for one in state.busy] if state else [],
        "queued": [_queued_object(one) for one in state.queued] if state else [],
        "next_runs": [{"name": one.name, "at": iso_time(one.at)} for one in state.next_runs] if state else [],
        "watch": [_watch_object(one) for one in state.watch] if state else [],
    }


def _busy_object(one: BusyRoot) -> JsonObject:
    return {
        **path_fields("root", one.root),
        "job": one.job,
        "phase": one.phase,
        "files_done": one.files_done,
        "bytes_done": one.bytes_done,
        "bytes_total": one.bytes_total,
        "rate_bytes_per_s": one.rate_bytes_per_s,
        "copy": one.copy or None,
    }


def _queued_object(one: QueuedJob) -> JsonObject:
    return {**path_fields("root", one.root), "job": one.job, "reason": one.reason, "copy": one.copy or None}


def _watch_object(one: WatchState) -> JsonObject:
    return {**path_fields("root", one.root), "folders": one.folders, "blind": list(one.blind)}


def describe_copy(one: CopyStatus, live: ServiceView, output: Output) -> Iterator[str]:
    """Write a few lines on a copy."""
    from integrity.cli.text import describe_kinds

    name = "" if one.name == one.url else f" {printable(one.name)}:"
    yield f"copy{name} {printable(one.url)}  (of {show_path(absolute(one.root.path, one.prefix))})"
    yield f"  compared   {_describe_comparisons(one, output)}"
    level = _describe_level(one)
    if level:
        yield f"  level      {level}"
    wait = find_wait(live, one.name)
    if wait is not None:
        yield f"  now        {printable(wait)}"
    if one.open_kinds:
        color = "red" if set(one.open_kinds) & INTEGRITY_PROBLEMS else "yellow"
        yield f"  open       {output.style(describe_kinds(one.open_kinds), color)}:  integrity findings"
    yield ""


def copy_object(one: CopyStatus, live: ServiceView) -> JsonObject:
    """Make the object of a copy."""
    waits = one.waits
    return {
        "name": one.name,
        "url": one.url,
        **path_fields("of", absolute(one.root.path, one.prefix)),
        **path_fields("root", one.root.path),
        "verify_every_s": one.verify_every_s,
        "files": waits.files if waits else None,
        "files_compared": waits.compared if waits else 0,
        "files_same": waits.same if waits else 0,
        "files_read": waits.read if waits else 0,
        "files_not_comparable": waits.silent if waits else 0,
        "files_overdue": waits.overdue if waits else 0,
        "last_compared_at": iso_time(waits.last_compared_at) if waits else None,
        "oldest_comparison_at": iso_time(waits.waits_since) if waits and waits.compared == waits.files else None,
        "next_due_at": iso_time(one.due_at),
        "is_overdue": one.is_overdue,
        "waits": find_wait(live, one.name),
        "findings_open": {kind.value: number for kind, number in sorted(one.open_kinds.items())},
    }


def _describe_comparisons(one: CopyStatus, output: Output) -> str:
    from integrity.cli.text import count, local_time
    from integrity.config import spell_duration

    waits = one.waits
    promise = "" if one.verify_every_s is None else f" within {spell_duration(one.verify_every_s)}"
    if waits is None or waits.last_compared_at is None:
        if one.is_overdue:
            return f"{output.style('OVERDUE', 'yellow')}: never, and not{promise}"
        return "never" if one.due_at is None else f"never; due until {local_time(one.due_at)}"
    last = f"last {local_time(waits.last_compared_at)}"
    if one.is_overdue:
        late = f"{waits.overdue:,} of {count(waits.files, 'file')} not{promise}"
        return f"{output.style('OVERDUE', 'yellow')}: {late}; {last}"
    if waits.compared < waits.files:
        some = f"{waits.compared:,} of {count(waits.files, 'file')}"
        return f"{some}, the others not yet, or not since they changed; {last}"
    since = "" if waits.waits_since is None else f", the longest ago {local_time(waits.waits_since)}"
    return f"all of {count(waits.files, 'file')}{promise}{since}"


def _describe_level(one: CopyStatus) -> str:
    """Say how closely its files were looked at."""
    waits = one.waits
    if waits is None or not waits.compared:
        return ""
    stated = waits.same - waits.read
    parts = [f"{waits.read:,} match by reading the data back"] if waits.read else []
    parts += [f"{stated:,} match by the checksum the copy stores"] if stated else []
    parts += [f"{waits.silent:,} could not be compared"] if waits.silent else []
    return ", ".join(parts) or "none matches"
