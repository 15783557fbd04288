"""
What may be said about files whose truth is known, and what must be.

O1  No good side is called damaged.
O2  No damage passes as an edit, or unnoticed, where a witness exists.
O3  Where a witness exists, the damage is named, on the side that it is on (counted).
O4  Nothing that is advised destroys the last good content (``advice``).

A rewrite that keeps its time may be called one: ``silent_rewrite`` names both causes. A beginning of the right content
is no damage, and may be called incomplete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from support.cli import JsonObject
from support.results import all_names
from truth.lives import Life
from truth.places import Place, Seen
from truth.worlds import World, describe

_ACCUSES_FILE = frozenset({"rot", "silent_rewrite", "shrunk", "changed"})
_ACCUSES_COPY = "copy_differs"
_UNDECIDED = frozenset({"copy_conflict", "copy_newer", "copy_not_comparable", "copy_unreadable"})
_INCOMPLETE = re.compile(r"^.{0,60}\b(incomplete|cut off|beginning)\b", re.IGNORECASE)
_DAMAGED = re.compile(r"\b(damaged|corrupt|rotten|bit rot)\b", re.IGNORECASE)
_INTACT = re.compile(r"\boriginals? (is|are) intact\b")


class Error(NamedTuple):
    """Something wrong that was said, or not said: the rule, the world and file, and what is known of it."""

    rule: str
    question: str
    seed: int
    file: int
    text: str

    def __str__(self) -> str:
        return f"{self.rule} [{self.question}] --seed {self.seed} --file {self.file}: {self.text}"


@dataclass
class Result:
    """
    What worlds came to.

    Attributes:
        histories: how many files lived.
        errors: all that is wrong.
        witnessed: damaged sides with a witness at the end, by what they were called.
        decided: how many of them were named on the right side.
        others: sides of files without a witness that differ, by what they are and what they were called.
        untrue: sentences that call a damaged original intact, without accusing anybody.
        tried: how often each kind of advice was carried out.
    """

    histories: int = 0
    errors: list[Error] = field(default_factory=list)
    witnessed: Counter[str] = field(default_factory=Counter)
    decided: int = 0
    others: Counter[str] = field(default_factory=Counter)
    untrue: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)

    @property
    def decided_percent(self) -> float:
        """The share of the damaged sides with a witness that were decided."""
        total = self.witnessed.total()
        return 100 * self.decided / total if total else 100.0

    def add(self, other: Result) -> None:
        """Add what another world came to."""
        self.histories += other.histories
        self.decided += other.decided
        self.errors += other.errors
        for mine, theirs in ((self.witnessed, other.witnessed), (self.others, other.others)):
            mine.update(theirs)
        for mine, theirs in ((self.untrue, other.untrue), (self.tried, other.tried)):
            mine.update(theirs)

    def describe(self) -> str:
        """Sum it up, with one example of each sort of error."""
        rules = Counter(f"{error.rule} [{error.question}]" for error in self.errors)
        total = self.witnessed.total() + self.others.total()
        share = 100 * self.others.total() / total if total else 0
        lines = [
            f"{self.histories} histories; errors: {dict(rules) or 'none'}",
            f"with a witness: {self.witnessed.total()}, {self.decided_percent:.1f} % decided",
            *(f"  {count:5} {what}" for what, count in self.witnessed.most_common()),
            f"without a witness: {self.others.total()} ({share:.0f} % of what differs or is damaged)",
            *(f"  {count:5} {what}" for what, count in self.others.most_common()),
            *(f"untrue: {count:5} {what}" for what, count in self.untrue.most_common()),
            *(f"carried out: {count:5} {what}" for what, count in self.tried.most_common()),
            *map(str, self.errors),
        ]
        return "\n".join(lines)


class Judge:
    """
    The oracle of one world.

    Args:
        world: that is judged.
        result: takes what is found.
    """

    def __init__(self, world: World, result: Result) -> None:
        self._world, self._result = world, result
        self._right_once: set[str] = set()  # findings that stay until somebody decides, whatever is written later (R6)

    def judge(self, said: Sequence[JsonObject], *, scrubbed: bool, compared: bool, is_last: bool = False) -> None:
        """Judge what is open after a look of the program, about all files; ``is_last``: count what was decided."""
        found: dict[str, list[JsonObject]] = {}
        for each in said:
            for path in all_names(each) if each["type"] == "finding" else [each["path"]]:
                found.setdefault(str(path), []).append(each)
        for life in self._world.lives.values():
            about = found.get(str(self._world.root.folder / life.name), [])
            findings = [each for each in about if each["type"] == "finding"]
            self._judge_notes(life, [each for each in about if each["type"] == "note"])
            mine = [each for each in findings if not each["copy"]]
            self._judge_root(life, mine, scrubbed=scrubbed, is_last=is_last)
            for name, place in self._world.copies.items():
                if place.has(life.name):
                    mine = [each for each in findings if each["copy"] == name]
                    accused = any(each["kind"] in _ACCUSES_FILE for each in findings)
                    self._judge_copy(life, place, mine, accused=accused, compared=compared, is_last=is_last)

    def add_error(self, rule: str, life: Life, text: str) -> None:
        """Note an error about a file."""
        world = self._world
        log = f"phase {world.phase} of {describe(world.seed)!r}; {life.name}: {'; '.join(life.log)}"
        self._result.errors.append(Error(rule, world.question, world.seed, life.number, f"{text} ({log})"))

    def judge_again(self, said: Sequence[JsonObject]) -> None:
        """Judge what is said after advice was carried out: who is good on both sides is no longer accused."""
        accused = {
            str(path): each
            for each in said
            if each["kind"] in _ACCUSES_FILE or (each["kind"] == _ACCUSES_COPY and not _is_incomplete(each))
            for path in (all_names(each) if each["type"] == "finding" else [])
        }
        for life in self._world.lives.values():
            finding = accused.get(str(self._world.root.folder / life.name))
            sides = [self._world.root, *(place for place in self._world.copies.values() if place.has(life.name))]
            seen = {None if (one := place.see(life.name)) is None else one.content for place in sides}
            if finding is not None and len(seen) == 1 and seen <= set(life.honest):
                kind, is_right = str(finding["kind"]), str(finding["id"]) in self._right_once
                if not is_right and not self._is_kept_time(self._world.root, life, kind):
                    self.add_error("O1", life, f"after the advice, all sides good and equal: {_show(finding)}")

    def _judge_notes(self, life: Life, notes: Iterable[JsonObject]) -> None:
        sides = [self._world.root, *self._world.copies.values()]
        is_good = all((seen := side.see(life.name)) is None or seen.content in life.honest for side in sides)
        for note in notes:
            if is_good and note["kind"] != "resolved" and _DAMAGED.search(str(note["message"])):
                self.add_error("O1", life, f"a note: {note['kind']}: {note['message']}")

    def _is_kept_time(self, place: Place, life: Life, kind: str) -> bool:
        """Say whether other bytes were read here under this time: what says so, and names both causes, is right."""
        now = place.see(life.name)
        readings = place.readings.get(life.name, ())
        return (kind == "silent_rewrite" or not place.has_ctime) and any(
            now is not None and each.content != now.content and each.mtime_ns == now.mtime_ns for each in readings
        )

    def _judge_root(self, life: Life, findings: Sequence[JsonObject], *, scrubbed: bool, is_last: bool) -> None:
        root = self._world.root
        seen = root.see(life.name)
        if seen is None:
            return
        accusing = [each for each in findings if each["kind"] in _ACCUSES_FILE]
        is_good = not life.is_damaged(seen.content)
        for each in accusing:
            if not is_good or self._is_kept_time(root, life, str(each["kind"])):
                self._right_once.add(str(each["id"]))
            elif str(each["id"]) not in self._right_once:
                self.add_error("O1", life, f"the file is good: {_show(each)}")
        if is_good or not scrubbed:
            return
        calls = _name_calls(findings)
        if not self._world.has_witness(root, life):
            if is_last:
                self._result.others[f"file damaged before it was read first: {calls}"] += 1
            return
        if not accusing:
            self.add_error("O2", life, f"the file is damaged, and other bytes were read there before: {calls}")
        if is_last:
            self._count_witnessed("file damaged", calls, is_decided=bool(accusing))

    def _judge_copy(
        self,
        life: Life,
        place: Place,
        findings: Sequence[JsonObject],
        *,
        accused: bool,
        compared: bool,
        is_last: bool,
    ) -> None:
        here, there = self._world.root.see(life.name), place.see(life.name)
        if here is None or there is None:
            return
        accusing = [each for each in findings if each["kind"] == _ACCUSES_COPY and not _is_incomplete(each)]
        for each in findings:
            if life.is_damaged(here.content) and _INTACT.search(str(each["message"])):
                self._result.untrue[f"{each['kind']}: the original is intact"] += 1
        if there.content in life.honest:
            is_both = accused and here.content == there.content
            for each in accusing:
                if not is_both:
                    self.add_error("O1", life, f"the copy is {_place_in_time(life, here, there)}: {_show(each)}")
        if not compared:
            return
        calls = _name_calls(findings)
        is_damaged = life.is_damaged(there.content)
        if is_damaged and self._world.has_witness(place, life):
            is_decided = bool(accusing) or (accused and here.content == there.content)
            is_open = any(each["kind"] in _UNDECIDED for each in findings)
            if not is_decided and not is_open:
                self.add_error("O2", life, f"the copy is damaged, and other bytes were read there before: {calls}")
            if is_last:
                self._count_witnessed("copy damaged", calls, is_decided=is_decided)
        elif is_last and (is_damaged or here.content != there.content):
            what = "damaged, not read before" if is_damaged else _place_in_time(life, here, there)
            root = " (file damaged)" if life.is_damaged(here.content) else ""
            self._result.others[f"copy {what}{root}: {calls}"] += 1

    def _count_witnessed(self, what: str, calls: str, *, is_decided: bool) -> None:
        self._result.witnessed[f"{what}: {calls}"] += 1
        self._result.decided += is_decided


def _is_incomplete(finding: JsonObject) -> bool:
    return _INCOMPLETE.match(re.sub(r"/\S+", "PATH", str(finding["message"]))) is not None


def _name_calls(findings: Iterable[JsonObject]) -> str:
    names = (f"{each['kind']}{' (incomplete)' if _is_incomplete(each) else ''}" for each in findings)
    return ", ".join(sorted(names)) or "nothing"


def _place_in_time(life: Life, here: Seen, there: Seen) -> str:
    """Say what an honest content of a copy is to that of the file."""
    mine, other = life.get_version(here.content), life.get_version(there.content)
    if other is None:
        return "incomplete"
    if mine is None:
        return "good"
    if mine is other:
        return "equal"
    if other.is_part_of(mine):
        return "an older version"
    return "a newer version" if mine.is_part_of(other) else "another version"


def _show(finding: JsonObject) -> str:
    return f"{finding['kind']} ({finding.get('certainty')}): {finding['message']}"
