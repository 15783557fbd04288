"""The one sentence that says how all boxes are, for the head of the pages of a hub."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from integrity import program
from integrity.config import format_duration, format_size
from integrity.errors import printable
from integrity.hub.failing_parts import FailingPart
from integrity.hub.fleet import BoxHealth, BoxStatus
from integrity.hub.kinds import HubFindingKind
from integrity.hub.open_findings import OpenFindings
from integrity.hub.replica_sets import SetStatus, count_boxes
from integrity.hub.replica_words import join_some
from integrity.kinds import Weight
from integrity.views.sentence import Gravity, Sentence
from integrity.words.text import count

_SHOWN = 5
_LONGEST_SENTENCE = 300
_WHERE_TO_LOOK = "Its log says more: journalctl -u integrity-hub"


def sum_up_fleet(
    fleet: Sequence[BoxStatus],
    found: OpenFindings,
    sets: Sequence[SetStatus],
    now: int,
    failing: Sequence[FailingPart] = (),
) -> Sentence:
    """
    Return the sentence for all boxes; what is worst stands first.

    Args:
        failing: parts of the hub that do not work; what they would have found is not known.
    """
    stopped = [*(one.text for one in failing), *([_WHERE_TO_LOOK] if failing else [])]
    boxes = [one for one in fleet if one.health is not BoxHealth.REVOKED]
    if not boxes:
        lines = [*stopped, "No box reports here yet.", f"Add one with: {program.command('hub add BOX')}"]
        return Sentence(Gravity.WARNING, lines[0], tuple(lines[1:]))
    problems = _find_problems(boxes, found)
    doubts = [*stopped, *_find_doubts(boxes), *_find_set_doubts(sets), *_find_other_gaps(fleet, found)]
    if problems:
        return Sentence(Gravity.PROBLEM, problems[0], (*problems[1:], *doubts))
    if doubts:
        return Sentence(Gravity.WARNING, doubts[0], tuple(doubts[1:]))
    return Sentence(Gravity.GOOD, _praise(boxes), tuple(_describe_agreement(boxes, sets, now)))


def shorten(text: str) -> str:
    """Return a text from a box on one line of bounded length."""
    line = printable(text)
    return line if len(line) <= _LONGEST_SENTENCE else f"{line[:_LONGEST_SENTENCE]}..."


def _find_problems(boxes: Iterable[BoxStatus], open_findings: OpenFindings) -> list[str]:
    """Say what is wrong: what votes found, then what boxes report of themselves."""
    damage = open_findings.describe(Weight.PROBLEM)
    found = [f"Found: {damage}."] if damage else []
    reporting = [one for one in boxes if one.health is BoxHealth.PROBLEM and one.box.state == "problem"]
    if reporting:
        verb = "reports" if len(reporting) == 1 else "report"
        found.append(f"{count_boxes(len(reporting))} {verb} a problem: {_name(reporting)}.")
        found += [f"{one.box.name} says: {shorten(one.box.sentence or '')}" for one in reporting[:_SHOWN]]
    return found


def _find_doubts(boxes: Sequence[BoxStatus]) -> list[str]:
    """Say of which boxes it is not known that all is well, and why."""
    doubts = []
    silent = [one for one in boxes if one.is_silent]
    if silent:
        verb = "has" if len(silent) == 1 else "have"
        ages = (f"{one.box.name} for {format_duration(one.silence_s or 0)}" for one in silent[:_SHOWN])
        more = f" and {len(silent) - _SHOWN:,} more" if len(silent) > _SHOWN else ""
        doubts.append(
            f"{count_boxes(len(silent))} of {len(boxes):,} {verb} stopped reporting: {', '.join(ages)}{more}."
        )
    gaps = [one for one in boxes if one.health is BoxHealth.GAP]
    doubts += [f"{one.box.name}: {describe_gap(one)}" for one in gaps[:_SHOWN]]
    if len(gaps) > _SHOWN:
        doubts.append(f"The same or similar on {count_boxes(len(gaps) - _SHOWN)} more.")
    waiting = [one for one in boxes if one.health is BoxHealth.WAITING]
    if waiting:
        verb = "has" if len(waiting) == 1 else "have"
        doubts.append(f"{count_boxes(len(waiting))} {verb} not reported yet: {_name(waiting)}.")
    return doubts


def describe_gap(one: BoxStatus) -> str:
    """Say why a box that reports is not known to be well."""
    if one.overdue_roots:
        return f"not every file in {count(len(one.overdue_roots), 'folder')} was verified as promised."
    if not one.roots:
        return "it reports no folder."
    if one.box.state == "ok" and one.hub_found:
        return f"{one.hub_found.describe()}."
    return shorten(one.box.sentence or "it does not say how it is.")


def _find_set_doubts(sets: Iterable[SetStatus]) -> list[str]:
    """Say which sets were not compared, or only in parts."""
    compared = [one for one in sets if len(one.members) > 1]
    never = [printable(one.name) for one in compared if one.voted_at is None]
    partly = [
        printable(one.name)
        for one in compared
        if one.voted_at is not None and any(root.settled_at is None for root in one.members)
    ]
    states = (("not compared yet", never), ("compared only in parts, for not all files were reported yet", partly))
    return [
        f"{count(len(names), 'replica set')} {'was' if len(names) == 1 else 'were'} {words}: {join_some(names)}."
        for words, names in states
        if names
    ]


def _find_other_gaps(fleet: Iterable[BoxStatus], found: OpenFindings) -> list[str]:
    """Say what could not be checked and belongs to no box, such as a part of a shared tree."""
    of_boxes = sum((one.hub_found.subjects for one in fleet if one.hub_found), Counter[HubFindingKind]())
    gaps = found.describe(Weight.GAP, without=of_boxes)
    return [f"Not everything could be checked: {gaps}."] if gaps else []


def _praise(boxes: Sequence[BoxStatus]) -> str:
    files, size = sum(one.files for one in boxes), format_size(sum(one.bytes for one in boxes))
    promise = format_duration(max((root.verify_every_s for one in boxes for root in one.roots), default=0))
    where = f"The box {boxes[0].box.name} is well" if len(boxes) == 1 else f"All {len(boxes):,} boxes are well"
    if not files:
        return f"{where}; no files are recorded yet."
    return f"{where}: all {count(files, 'file')} ({size}) {'was' if files == 1 else 'were'} verified within {promise}."


def _describe_agreement(boxes: Sequence[BoxStatus], sets: Sequence[SetStatus], now: int) -> list[str]:
    longest = max(one.silence_s or 0 for one in boxes)
    lines = [f"Every box reported within the last {format_duration(max(longest, 60))}."]
    compared = [one for one in sets if len(one.members) > 1]
    if compared:
        oldest = max(now - (one.voted_at or now) for one in compared)
        verb = "agrees" if len(compared) == 1 else "agree"
        ages = format_duration(max(oldest, 60))
        lines.append(f"{count(len(compared), 'replica set')} {verb} on all boxes, compared within the last {ages}.")
    return lines


def _name(boxes: Sequence[BoxStatus]) -> str:
    return join_some([one.box.name for one in boxes])
