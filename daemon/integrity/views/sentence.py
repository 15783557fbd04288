"""The one sentence that says how everything is: the first line of ``status`` and of the page, the state for a hub."""

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.alerts.wording import find_source
from integrity.config import format_duration, format_size
from integrity.errors import printable, show_path
from integrity.kinds import FOREWARNINGS, INTEGRITY_PROBLEMS, REPAIRABLE
from integrity.model import FindingKind, RootState
from integrity.views.copies import describe_unreachable
from integrity.views.roots import describe_failing
from integrity.views.service import ServiceView, find_idleness
from integrity.views.text import count, describe_kinds, local_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from integrity.catalog.outbox import ChannelState
    from integrity.jobs.hub_status import HubStatus
    from integrity.jobs.status import RootStatus, Status
    from integrity.model import Finding
    from integrity.views.text import Styler


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


def sum_up_status(status: "Status", live: ServiceView) -> Sentence:
    """Return the sentence for all roots and copies; what is worst stands first."""
    open_kinds = status.open_kinds
    damage = Counter({kind: number for kind, number in open_kinds.items() if kind in INTEGRITY_PROBLEMS})
    doubts = [describe_failing(one.own_checks) for one in status.roots if one.own_checks is not None]
    doubts = [text for text in doubts if text]
    doubts += [text for one in status.roots for text in _find_gap(one)]
    doubts += find_trouble(status, live)
    doubts += [f"The backup copy {one.name} is overdue for comparison." for one in status.copies if one.is_overdue]
    doubts += [describe_unreachable(name, since) for (_, name), since in status.unreachable.items()]
    doubts += _describe_gaps(open_kinds - Counter({FindingKind.COPY_UNREADABLE: len(status.unreachable)}))
    doubts += [_describe_failure(one) for one in status.lasting_failures]
    silence = _find_silence(status.hub, status.at)
    doubts += [] if silence is None else [silence]
    doubts += [text for one in status.roots for text in _find_unverified(one)]
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


def describe_sentence(sentence: Sentence, styler: "Styler") -> "Iterator[str]":
    """Write how everything is as the first lines of an output."""
    yield styler.style(sentence.text, _COLORS[sentence.gravity])
    for line in sentence.more:
        yield f"  {line}"
    yield ""


def _describe_repair(worst: "Sequence[Finding]") -> str:
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


def _praise(status: "Status") -> str:
    files = sum(one.coverage.files for one in status.roots)
    size = format_size(sum(one.coverage.bytes for one in status.roots))
    promise = format_duration(max(one.settings.verify_every_s for one in status.roots))
    if not files:
        return "No files are recorded yet."
    if files == 1:
        return f"The only file ({size}) was verified within {promise}."
    return f"All {files:,} files ({size}) were verified within {promise}."


def _find_gap(one: "RootStatus") -> list[str]:
    """Say what of a root is not being checked, or was not in time."""
    covered, place = one.coverage, show_path(one.root.path)
    if one.root.state is RootState.PAUSED:
        return [f"{place} is paused: nothing there is being checked."]
    if one.root.state is RootState.SUSPENDED:
        return [f"{one.root.state_reason or place}. Nothing there is being checked."]
    if one.is_overdue:
        size = f"{count(covered.overdue_files, 'file')} ({format_size(covered.overdue_bytes)})"
        return [f"{size} in {place} not verified within {format_duration(one.settings.verify_every_s)}."]
    return []


def _find_unverified(one: "RootStatus") -> list[str]:
    """Say which files of a root are only recorded so far, which is as it should be until they are due."""
    covered, place = one.coverage, show_path(one.root.path)
    if covered.never_verified_files and one.root.state is RootState.ACTIVE and not one.is_overdue:
        size = f"{count(covered.never_verified_files, 'file')} ({format_size(covered.never_verified_bytes)})"
        have = "has" if covered.never_verified_files == 1 else "have"
        return [f"{size} in {place} {have} not been verified since recorded{_due(one)}."]
    return []


def _due(one: "RootStatus") -> str:
    return "" if one.due_at is None else f"; that is due by {local_time(one.due_at)}"


def _describe_gaps(open_kinds: Counter[FindingKind]) -> list[str]:
    said = INTEGRITY_PROBLEMS | FOREWARNINGS | _SAID_OTHERWISE
    gaps = Counter({kind: number for kind, number in open_kinds.items() if kind not in said})
    lines = [f"Not everything could be checked: {describe_kinds(gaps)}."] if gaps else []
    warnings = Counter({kind: number for kind, number in open_kinds.items() if kind in FOREWARNINGS})
    return lines + ([f"Act before files are lost: {describe_kinds(warnings)}."] if warnings else [])


def find_trouble(status: "Status", live: ServiceView) -> list[str]:
    """Say why nothing is recorded, or the service does not check; where none is installed, nobody expects it to."""
    if status.full_folder is not None:
        place = show_path(status.full_folder)
        return [f"The disk with the catalog is full: nothing can be recorded; free space on {place}."]
    if live.stop_reason:
        return [f"The service can't record what it finds: {live.stop_reason}."]
    return [find_idleness(live)[0]] if live.trouble is not None or live.is_missing else []


def _describe_failure(one: "ChannelState") -> str:
    since = "" if one.failing_since is None else f" since {local_time(one.failing_since)}"
    return f"Alerts by {printable(one.name)} fail{since}: {printable(one.last_error or '')}."


def _find_silence(hub: "HubStatus | None", now: int) -> str | None:
    """Say in a sentence that the hub is not told; None if it is, or was until a short time ago."""
    if hub is None or not hub.is_silent(now) or hub.failing_since is None:
        return None
    return f"The hub was not told anything for {format_duration(now - hub.failing_since)}: {hub.last_error}."
