"""
What status says of a root's promise: how long ago its bytes were verified, and whether the windows are enough.

``integrity status``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode, code_for_kinds
from integrity.cli.json_objects import iso_time
from integrity.cli.output import JsonObject, Output, print_line, printable
from integrity.cli.params import PATH
from integrity.cli.running import real_path
from integrity.cli.session import Session
from integrity.cli.status_service import (
    ServiceView,
    alerts_object,
    channel_object,
    copy_object,
    describe_alerts,
    describe_channel,
    describe_copy,
    describe_service,
    describe_watch,
    find_live,
    service_object,
)
from integrity.errors import AppError, CatalogCorrupt, ConfigError, show_path
from integrity.kinds import INTEGRITY_PROBLEMS
from integrity.model import RootState
from integrity.paths import path_fields

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.runs import RunRecord
    from integrity.jobs.scrub.plan import Plan
    from integrity.jobs.status import RootStatus, Status


def describe_promise(one: RootStatus, output: Output) -> Iterator[str]:
    """Write a line on ages, and where a service scrubs in windows one on what is to come."""
    if one.coverage.files:
        yield f"  last seen  {_describe_ages(one)}"
    if one.plan is not None and one.plan.bytes_total:
        yield f"  forecast   {_describe_plan(one.plan, one.windows, output)}"


def plan_object(plan: Plan) -> JsonObject:
    """Make the object of a plan."""
    return {
        "is_kept": plan.is_kept,
        "needed_bytes_per_s": round(plan.needed_bytes_per_s),
        "measured_bytes_per_s": None if plan.measured_bytes_per_s is None else round(plan.measured_bytes_per_s),
        "bytes_overdue": plan.bytes_overdue,
        "bytes_due_soon": plan.bytes_due_soon,
        "met_at": iso_time(plan.met_at),
        "advice": plan.advice,
    }


def _describe_ages(one: RootStatus) -> str:
    """Say how much was last verified (or recorded) how long ago, by bytes, or by files where there are none."""
    rows = [row for row in one.coverage.histogram if row[2]]
    total = sum(row[3] for row in rows)
    shares = [(row[0], row[1], row[3] / total if total else row[2] / one.coverage.files) for row in rows]
    return ", ".join(f"{_percent(share)} {_say_age(begin, end)}" for begin, end, share in shares)


def _say_age(begin: int, end: int | None) -> str:
    if end is None:
        return f"over {begin} days ago"
    return "within 24 h" if not begin else f"{begin} to {end} days ago"


def _percent(share: float) -> str:
    """Write a share so that only nothing is 0 % and only all is 100 %."""
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{share:.0%}".replace("%", " %")


def _describe_plan(plan: Plan, windows: str, output: Output) -> str:
    """Say whether the windows are enough."""
    from integrity.cli.text import local_time
    from integrity.config import format_size

    text = f"needs {format_size(plan.needed_bytes_per_s)}/s in {printable(windows)}"
    if plan.measured_bytes_per_s is not None:
        text += f"; the disk manages {format_size(plan.measured_bytes_per_s)}/s"
    if plan.is_kept:
        return f"on schedule: {text}"
    text = f"{output.style('behind schedule', 'yellow')}: {text}"
    if plan.met_at is not None:
        text += f"; on schedule again by {local_time(plan.met_at)}"
    return text + (f"; {printable(plan.advice)}" if plan.advice else "")


_NAGIOS = {ExitCode.OK: (0, "OK"), ExitCode.INCOMPLETE: (1, "WARNING"), ExitCode.PROBLEM: (2, "CRITICAL")}
_NAGIOS_UNKNOWN = 3
_AHEAD = "at a time in the future: check the clock"


@click.command()
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option("--nagios", is_flag=True, help="Print one line for a monitoring plug-in; exits with 0, 1, 2, or 3.")
@click.option("--prometheus", is_flag=True, help="Print metrics in the text format of Prometheus; exits with 0.")
@click.pass_obj
def status(session: Session, paths: tuple[bytes, ...], nagios: bool, prometheus: bool) -> int:
    """
    Show the watched folders, when they were verified, and open findings.

    Without PATH: all roots. The exit code reflects all open findings.
    """
    if nagios + prometheus + session.output.is_json > 1:
        raise click.UsageError("--json, --nagios and --prometheus exclude each other: each says what is printed")
    if prometheus:
        return _print_metrics(session, paths)
    if not nagios:
        return _print_status(_find(session, paths), find_live(session), session)
    session.is_plugin = True
    try:
        found = _find(session, paths)
        if session.has_met_damage:
            raise CatalogCorrupt("the catalog is damaged; run: integrity catalog check")
    except AppError as error:
        text = "; ".join(printable(line) for line in str(error).split("\n"))
        print_line(f"INTEGRITY UNKNOWN: {text}")
        return _NAGIOS_UNKNOWN
    return _print_nagios(found, find_live(session))


def _print_metrics(session: Session, paths: tuple[bytes, ...]) -> ExitCode:
    """Print metrics; a problem is in their values, so that a script can put them in place whatever they are."""
    if find_spec("prometheus_client") is None:
        raise ConfigError("--prometheus needs a package that is not installed: pip install 'integrity[web]'")
    from integrity.web.metrics import write_metrics

    live = find_live(session)
    with session.open_catalog(writes=False) as catalog:
        metrics = write_metrics(catalog, _find_in(catalog, session, paths), live.state)
    for line in metrics.decode().splitlines():
        print_line(line)
    return ExitCode.OK


def _find(session: Session, paths: tuple[bytes, ...]) -> Status:
    with session.open_catalog(writes=False) as catalog:
        return _find_in(catalog, session, paths)


def _find_in(catalog: Catalog, session: Session, paths: tuple[bytes, ...]) -> Status:
    from integrity.jobs.status import find_status
    from integrity.service.schedule.clock import local_zone, parse_windows

    windows = parse_windows(session.config.schedule.scrub, local_zone())
    return find_status(catalog, session.config, [real_path(path) for path in paths], windows=windows)


def _print_status(found: Status, live: ServiceView, session: Session) -> ExitCode:
    output = session.output
    code = _find_code(found, live)
    show = output.say if code is ExitCode.OK else output.tell
    for one in found.roots:
        for line in _describe_root(one, live, output):
            show(line)
        output.give("root", _root_object(one))
    for copy in found.copies:
        for line in describe_copy(copy, live, output):
            show(line)
        output.give("copy", copy_object(copy, live))
    for line in _describe_rest(found, live):
        show(line)
    for line in describe_alerts(found.alerts, live, session.config_place):
        show(line)
    for channel in found.alerts.channels:
        for line in describe_channel(channel, output):
            output.tell(line)
        output.give("channel", channel_object(channel))
    output.give("alerts", alerts_object(found.alerts, live))
    output.give("service", service_object(live))
    output.give("status", _status_object(found, code))
    return code


def _describe_root(one: RootStatus, live: ServiceView, output: Output) -> Iterator[str]:
    from integrity.cli.text import count, describe_kinds
    from integrity.config import format_size

    covered = one.coverage
    size = f"{count(covered.files, 'file')}, {format_size(covered.bytes)}"
    yield f"{show_path(one.root.path)}  ({one.settings.policy.value}; {size})"
    if one.root.state is not RootState.ACTIVE:
        reason = printable(one.root.state_reason or "")
        yield f"  {output.style(one.root.state.value, 'yellow')}: {reason}"
    yield f"  verified   {_describe_coverage(one, output)}"
    yield from describe_promise(one, output)
    for line in _describe_gaps(one):
        yield f"  problem    {line}"
    if one.last_scan is not None and 0 < one.last_scan.counts.skipped < one.last_scan.counts.known:
        names = count(one.last_scan.counts.skipped, "name")
        yield f"  skipped    {names} in the last scan: links, special files, other mounts, and excluded files"
    if one.open_kinds:
        color = "red" if set(one.open_kinds) & INTEGRITY_PROBLEMS else "yellow"
        yield f"  open       {output.style(describe_kinds(one.open_kinds), color)}:  integrity findings"
    yield f"  last scan  {_describe_run(one.last_scan)}"
    yield f"  last scrub {_describe_run(one.last_scrub)}"
    if one.working is not None:
        yield f"  now        a {one.working.job} is running (process {one.working.pid})"
    yield from describe_watch(live, one.root.path)
    excluded = [*(["the built-in list"] if one.settings.builtin_excludes else []), *one.settings.exclude]
    yield f"  excluded   {', '.join(printable(text) for text in excluded) or 'nothing'}"
    yield ""


def _describe_coverage(one: RootStatus, output: Output) -> str:
    from integrity.cli.text import count, local_time
    from integrity.config import format_duration, format_size, spell_duration

    covered, promise = one.coverage, spell_duration(one.settings.verify_every_s)
    if not covered.files:
        return "no files recorded yet"
    if covered.oldest_at is None or one.due_at is None:
        return "none: see the problems below"
    if one.is_overdue:
        size = f"{count(covered.overdue_files, 'file')} ({format_size(covered.overdue_bytes)})"
        estimate = "" if one.overdue_read_s is None else f"; reading them takes about {_about(one.overdue_read_s)}"
        text = f"{output.style('OVERDUE', 'yellow')}: {size} not verified in the last {promise}, "
        oldest = f"since {local_time(covered.oldest_at)}" if covered.is_oldest_known else _AHEAD
        text += f"oldest {oldest}{estimate}"
    elif covered.overdue_files:
        overdue = f"{count(covered.overdue_files, 'file')} not verified in the last {promise}"
        text = f"{overdue}: the folder is {one.root.state.value}"
    else:
        age = format_duration(max(0, round(time.time()) - covered.oldest_at))
        text = f"all files within the last {promise} (oldest: {age} ago); next check due {local_time(one.due_at)}"
    if covered.never_verified_files:
        size = f"{count(covered.never_verified_files, 'file')} ({format_size(covered.never_verified_bytes)})"
        text += f"; {size} not read again since they were recorded"
    return text


def _about(seconds: float) -> str:
    from integrity.config import format_duration

    return format_duration(max(60.0, round(seconds / 60) * 60))


def _describe_gaps(one: RootStatus) -> Iterator[str]:
    """Say what could not be covered, or not for certain, and why."""
    from integrity.cli.text import count, describe_kinds
    from integrity.config import format_size

    covered, scan = one.coverage, one.last_scan
    if one.root.state is RootState.SUSPENDED:
        yield "nothing can be verified while the folder is suspended"
    if one.gaps:
        yield f"could not be checked: {describe_kinds(one.gaps)}"
    if covered.uncovered_files:
        size = f"{count(covered.uncovered_files, 'file')} ({format_size(covered.uncovered_bytes)})"
        yield f"{size} damaged or uncertain: see integrity findings"
    if covered.cache_possible_files:
        size = f"{count(covered.cache_possible_files, 'file')} ({format_size(covered.cache_possible_bytes)})"
        yield f"{size} possibly read from the cache, not from the disk"
    if covered.suspects:
        yield f"{count(covered.suspects, 'file')} with a touched inode will be verified early"
    if scan is not None and covered.files and scan.counts.known == scan.counts.skipped:
        yield "the last scan found no files: the disk or folder was not there"
    if scan is not None and scan.counts.unstable:
        yield f"{count(scan.counts.unstable, 'file')} changed during the last scan"


def _describe_run(run: RunRecord | None) -> str:
    from integrity.cli.text import count, local_time
    from integrity.config import format_duration, format_size

    if run is None:
        return "never"
    if run.outcome is None:
        return f"{local_time(run.started_at)}, not finished"
    took = "" if run.duration_s is None else f" in {format_duration(run.duration_s)}"
    read = f"{count(run.counts.known, 'file')}, {format_size(run.counts.bytes_read)} read"
    error = f": {printable(run.error)}" if run.error else ""
    return f"{local_time(run.started_at)}, {run.outcome.value}{took}, {read}{error}"


def _describe_rest(found: Status, live: ServiceView) -> Iterator[str]:
    """Write what concerns all roots, and hints."""
    from integrity.cli.text import describe_core
    from integrity.paths import shell_path

    if any(one.settings.builtin_excludes for one in found.roots):
        yield f"Built-in list of excluded names: {' '.join(found.builtin_excludes)}"
    yield f"Hash core: {describe_core()}"
    yield from describe_service(live)
    for name in found.lost_copies:
        yield f"Hint: the copy {name} is of an unwatched folder, so it is never compared:  integrity config check"
    for path in found.unscanned:
        yield f"Hint: {show_path(path)} is configured and was never scanned:  integrity scan {shell_path(path)}"
    for path in (one.root.path for one in found.roots if one.last_scrub is None and one.coverage.files):
        yield f"Hint: {show_path(path)} was never verified:  integrity scrub {shell_path(path)}"


def _root_object(one: RootStatus) -> JsonObject:
    covered = one.coverage
    return {
        **path_fields("path", one.root.path),
        "state": one.root.state.value,
        "state_reason": one.root.state_reason,
        "policy": one.settings.policy.value,
        "files": covered.files,
        "bytes": covered.bytes,
        "verify_every_s": one.settings.verify_every_s,
        "oldest_verification_at": iso_time(covered.oldest_at) if covered.is_oldest_known else None,
        "next_due_at": iso_time(one.due_at),
        "files_overdue": covered.overdue_files,
        "bytes_overdue": covered.overdue_bytes,
        "files_never_verified": covered.never_verified_files,
        "bytes_never_verified": covered.never_verified_bytes,
        "files_uncovered": covered.uncovered_files,
        "bytes_uncovered": covered.uncovered_bytes,
        "files_cache_possible": covered.cache_possible_files,
        "bytes_cache_possible": covered.cache_possible_bytes,
        "bytes_verified": covered.verified_bytes,
        "files_suspect": covered.suspects,
        "histogram": [list(row) for row in covered.histogram],
        "plan": None if one.plan is None else plan_object(one.plan),
        "findings_open": {kind.value: number for kind, number in sorted(one.open_kinds.items())},
        "last_scan": _run_object(one.last_scan),
        "last_scrub": _run_object(one.last_scrub),
        "exclude": list(one.settings.exclude),
        "builtin_excludes": one.settings.builtin_excludes,
    }


def _run_object(run: RunRecord | None) -> JsonObject | None:
    if run is None:
        return None
    return {
        "started_at": iso_time(run.started_at),
        "finished_at": iso_time(run.finished_at),
        "outcome": run.outcome.value if run.outcome else None,
        "files_known": run.counts.known,
        "files_skipped": run.counts.skipped,
        "files_unstable": run.counts.unstable,
        "bytes_read": run.counts.bytes_read,
        "duration_s": run.duration_s,
        "error": run.error,
    }


def _status_object(found: Status, code: ExitCode) -> JsonObject:
    from integrity.cli.text import describe_core

    return {
        "roots": len(found.roots),
        "files": sum(one.coverage.files for one in found.roots),
        "copies": len(found.copies),
        "findings_open": found.open_kinds.total(),
        "files_overdue": sum(one.coverage.overdue_files for one in found.roots if one.is_overdue),
        "unscanned": [path_fields("path", path) for path in found.unscanned],
        "builtin_excludes": list(found.builtin_excludes),
        "hash_core": describe_core(),
        "exit_code": code.value,
    }


def _find_code(found: Status, live: ServiceView) -> ExitCode:
    """Say how all is: a service that can't record what it finds covers nothing."""
    code = code_for_kinds(found.kinds)
    return ExitCode.INCOMPLETE if code is ExitCode.OK and live.stop_reason else code


