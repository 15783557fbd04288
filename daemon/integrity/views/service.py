"""The service as commands and pages show it: what it does, whom it alerts, what it reports to a hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity import __version__, program
from integrity.config import MAILS_PER_HOUR
from integrity.errors import printable, show_path
from integrity.paths import path_fields
from integrity.service.systemd.installed import find_stopped_unit
from integrity.units import format_duration, format_size
from integrity.words.card import Card, Row, write_rows
from integrity.words.text import JsonObject, count, iso_time, local_time

if TYPE_CHECKING:
    from integrity.alerts.status import AlertStatus
    from integrity.catalog.outbox import ChannelState
    from integrity.catalog.root_meta import PastService
    from integrity.service.control.client import DaemonClient
    from integrity.service.control.wire import BusyRoot, DaemonState, QueuedJob
    from integrity.service.systemd.installed import StoppedUnit
    from integrity.words.text import Styler


_SHOWN = 5


class ServiceView(NamedTuple):
    """
    What is known of the service at this moment.

    Args:
        state: as it tells it; None if there is none, or it can't be asked.
        trouble: why it can't be asked; None if there is none to ask.
        stopped: its unit, if there is none to ask although one is installed.
        past: the last one, if there is none to ask although one served the catalog.
    """

    state: DaemonState | None
    trouble: str | None = None
    stopped: StoppedUnit | None = None
    past: PastService | None = None

    @property
    def may_run(self) -> bool:
        return self.state is not None or self.trouble is not None

    @property
    def is_missing(self) -> bool:
        """Return whether no service runs although the owner had or installed one."""
        return self.stopped is not None or self.past is not None

    @property
    def stop_reason(self) -> str:
        """Say why the service can't record what it finds, which makes it useless; empty if it can."""
        return "" if self.state is None else printable(self.state.trouble)


def find_idleness(live: ServiceView) -> tuple[str, tuple[str, ...]]:
    """Return why no service can be asked, as a sentence, and the commands that change it; empty if one can be asked."""
    if live.trouble is not None:
        return f"The service can't be asked: {printable(live.trouble)}.", ()
    if live.is_missing:
        commands = (program.command("daemon"),) if live.stopped is None else live.stopped.commands
        return f"{_describe_end(live.stopped, live.past)}: nothing is checked by itself.", commands
    if live.state is not None:
        return "", ()
    return "No service runs for this catalog: nothing is checked by itself.", (program.command("setup"),)


def ask_service(
    daemon: DaemonClient | None,
    catalog: bytes,
    patience_s: float,
    find_past: Callable[[], PastService | None] = lambda: None,
) -> ServiceView:
    """
    Ask a daemon, if there is one, what it is doing; ``find_past`` is called if there is none.

    Raises:
        CatalogError: it does not answer.
    """
    if daemon is None:
        return ServiceView(None, stopped=find_stopped_unit(catalog), past=find_past())
    with daemon:
        return ServiceView(daemon.ask_state(patience_s))


def _describe_end(unit: StoppedUnit | None, past: PastService | None) -> str:
    when = "" if past is None else local_time(past.seen_at)
    if past is not None and past.has_crashed:
        return f"The service that checked here crashed, was killed, or lost power after {when}"
    if unit is not None and unit.failed:
        return "The service is installed, but it failed"
    return f"The service that checked here was stopped {when}" if past else "The service is installed, but stopped"


def describe_service(live: ServiceView) -> Iterator[str]:
    state = live.state
    if state is None:
        why, commands = find_idleness(live)
        yield f"Service: {why[:1].lower()}{why[1:]}"
        for command in commands:
            yield f"  - {command}"
        if live.trouble is None and live.stopped is None and not (live.past and live.past.has_crashed):
            yield f"  or let cron run every night:  {program.command('scrub --due')}"
        return
    other = "" if state.version == __version__ else f"; this command is version {__version__}: restart the service"
    yield (
        f"Service: runs since {local_time(state.started_at)}, version {printable(state.version)}"
        f", process {state.pid}{other}"
    )
    if live.stop_reason:
        yield f"  its last job could not be recorded: {live.stop_reason}"
    waiting = [f"{_name_job(one)}: {printable(one.reason)}" for one in state.queued]
    now = [_describe_busy(one) for one in state.busy] or ["nothing"]
    yield from write_rows([_shorten("now", now), *([_shorten("waiting", waiting)] if waiting else [])])
    runs = ", ".join(f"{printable(one.name)} {local_time(one.at)}" for one in state.next_runs)
    yield f"Next runs: {runs or 'none'}"


