"""How everything is: the sentence that ``status``, the page and a hub begin with, and what is reported to a hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.errors import printable, show_path
from integrity.kinds import FOREWARNINGS, INTEGRITY_PROBLEMS, REPAIRABLE
from integrity.model import FindingKind, RootState
from integrity.paths import path_fields
from integrity.units import format_duration, format_size
from integrity.views.copies import describe_unreachable
from integrity.views.roots import describe_failing
from integrity.views.runs import count_files, run_object
from integrity.views.service import ServiceView, find_idleness
from integrity.words.findings import describe_kinds, find_source, finding_object
from integrity.words.text import JsonObject, count, iso_time, local_time

if TYPE_CHECKING:
    from integrity.catalog.runs import ActionRecord, RunRecord
    from integrity.jobs.hub_status import HubStatus
    from integrity.jobs.status import RootStatus, Status
    from integrity.model import Finding
    from integrity.service.control.wire import DaemonState
    from integrity.words.text import Styler


_SAID_OTHERWISE = {FindingKind.ROOT_SUSPENDED, FindingKind.OVERDUE}
"""Kinds of which the state of a root says more."""


class Gravity(StrEnum):
    """How bad it is."""

    GOOD = "good"
    WARNING = "warn"
    PROBLEM = "bad"


class Sentence(NamedTuple):
    """How everything is: the sentence, and what else is to be known, a sentence each."""

    gravity: Gravity
    text: str
    more: tuple[str, ...] = ()


def sum_up_status(status: Status, live: ServiceView) -> Sentence:
    """Return the sentence for all roots and copies; what is worst stands first."""
    open_kinds = status.open_kinds
    damage = Counter({kind: number for kind, number in open_kinds.items() if kind in INTEGRITY_PROBLEMS})
    doubts = [describe_failing(one.own_checks) for one in status.roots if one.own_checks is not None]
    doubts = [text for text in doubts if text]
    doubts += [text for root in status.roots for text in _find_gap(root)]
    doubts += find_trouble(status, live)
    doubts += [f"The backup copy {one.name} is overdue for comparison." for one in status.copies if one.is_overdue]
    doubts += [describe_unreachable(name, since) for (_, name), since in status.unreachable.items()]
    doubts += _describe_gaps(open_kinds - Counter({FindingKind.COPY_UNREADABLE: len(status.unreachable)}))
    for one in status.lasting_failures:
        since = "" if one.failing_since is None else f" since {local_time(one.failing_since)}"
        doubts.append(f"Alerts by {printable(one.name)} fail{since}: {printable(one.last_error or '')}.")
    hub = status.hub
    if hub is not None and hub.failing_since is not None and hub.is_silent(status.at):
        silent = format_duration(status.at - hub.failing_since)
        doubts.append(f"The hub was not told anything for {silent}: {hub.last_error}.")
    doubts += [text for root in status.roots for text in _find_unverified(root)]
    if damage:
        text = describe_kinds(damage, status.worst, status.told_twice)
        return Sentence(Gravity.PROBLEM, f"{text}{_describe_repair(status.worst)}.", tuple(doubts))
    if not status.roots:
        return Sentence(
            Gravity.WARNING, "No folder is watched yet.", (f"Record one with: {program.command('scan FOLDER')}",)
        )
    if doubts:
        return Sentence(Gravity.WARNING, doubts[0], tuple(doubts[1:]))
    return Sentence(Gravity.GOOD, _praise(status))


_COLORS = {Gravity.GOOD: "green", Gravity.WARNING: "yellow", Gravity.PROBLEM: "red"}


def describe_sentence(sentence: Sentence, styler: Styler) -> Iterator[str]:
    yield styler.style(sentence.text, _COLORS[sentence.gravity])
    for line in sentence.more:
        yield f"  {line}"
    yield ""


def _describe_repair(worst: Sequence[Finding]) -> str:
    """Say which files can be repaired; empty if there is nothing to repair, or too much to say."""
    bad = {(one.root, one.path) for one in worst if one.kind in REPAIRABLE and one.path is not None}
    good = {(one.root, one.path): one for one in worst if find_source([one]) is not None}
    if not bad:
        return ""
    if not good:
        return "; no good copy is known yet"
    source = find_source(list(good.values()))
    which = {1: "it", 2: "both"}.get(len(bad), f"all {len(bad):,}") if len(good) == len(bad) else f"{len(good):,}"
    verb = "restored" if all(one.kind is FindingKind.MISSING for one in good.values()) else "repaired"
    return f"; {which} can be {verb} from {'backups' if source is None else printable(source)}"


def _praise(status: Status) -> str:
    files = sum(one.coverage.files for one in status.roots)
    size = format_size(sum(one.coverage.bytes for one in status.roots))
    promise = format_duration(max(one.settings.verify_every_s for one in status.roots))
    if not files:
        return "No files are recorded yet."
    if files == 1:
        return f"The only file ({size}) was verified within {promise}."
    return f"All {files:,} files ({size}) were verified within {promise}."


def _find_gap(one: RootStatus) -> list[str]:
    covered, place = one.coverage, show_path(one.root.path)
    if one.root.state is RootState.PAUSED:
        return [f"{place} is paused: nothing there is being checked."]
    if one.root.state is RootState.SUSPENDED:
        return [f"{one.root.state_reason or place}. Nothing there is being checked."]
    if one.is_overdue:
        size = f"{count(covered.overdue_files, 'file')} ({format_size(covered.overdue_bytes)})"
        return [f"{size} in {place} not verified within {format_duration(one.settings.verify_every_s)}."]
    return []


def _find_unverified(one: RootStatus) -> list[str]:
    """Say which files of a root are only recorded so far, which is as it should be until they are due."""
    covered, place = one.coverage, show_path(one.root.path)
    if covered.never_verified_files and one.root.state is RootState.ACTIVE and not one.is_overdue:
        size = f"{count(covered.never_verified_files, 'file')} ({format_size(covered.never_verified_bytes)})"
        due = "" if one.due_at is None else f"; that is due by {local_time(one.due_at)}"
        have = "has" if covered.never_verified_files == 1 else "have"
        return [f"{size} in {place} {have} not been verified since recorded{due}."]
    return []


def _describe_gaps(open_kinds: Counter[FindingKind]) -> list[str]:
    said = INTEGRITY_PROBLEMS | FOREWARNINGS | _SAID_OTHERWISE
    gaps = Counter({kind: number for kind, number in open_kinds.items() if kind not in said})
    lines = [f"Not everything could be checked: {describe_kinds(gaps)}."] if gaps else []
    warnings = Counter({kind: number for kind, number in open_kinds.items() if kind in FOREWARNINGS})
    return lines + ([f"Act before files are lost: {describe_kinds(warnings)}."] if warnings else [])


def find_trouble(status: Status, live: ServiceView) -> list[str]:
    """Say why nothing is recorded, or the service does not check; where none is installed, nobody expects it to."""
    if status.full_folder is not None:
        place = show_path(status.full_folder)
        return [f"The disk with the catalog is full: nothing can be recorded; free space on {place}."]
    if live.stop_reason:
        return [f"The service can't record what it finds: {live.stop_reason}."]
    return [find_idleness(live)[0]] if live.trouble is not None or live.is_missing else []


_STATES = {Gravity.GOOD: "ok", Gravity.WARNING: "gap", Gravity.PROBLEM: "problem"}


class HubWords:
    """Writes what is reported to a hub, as ``--json`` and the page write it."""

    def write_finding(self, finding: Finding) -> JsonObject:
        return finding_object(finding)

    def write_run(self, run: RunRecord, root: bytes) -> JsonObject:
        counts = count_files(run.counts, "verified new changed damaged missing")
        counts["findings_opened"] = run.counts.findings_opened
        return {"id": run.id, "job": run.job.value, **path_fields("path", root), **(run_object(run) or {}), **counts}

    def write_action(self, action: ActionRecord) -> JsonObject:
        done = action.action
        return {
            "id": action.id,
            "at": iso_time(action.at),
            "who": done.actor.who,
            "address": done.actor.address,
            "verb": done.verb.value,
            **({"root": None} if done.root is None else path_fields("root", done.root)),
            "findings": list(done.findings),
            "reason": done.reason,
            "outcome": done.outcome,
        }

    def sum_up(self, status: Status, state: DaemonState) -> tuple[str, str]:
        sentence = sum_up_status(status, ServiceView(state))
        return sentence.text, _STATES[sentence.gravity]


def find_complete_at(hub: HubStatus, live: ServiceView) -> int | None:
    """Return when the hub last had everything, seconds UTC; None: never."""
    known = (hub.complete_at, None if live.state is None else live.state.reported_at)
    return max((at for at in known if at is not None), default=None)


def describe_hub(hub: HubStatus | None, live: ServiceView) -> Iterator[str]:
    """Say when the hub last had everything, and what is wrong if it has not; nothing if none is configured."""
    if hub is None:
        return
    complete_at = find_complete_at(hub, live)
    had = "it never had everything yet" if complete_at is None else f"had everything {local_time(complete_at)}"
    yield f"Hub: {printable(hub.url)}; {had}"
    if hub.last_error is not None and hub.failing_since is not None:
        yield f"  problem    reports fail since {local_time(hub.failing_since)}: {printable(hub.last_error)}"
        yield f"             nothing is lost: {_waiting(hub)}; next try within 15 minutes"
    elif hub.waiting:
        yield f"  waiting    {_waiting(hub)}"
    if not live.may_run:
        yield f"  only the service reports, and none runs:  {program.command('service install --now')}"


def _waiting(hub: HubStatus) -> str:
    return f"{count(hub.waiting, 'change')} waiting to be reported"


def hub_object(hub: HubStatus, live: ServiceView) -> JsonObject:
    return {
        "url": hub.url,
        "complete_at": iso_time(find_complete_at(hub, live)),
        "waiting": hub.waiting,
        "is_failing": hub.failing_since is not None,
        "failing_since": iso_time(hub.failing_since),
        "error": hub.last_error,
    }