def _print_nagios(found: Status, live: ServiceView) -> int:
    """Print the line that monitoring plug-ins print: state, text, and figures behind a bar."""
    from integrity.cli.text import count
    from integrity.config import format_duration

    code = _find_code(found, live)
    if code is ExitCode.OK and found.lasting_failures:
        code = ExitCode.INCOMPLETE
    number, word = _NAGIOS[code]
    open_kinds = found.open_kinds
    files = sum(one.coverage.files for one in found.roots)
    overdue = sum(one.coverage.overdue_files for one in found.roots if one.is_overdue)
    parts = [f"{number:,} {kind.value}" for kind, number in sorted(open_kinds.items())]
    parts += [f"the service can't record what it finds: {live.stop_reason}"] if live.stop_reason else []
    parts += [f"{overdue:,} overdue"] if overdue else []
    parts += [f"copy {printable(one.name)} overdue" for one in found.copies if one.is_overdue]
    parts += [f"{show_path(one.root.path)} suspended" for one in found.roots if one.root.state is RootState.SUSPENDED]
    parts += [f"alerts by {printable(one.name)} fail" for one in found.lasting_failures]
    oldest = min((one.coverage.oldest_at for one in found.roots if one.coverage.oldest_at is not None), default=None)
    age = None if oldest is None else max(0, round(time.time()) - oldest)
    parts += [count(len(found.roots), "root"), count(files, "file")]
    if age is not None:
        known = all(one.coverage.is_oldest_known for one in found.roots if one.coverage.oldest_at is not None)
        parts.append("oldest verification " + (f"{format_duration(age)} ago" if known else _AHEAD))
    figures = f"findings={open_kinds.total()} overdue={overdue} files={files} oldest={0 if age is None else age}s"
    # A bar in the text would begin the figures.
    print_line(f"INTEGRITY {word}: {', '.join(parts).replace('|', '!')} | {figures}")
    return number
