"""The one sentence that says how everything is, for the head of a page."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.config import format_duration, format_size, spell_duration
from integrity.errors import show_path
from integrity.kinds import FOREWARNINGS, INTEGRITY_PROBLEMS
from integrity.model import FindingKind, RootState
from integrity.views.text import count, describe_kinds, local_time

if TYPE_CHECKING:
    from integrity.jobs.hub_status import HubStatus
    from integrity.jobs.status import RootStatus, Status
    from integrity.views.service import ServiceView


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


def sum_up_status(status: Status, open_kinds: Counter[FindingKind], live: ServiceView) -> Sentence:
    """
    Return the sentence for all roots and copies; what is worst stands first.

    Args:
        status: may be some minutes old.
        open_kinds: open findings by kind, as of now.
        live: what the service does now.
    """
    damage = Counter({kind: number for kind, number in open_kinds.items() if kind in INTEGRITY_PROBLEMS})
    doubts = [text for one in status.roots for text in _find_doubts(one)]
    doubts += [f"The backup copy {one.name} is overdue for comparison." for one in status.copies if one.is_overdue]
    doubts += _describe_gaps(open_kinds)
    doubts += _find_trouble(live)
    silence = _find_silence(status.hub, status.at)
    doubts += [] if silence is None else [silence]
    if damage:
        return Sentence(Gravity.PROBLEM, f"Found: {describe_kinds(damage)}.", tuple(doubts))
    if not status.roots:
        return Sentence(
            Gravity.WARNING, "No folder is watched yet.", (f"Record one with: {program.command('scan FOLDER')}",)
        )
    if doubts:
        return Sentence(Gravity.WARNING, doubts[0], tuple(doubts[1:]))
    return Sentence(Gravity.GOOD, _praise(status))


def _praise(status: Status) -> str:
    files = sum(one.coverage.files for one in status.roots)
    size = format_size(sum(one.coverage.bytes for one in status.roots))
    promise = spell_duration(max(one.settings.verify_every_s for one in status.roots))
    if not files:
        return "No files are recorded yet."
    if files == 1:
        return f"The only file ({size}) was verified within {promise}."
    return f"All {files:,} files ({size}) were verified within {promise}."


def _find_doubts(one: RootStatus) -> list[str]:
    """Say what of a root is not known to be intact, and why."""
    covered, place = one.coverage, show_path(one.root.path)
    if one.root.state is not RootState.ACTIVE:
        return [f"{place} is {one.root.state.value}: {one.root.state_reason or 'nothing there is checked'}."]
    if one.is_overdue:
        size = f"{count(covered.overdue_files, 'file')} ({format_size(covered.overdue_bytes)})"
        return [f"{size} in {place} not verified within {spell_duration(one.settings.verify_every_s)}."]
    if covered.never_verified_files:
        size = f"{count(covered.never_verified_files, 'file')} ({format_size(covered.never_verified_bytes)})"
        return [f"{size} in {place} not read again since recorded; that is due until {_due(one)}."]
    return []


def _due(one: RootStatus) -> str:
    return "later" if one.due_at is None else local_time(one.due_at)


def _describe_gaps(open_kinds: Counter[FindingKind]) -> list[str]:
    said = INTEGRITY_PROBLEMS | FOREWARNINGS | _SAID_OTHERWISE
    gaps = Counter({kind: number for kind, number in open_kinds.items() if kind not in said})
    lines = [f"Not everything could be checked: {describe_kinds(gaps)}."] if gaps else []
    warnings = Counter({kind: number for kind, number in open_kinds.items() if kind in FOREWARNINGS})
    return lines + ([f"No file is known to be damaged by it yet: {describe_kinds(warnings)}."] if warnings else [])


def _find_trouble(live: ServiceView) -> list[str]:
    """Say why the service does not watch; a page is of little use without it."""
    if live.stop_reason:
        return [f"The service can't record what it finds: {live.stop_reason}."]
    if live.trouble is not None:
        return [f"The service can't be asked: {live.trouble}."]
    return [] if live.state is not None else ["The service does not run, so nothing is checked by itself."]


def _find_silence(hub: HubStatus | None, now: int) -> str | None:
    """Say in a sentence that the hub is not told; None if it is, or was until a short time ago."""
    if hub is None or not hub.is_silent(now) or hub.failing_since is None:
        return None
    return f"The hub was not told anything for {format_duration(now - hub.failing_since)}: {hub.last_error}."
