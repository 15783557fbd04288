"""A root as commands and pages show it: how long ago its bytes were verified, its parity, its disks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity import program
from integrity.errors import printable, show_path
from integrity.kinds import INTEGRITY_PROBLEMS
from integrity.model import Outcome, RootState
from integrity.paths import path_fields
from integrity.units import format_duration, format_size
from integrity.views.runs import describe_root_run, run_object
from integrity.views.service import ServiceView, list_watch
from integrity.words.card import Card, Row
from integrity.words.findings import describe_kinds
from integrity.words.text import JsonObject, count, iso_time, local_time, percent

if TYPE_CHECKING:
    from integrity.catalog.own_checks import OwnCheckCounts
    from integrity.disks.report import DeviceReport
    from integrity.jobs.scrub.plan import Plan
    from integrity.jobs.status import RootStatus
    from integrity.words.text import Styler


def plan_object(plan: Plan) -> JsonObject:
    return {
        "is_kept": plan.is_kept,
        "needed_bytes_per_s": round(plan.needed_bytes_per_s),
        "measured_bytes_per_s": None if plan.measured_bytes_per_s is None else round(plan.measured_bytes_per_s),
        "bytes_overdue": plan.bytes_overdue,
        "bytes_due_soon": plan.bytes_due_soon,
        "met_at": iso_time(plan.met_at),
        "advice": plan.advice,
    }


def _describe_forecast(one: RootStatus, styler: Styler) -> str:
    """Say whether the windows are enough; empty if no service scrubs in windows."""
    plan = one.plan
    if plan is None or not plan.bytes_total:
        return ""
    text = f"needs {format_size(plan.needed_bytes_per_s)}/s in {printable(one.windows)}"
    if plan.measured_bytes_per_s is not None:
        text += f"; the disk manages {format_size(plan.measured_bytes_per_s)}/s"
    if plan.is_kept:
        return f"on schedule: {text}"
    text = f"{styler.style('behind schedule', 'yellow')}: {text}"
    if plan.met_at is not None:
        text += f"; on schedule again by {local_time(plan.met_at)}"
    return text + (f"; {printable(plan.advice)}" if plan.advice else "")


def _describe_ages(one: RootStatus) -> str:
    """Say how much was last verified (or recorded) how long ago, by bytes, or by files where there are none."""
    rows = [row for row in one.coverage.histogram if row[2]]
    total = sum(row[3] for row in rows)
    parts = []
    for begin, end, files, size in rows:
        age = f"over {begin} days ago" if end is None else f"{begin} to {end} days ago" if begin else "within 24 h"
        parts.append(f"{percent(size / total if total else files / one.coverage.files)} {age}")
    return ", ".join(parts)


AHEAD = "at a time in the future: check the clock"


def make_root_card(one: RootStatus, live: ServiceView, now: int, styler: Styler) -> Card:
    size = f"{count(one.coverage.files, 'file')}, {format_size(one.coverage.bytes)}"
    place = f"({one.settings.policy.value}; {size})"
    rows = tuple(_list_rows(one, live, now, styler))
    return Card(show_path(one.root.path), place, facts=root_object(one, now), rows=rows)


def _list_rows(one: RootStatus, live: ServiceView, now: int, styler: Styler) -> Iterator[Row]:
    if one.root.state is not RootState.ACTIVE:
        reason = printable(one.root.state_reason or "")
        yield "", f"{styler.style(one.root.state.value, 'yellow')}: {reason}"
    yield "verified", _describe_coverage(one, now, styler)
    if one.coverage.files:
        yield "last seen", _describe_ages(one)
    if said := _describe_forecast(one, styler):
        yield "forecast", said
    if one.own_checks is not None:
        yield "own checks", describe_own_checks(one.own_checks)
    if said := _describe_protection(one):
        yield "parity", said
    for line in _list_notes(one):
        yield "note", line
    if one.last_scan is not None and 0 < one.last_scan.counts.skipped < one.last_scan.counts.known:
        names = count(one.last_scan.counts.skipped, "name")
        yield "skipped", f"{names} in the last scan: links, special files, other mounts, and excluded files"
    if one.open_kinds:
        color = "red" if set(one.open_kinds) & INTEGRITY_PROBLEMS else "yellow"
        kinds = describe_kinds(one.open_kinds, told_twice=one.told_twice)
        yield "open", f"{styler.style(kinds, color)}:  {program.command('findings')}"
    yield "last scan", describe_root_run(one.last_scan)
    yield "last scrub", describe_root_run(one.last_scrub)
    if one.working is not None:
        yield "now", f"a {printable(one.working.job)} is running (process {one.working.pid})"
    if said := "\n".join(_describe_devices(one.devices, now, styler)):
        yield "disks", said
    if one.root.state is not RootState.SUSPENDED:  # of which the reason is said
        yield from list_watch(live, one.root.path)
    excluded = [*(["the built-in list"] if one.settings.builtin_excludes else []), *one.settings.exclude]
    yield "excluded", ", ".join(printable(text) for text in excluded) or "nothing"


def _describe_coverage(one: RootStatus, now: int, styler: Styler) -> str:
    covered, promise = one.coverage, format_duration(one.settings.verify_every_s)
    if not covered.files:
        return "no files recorded yet"
    if covered.oldest_at is None or one.due_at is None:
        return "none: see what is open below"
    if one.is_overdue:
        size = f"{count(covered.overdue_files, 'file')} ({format_size(covered.overdue_bytes)})"
        minutes = max(1, round((one.overdue_read_s or 0) / 60))
        takes = f"; reading them takes about {format_duration(60.0 * minutes)}"
        estimate = "" if one.overdue_read_s is None else takes
        text = f"{styler.style('OVERDUE', 'yellow')}: {size} not verified in the last {promise}, "
        oldest = f"since {local_time(covered.oldest_at)}" if covered.is_oldest_known else AHEAD
        text += f"oldest {oldest}{estimate}"
    elif covered.overdue_files:
        overdue = f"{count(covered.overdue_files, 'file')} not verified in the last {promise}"
        text = f"{overdue}: the folder is {one.root.state.value}"
    elif not covered.verified_files:
        return f"none of {count(covered.files, 'file')} yet; that is due by {local_time(one.due_at)}"
    else:
        age = format_duration(max(0, now - covered.oldest_at))
        verified, files = covered.verified_files, count(covered.files, "file")
        which = "all files" if verified == covered.files else f"{verified:,} of {files}"
        text = f"{which} within the last {promise} (oldest: {age} ago); next check due {local_time(one.due_at)}"
    if covered.never_verified_files:
        size = f"{count(covered.never_verified_files, 'file')} ({format_size(covered.never_verified_bytes)})"
        text += (
            f"; {size} not read again since {'it was' if covered.never_verified_files == 1 else 'they were'} recorded"
        )
    return text


def describe_own_checks(counts: OwnCheckCounts) -> str:
    results = counts.results
    if not results:
        return "not tried yet: new files are tested after scrubs"
    from integrity.extras import how_to_install  # these two here, for most roots are not inspected
    from integrity.inspect.outcome import CheckResult

    whole = f"{results[CheckResult.PASSES]:,} pass by checksum, {results[CheckResult.WHOLE]:,} whole by structure"
    text = f"{count(counts.tested, 'file')} tested: {whole}, {results[CheckResult.FAILS]:,} fail"
    untested = f"; {results[CheckResult.UNTESTABLE]:,} can't be tested" if results[CheckResult.UNTESTABLE] else ""
    if lacking := results[CheckResult.NO_LIBRARY]:
        untested += f"; {lacking:,} can't be tested as libraries are missing; {how_to_install('formats')}"
    return text + untested


def describe_failing(counts: OwnCheckCounts) -> str:
    """Say how many files fail their own checks, since when, and what the backups have; empty: none."""
    if not counts.failing:
        return ""
    is_one = counts.failing == 1
    fails, they, were = ("fails its own check", "it", "was") if is_one else ("fail their own checks", "they", "were")
    text = f"{counts.failing:,} of {count(max(counts.tested, counts.failing), 'file')} {fails}"
    if counts.since_recorded == counts.failing:
        text += f": {they} {were} damaged before {they} {were} recorded"
    elif counts.since_recorded:
        text += f"; {counts.since_recorded:,} of them since before the recording"
    for name in dict.fromkeys(name for name, _ in counts.in_copies):
        votes = {vote: number for (copy, vote), number in counts.in_copies.items() if copy == name}
        from integrity.arbitration import CopyVote  # here, for most roots are not inspected

        same, other = votes.pop(CopyVote.SAME, 0), votes.get(CopyVote.DIFFERS, 0) + votes.get(CopyVote.OLDER, 0)
        text += f"; the backup {printable(name)} has other content of {other:,}, the same of {same:,}"
    return text + "."


def _list_notes(one: RootStatus) -> Iterator[str]:
    """Say what is known less well than it seems; problems are findings, and are counted in a line of their own."""
    covered, scan = one.coverage, one.last_scan
    if covered.cache_possible_files:
        size = f"{count(covered.cache_possible_files, 'file')} ({format_size(covered.cache_possible_bytes)})"
        yield f"{size} possibly read from the cache, not from the disk"
    if covered.suspects:
        from integrity.catalog.coverage import are_read_early  # here, for --help does without

        were = "1 file was" if covered.suspects == 1 else f"{covered.suspects:,} files were"
        is_early = are_read_early(covered.suspects, covered.files)
        when = (
            "the next scrub verifies this first" if is_early else "these are many, so each is verified when it is due"
        )
        yield f"{were} replaced or touched since the last reading; {when}"
    if scan is not None and scan.counts.unstable:
        yield f"{count(scan.counts.unstable, 'file')} changed during the last scan"


def root_object(one: RootStatus, now: int) -> JsonObject:
    covered, checks, own_checks = one.coverage, one.own_checks, None
    if checks is not None:
        from integrity.inspect.outcome import CheckResult

        results = {result.value: checks.results[result] for result in CheckResult}
        own_checks = {**results, "open": checks.failing, "since_recorded": checks.since_recorded}
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
        "own_checks": own_checks,
        "findings_open": {kind.value: number for kind, number in sorted(one.open_kinds.items())},
        "last_scan": run_object(one.last_scan),
        "last_scrub": run_object(one.last_scrub),
        "exclude": list(one.settings.exclude),
        "builtin_excludes": one.settings.builtin_excludes,
        "parity": protection_object(one),
        "devices": [device_object(report, now) for report in one.devices],
    }


def _describe_protection(one: RootStatus) -> str:
    """Say how much of a root its parity protects; empty if it has none and shall have none."""
    found, run = one.protection, one.last_protect
    trouble = ""
    if run is not None and run.error:
        trouble = f"; the last attempt failed: {printable(run.error)}"
    elif run is not None and run.outcome is Outcome.INCOMPLETE:
        trouble = f"; the last attempt could not make all of it: {program.command('protect', one.root.path)}"
    if found is None:
        due = ": files that have rested for a week get it in the next window" if one.settings.parity_percent else ""
        return f"none yet{due}{trouble}" if due or trouble else ""
    left = one.coverage.files - found.files
    text = f"protects {format_size(found.bytes)} of {format_size(one.coverage.bytes)}"
    text += f" ({count(left, 'file')} not)" if left > 0 else ", all files"
    text += f"; can heal damage of {found.least_percent:.1f} %, oldest of {local_time(found.oldest_at)}"
    if found.damaged_sets:
        text += f"; {count(found.damaged_sets, 'set')} damaged, to be made anew"
    return text + trouble


def protection_object(one: RootStatus) -> JsonObject | None:
    found = one.protection
    if found is None:
        return None
    return {
        "files": found.files,
        "bytes": found.bytes,
        "parity_bytes": found.parity_bytes,
        "least_percent": round(found.least_percent, 2),
        "oldest_at": iso_time(found.oldest_at),
        "damaged_sets": found.damaged_sets,
    }


def _describe_devices(reports: tuple[DeviceReport, ...], now: int, styler: Styler) -> Iterator[str]:
    """Write a line for each device that reports anything, or should: what it reports, why it could not be read."""
    for report in reports:
        if report.is_silent:
            continue
        from integrity.disks.signs import describe_trouble, describe_values, find_signs, name_device

        values, trouble = describe_values(report, now), describe_trouble(report)
        shown = styler.style(values, "yellow") if find_signs(report, now) else values
        read = "" if report.read_at is None else f"{shown} (read {local_time(report.read_at)})"
        failed = f"not read{' since' if read else ''}: {trouble}" if trouble else ""
        yield f"{name_device(report)}: {'; '.join(filter(None, (read, failed)))}"


def device_object(report: DeviceReport, now: int) -> JsonObject:
    from integrity.disks.signs import find_signs

    return {
        "name": report.name,
        "kind": report.kind.value,
        "label": report.label,
        "is_healthy": report.is_healthy,
        "state": report.state or None,
        "counts": {quantity.value: count.value for quantity, count in sorted(report.counts.items())},
        "signs": [sign.words for sign in find_signs(report, now)],
        "temperature_c": report.temperature_c,
        "scrubbed_at": iso_time(report.scrubbed_at),
        "read_at": iso_time(report.read_at),
        "tried_at": iso_time(report.tried_at),
        "trouble": None if report.trouble is None else report.trouble.value,
    }