def _shorten(label: str, lines: Sequence[str]) -> Row:
    """Return the first lines, and how many there are besides."""
    more = [f"and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return label, "\n".join([*lines[:_SHOWN], *more])


def _describe_busy(one: BusyRoot) -> str:
    total = "" if one.bytes_total is None else f" of {format_size(one.bytes_total)}"
    rate = "" if one.rate_bytes_per_s is None else f", {format_size(one.rate_bytes_per_s)} a second"
    done = f"{count(one.files_done, 'file')}, {format_size(one.bytes_done)}{total}{rate}"
    return f"{_name_job(one)}: {printable(one.phase)}, {done}"


def _name_job(one: BusyRoot | QueuedJob) -> str:
    copy = f" with {printable(one.copy)}" if one.copy else ""
    return f"{printable(one.job)} of {show_path(one.root) if one.root else 'several roots'}{copy}"


def list_watch(live: ServiceView, root: bytes) -> Iterator[Row]:
    """Say how well a root is watched, and what of it is not seen and why; nothing where no service tells."""
    if live.state is None:
        return
    watch = next((one for one in live.state.watch if one.root == root), None)
    if watch is None:
        yield "watched", "no, or not yet: changes are found by scans"
        return
    if watch.folders:
        yield "watched", f"{count(watch.folders, 'folder')}: changes are noticed as they happen"
    if watch.blind:
        yield _shorten("not seen", [printable(text) for text in watch.blind])


def find_wait(live: ServiceView, copy: str) -> str | None:
    """Say why a copy that is due is not compared; None: it is not due, or nobody tells."""
    waits = live.state.copies if live.state is not None else ()
    return next((one.reason for one in waits if one.name == copy), None)


def service_object(live: ServiceView) -> JsonObject:
    """Write what is known of the service; lists are empty where it tells nothing."""
    state = live.state
    busy, queued, watch = (state.busy, state.queued, state.watch) if state else ((), (), ())
    return {
        "is_running": state is not None,
        "trouble": live.trouble or live.stop_reason or None,
        "is_missing": live.is_missing,
        "ended_at": iso_time(live.past.seen_at) if live.past else None,
        "has_crashed": live.past is not None and live.past.has_crashed,
        "pid": state.pid if state else None,
        "version": state.version if state else None,
        "started_at": iso_time(state.started_at) if state else None,
        "busy": [
            {
                **path_fields("root", one.root),
                "job": one.job,
                "phase": one.phase,
                "files_done": one.files_done,
                "bytes_done": one.bytes_done,
                "bytes_total": one.bytes_total,
                "rate_bytes_per_s": one.rate_bytes_per_s,
                "copy": one.copy or None,
            }
            for one in busy
        ],
        "queued": [
            {**path_fields("root", one.root), "job": one.job, "reason": one.reason, "copy": one.copy or None}
            for one in queued
        ],
        "next_runs": [{"name": one.name, "at": iso_time(one.at)} for one in state.next_runs] if state else [],
        "watch": [{**path_fields("root", one.root), "folders": one.folders, "blind": list(one.blind)} for one in watch],
    }


def make_alerts_card(alerts: AlertStatus, live: ServiceView, config_path: bytes) -> Card:
    sent = "none sent yet" if alerts.last_sent_at is None else f"last sent {local_time(alerts.last_sent_at)}"
    if not alerts.recipients:
        card = make_nobody_card(config_path)
    elif live.may_run:
        card = Card(f"to {_list(alerts.recipients)}; {sent}")
    else:
        later = f"once it runs: to {_list(alerts.recipients)} ({sent})"
        card = Card("nobody will be told of damage while the service does not run", rows=(("", later),))
    rows = list(card.rows)
    if alerts.unsent and alerts.unsent_since is not None:
        unsent = f"{count(alerts.unsent, 'message')}, written since {local_time(alerts.unsent_since)}"
        rows.append(("unsent", unsent))
    if alerts.findings_waiting and alerts.waiting_since is not None:
        since = f"{count(alerts.findings_waiting, 'finding')}, the first since {local_time(alerts.waiting_since)}"
        read = f"read them now:  {program.command('findings')}"
        rows.append(("waiting", f"{since}{_explain(alerts, live)}\n{read}"))
    return Card(f"Alerts: {card.title}", facts=alerts_object(alerts, live), rows=tuple(rows))


def make_nobody_card(config_path: bytes) -> Card:
    from integrity.alerts.status import HOW_TO_TELL, NOBODY

    sample, test = program.command("config sample"), program.command("alert test")
    lines = f"{HOW_TO_TELL}, in {show_path(config_path)}", f"a commented sample:  {sample};  to try it:  {test}"
    return Card(NOBODY, rows=tuple(("", line) for line in lines))


def describe_recipients(recipients: Sequence[str]) -> str:
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
