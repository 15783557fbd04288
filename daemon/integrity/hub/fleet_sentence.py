"""The one sentence that says how all boxes are, for the head of the pages of a hub."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from integrity import program
from integrity.errors import printable
from integrity.hub.fleet import (
    STATE_PROBLEM,
    BoxGroup,
    BoxHealth,
    BoxStatus,
    OpenFindings,
    SetComparison,
    SetGroup,
    add_details,
    count_boxes,
    count_open,
    load_groups,
    load_set_groups,
)
from integrity.hub.replica_words import join_some
from integrity.hub.schema import finding
from integrity.hub.work import FailingPart
from integrity.kinds import Weight
from integrity.units import format_duration, format_size
from integrity.views.sentence import Gravity, Sentence
from integrity.words.text import count

_SHOWN = 5
_LONGEST_SENTENCE = 300
_WHERE_TO_LOOK = "Its log says more: journalctl -u integrity-hub"


class Fleet(NamedTuple):
    """All boxes in groups, and replica sets; what is open, and ``of_no_box``: what of that is about no box."""

    groups: Sequence[BoxGroup]
    sets: Mapping[SetComparison, SetGroup]
    found: OpenFindings
    of_no_box: OpenFindings

    def pick(self, is_wanted: Callable[[BoxStatus], bool]) -> tuple[int, list[BoxStatus]]:
        """Return how many boxes that may report are like this, and some of them by name."""
        picked = [
            group
            for group in self.groups
            if group.first[0].health is not BoxHealth.REVOKED and is_wanted(group.first[0])
        ]
        some = sorted((one for group in picked for one in group.first), key=lambda one: one.name)
        return sum(group.number for group in picked), some


def load_fleet(c: sa.Connection, now: int, silent_after_s: int) -> Fleet:
    groups, sets = load_groups(c, now, silent_after_s), load_set_groups(c, now, silent_after_s)
    return Fleet(groups, sets, count_open(c), count_open(c, finding.c.box_id.is_(None)))


def sum_up_fleet(c: sa.Connection, fleet: Fleet, now: int, failing: Sequence[FailingPart] = ()) -> Sentence:
    """
    Return the sentence for all boxes; what is worst stands first.

    Args:
        failing: parts of the hub that do not work; what they would have found is not known.
    """
    stopped = [*(one.text for one in failing), *([_WHERE_TO_LOOK] if failing else [])]
    total, _ = fleet.pick(lambda _: True)
    if not total:
        lines = [*stopped, "No box reports here yet.", f"Add one with: {program.command('hub add BOX')}"]
        return Sentence(Gravity.WARNING, lines[0], tuple(lines[1:]))
    problems = _find_problems(fleet)
    gaps = fleet.of_no_box.describe(Weight.GAP)
    others = [f"Not everything could be checked: {gaps}."] if gaps else []
    doubts = [*stopped, *_find_doubts(c, fleet, total, now), *_find_set_doubts(fleet.sets), *others]
    if problems:
        return Sentence(Gravity.PROBLEM, problems[0], (*problems[1:], *doubts))
    if doubts:
        return Sentence(Gravity.WARNING, doubts[0], tuple(doubts[1:]))
    return Sentence(Gravity.GOOD, _praise(fleet, total), tuple(_describe_agreement(fleet, now)))


def shorten(text: str) -> str:
    """Return a text from a box on one line of bounded length."""
    line = printable(text)
    return line if len(line) <= _LONGEST_SENTENCE else f"{line[:_LONGEST_SENTENCE]}..."


def _find_problems(fleet: Fleet) -> list[str]:
    """Say what is wrong: what votes found, then what boxes report of themselves."""
    damage = fleet.found.describe(Weight.PROBLEM)
    found = [f"Found: {damage}."] if damage else []
    number, reporting = fleet.pick(lambda one: one.state == STATE_PROBLEM)
    if number:
        found.append(
            f"{count_boxes(number)} {'reports' if number == 1 else 'report'} a problem: {_name(number, reporting)}."
        )
        found += [f"{one.name} says: {shorten(one.sentence or '')}" for one in reporting[:_SHOWN]]
    return found


def _find_doubts(c: sa.Connection, fleet: Fleet, total: int, now: int) -> list[str]:
    """Say of which boxes it is not known that all is well, and why."""
    doubts = []
    number, silent = fleet.pick(lambda one: one.is_silent)
    if number:
        ages = (f"{one.name} for {format_duration(one.silence_s or 0)}" for one in silent[:_SHOWN])
        more = f" and {number - _SHOWN:,} more" if number > _SHOWN else ""
        verb = "has" if number == 1 else "have"
        doubts.append(f"{count_boxes(number)} of {total:,} {verb} stopped reporting: {', '.join(ages)}{more}.")
    number, gaps = fleet.pick(lambda one: one.health is BoxHealth.GAP)
    doubts += [f"{one.name}: {describe_gap(one)}" for one in add_details(c, gaps[:_SHOWN], now)]
    if number > _SHOWN:
        doubts.append(f"The same or similar on {count_boxes(number - _SHOWN)} more.")
    number, waiting = fleet.pick(lambda one: one.health is BoxHealth.WAITING)
    if number:
        verb = "has" if number == 1 else "have"
        doubts.append(f"{count_boxes(number)} {verb} not reported yet: {_name(number, waiting)}.")
    return doubts


def describe_gap(one: BoxStatus) -> str:
    """Say why a box that reports is not known to be well."""
    if one.overdue_count:
        return f"not every file in {count(one.overdue_count, 'folder')} was verified as promised."
    if not one.root_count:
        return "it reports no folder."
    if one.state == "ok" and one.hub_found:
        return f"{one.hub_found.describe()}."
    return shorten(one.sentence or "it does not say how it is.")


def _find_set_doubts(sets: Mapping[SetComparison, SetGroup]) -> list[str]:
    states = (
        (SetComparison.NEVER, "not compared yet"),
        (SetComparison.PARTLY, "compared only in parts, for not all files were reported yet"),
    )
    return [
        f"{count(group.number, 'replica set')} {'was' if group.number == 1 else 'were'} {words}:"
        f" {join_some(list(map(printable, group.names)), group.number)}."
        for state, words in states
        if (group := sets.get(state)) is not None
    ]


def _praise(fleet: Fleet, total: int) -> str:
    groups = [group for group in fleet.groups if group.first[0].health is not BoxHealth.REVOKED]
    files, size = sum(one.files for one in groups), format_size(sum(one.bytes for one in groups))
    promise = format_duration(max(one.promise_s for one in groups))
    where = f"The box {groups[0].first[0].name} is well" if total == 1 else f"All {total:,} boxes are well"
    if not files:
        return f"{where}; no files are recorded yet."
    return f"{where}: all {count(files, 'file')} ({size}) {'was' if files == 1 else 'were'} verified within {promise}."


def _describe_agreement(fleet: Fleet, now: int) -> list[str]:
    longest = max(one.silence_s for one in fleet.groups if one.first[0].health is not BoxHealth.REVOKED)
    lines = [f"Every box reported within the last {format_duration(max(longest, 60))}."]
    if (compared := fleet.sets.get(SetComparison.WHOLE)) is not None:
        verb = "agrees" if compared.number == 1 else "agree"
        ages = format_duration(max(now - (compared.voted_at or now), 60))
        sets = count(compared.number, "replica set")
        lines.append(f"{sets} {verb} on all boxes, compared within the last {ages}.")
    return lines


def _name(number: int, boxes: Sequence[BoxStatus]) -> str:
    return join_some([one.name for one in boxes], number)
