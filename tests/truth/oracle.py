"""
What may be said about files whose truth is known, and what must be.

O1  No good side is called damaged.
O2  No damage passes as an edit, or unnoticed, where a witness exists; all that is there is read.
O3  Where a witness exists, the damage is named, on the side that it is on (a share is demanded).
O4  Nothing that is advised destroys the last good content (``advice``).

A rewrite that keeps its time may be called one: ``silent_rewrite`` names both causes. A beginning of the right content
is no damage, and may be called incomplete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from support.cli import JsonObject
from support.results import all_names
from truth.habits import HOUR_NS, NEVER, SECOND_NS, describe, get_question
from truth.lives import Life
from truth.places import Place
from truth.worlds import World

DECIDED_PERCENT = 95
_ACCUSES_FILE = frozenset({"rot", "silent_rewrite"})
UNDECIDED = frozenset({"copy_conflict", "copy_newer"})
_KINDS = _ACCUSES_FILE | UNDECIDED | {"copy_differs", "copy_stale", "copy_missing"}
_INCOMPLETE = re.compile(r"^.{0,60}\b(incomplete|cut off|beginning)\b", re.IGNORECASE)
_DAMAGED = re.compile(r"\b(damaged|corrupt|rotten|bit rot)\b", re.IGNORECASE)
_INTACT = re.compile(r"\boriginals? (is|are) intact\b")


class Error(NamedTuple):
    """Something wrong that was said, or not said."""

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
        decided: of how many damaged sides with a witness the damage is named at the end.
        counts: by section and words, what was said of sides that differ, and which advice was carried out.
    """

    histories: int = 0
    errors: list[Error] = field(default_factory=list)
    decided: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def count(self, section: str) -> int:
        """Return the sum of a section."""
        return sum(count for (this, _), count in self.counts.items() if this == section)

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong, and enough was decided."""
        return not self.errors and self.decided >= self.count("witness") * DECIDED_PERCENT / 100

    def add(self, other: Result) -> None:
        """Add what another world came to."""
        self.histories += other.histories
        self.decided += other.decided
        self.errors += other.errors
        self.counts.update(other.counts)

    def describe(self) -> str:
        """Sum it up, with all errors."""
        rules = Counter(f"{error.rule} [{error.question}]" for error in self.errors)
        witnessed, others = self.count("witness"), self.count("no witness")
        lines = [f"{self.histories} histories; errors: {dict(rules) or 'none'}"]
        lines += [f"damaged with a witness: {witnessed}, decided: {self.decided} ({_percent(self.decided, witnessed)})"]
        lines += [f"without a witness: {others} ({_percent(others, witnessed + others)} of what differs or is damaged)"]
        lines += [f"  {section}: {count:5} {what}" for (section, what), count in sorted(self.counts.items())]
        return "\n".join([*lines, *map(str, self.errors)])


class Judge:
    """The oracle of one world; what it finds goes into ``result``."""

    def __init__(self, world: World, result: Result) -> None:
        self._world, self._result = world, result
        self._right_once: set[str] = set()  # findings that stay until somebody decides, whatever is written later (R6)

    def judge(self, said: Sequence[JsonObject], *, scrubbed: bool, compared: bool, is_last: bool = False) -> None:
        """Judge what is open after a look of the program, about all files; ``is_last``: count what was decided."""
        found: dict[str, list[JsonObject]] = {}
        for life, each in self._find_about(said):
            found.setdefault(life.name, []).append(each)
        for each in said:
            known = self._world.find_life(str(each["path"]))
            is_gone = known is not None and self._world.root.see(known.name) is None
            if is_gone and each["kind"] == "missing":
                continue  # deleted before the root was moved: nobody can know that it was meant
            if each["type"] == "finding" and (known is None or each["kind"] not in _KINDS):
                some = known or next(iter(self._world.lives.values()))
                self.add_error("O2", some, f"all can be read: {_show(each)}")
        for life in self._world.lives.values():
            about = found.get(life.name, [])
            notes = [each for each in about if each["type"] == "note"]
            self._judge_notes(life, notes)
            is_answered = compared and not any(each["kind"] == "unstable" for each in notes)  # "compare again"
            findings = [each for each in about if each["type"] == "finding"]
            mine = [each for each in findings if not each["copy"]]
            self._judge_root(life, mine, scrubbed=scrubbed, is_last=is_last)
            accused = any(each["kind"] in _ACCUSES_FILE for each in mine)
            for name, place in self._world.find_copies(life):
                theirs = [each for each in findings if each["copy"] == name]
                self._judge_copy(life, place, theirs, accused=accused, compared=is_answered, is_last=is_last)

    def judge_again(self, said: Sequence[JsonObject]) -> None:
        """Judge what is said after advice was carried out: who is good on all sides is no longer accused."""
        for life, finding in self._find_about(said):
            sides = [self._world.root, *(place for _, place in self._world.find_copies(life))]
            contents = {None if (seen := side.see(life.name)) is None else seen.content for side in sides}
            if not accuses(finding) or len(contents) > 1 or not contents <= set(life.honest):
                continue
            if not (self._is_kept_time(life) or str(finding["id"]) in self._right_once):
                self.add_error("O1", life, f"after the advice, all sides good and equal: {_show(finding)}")

    def add_error(self, rule: str, life: Life, text: str) -> None:
        """Note an error about a file."""
        world = self._world
        log = f"phase {world.phase} of {describe(world.seed)!r}; {life.name}: {'; '.join(life.log)}"
        self._result.errors.append(Error(rule, get_question(world.seed), world.seed, life.number, f"{text} ({log})"))

    def _find_about(self, said: Iterable[JsonObject]) -> Iterator[tuple[Life, JsonObject]]:
        """Return each finding and note with each file that it is about."""
        for each in said:
            for path in all_names(each) if each["type"] == "finding" else [each["path"]]:
                life = self._world.find_life(str(path))
                if life is not None:
                    yield life, each

    def _judge_notes(self, life: Life, notes: Iterable[JsonObject]) -> None:
        sides = [self._world.root, *self._world.copies.values()]
        is_good = all((seen := side.see(life.name)) is None or seen.content in life.honest for side in sides)
        for note in notes:
            if is_good and note["kind"] != "resolved" and _DAMAGED.search(str(note["message"])):
                self.add_error("O1", life, f"all sides are good: a note {note['kind']}: {note['message']}")

    def _is_kept_time(self, life: Life) -> bool:
        """
        Say whether other bytes were read of the file under this time: to name both causes is right then.

        Where all times moved by an hour, what was restored since may have the time that was recorded before.
        """
        root = self._world.root
        now, apart_ns = root.see(life.name), (0, HOUR_NS) if root.habit.shifts_in != NEVER else (0,)
        return any(
            now
            and each.content != now.content
            and any(abs(abs(each.mtime_ns - now.mtime_ns) - apart) < 2 * SECOND_NS for apart in apart_ns)
            for each in root.readings.get(life.name, ())
        )

    def _judge_root(self, life: Life, findings: Sequence[JsonObject], *, scrubbed: bool, is_last: bool) -> None:
        root = self._world.root
        seen = root.see(life.name)
        if seen is None:
            return
        accusing = [each for each in findings if each["kind"] in _ACCUSES_FILE]
        is_good = not life.is_damaged(seen.content)
        for each in accusing:
            is_ambiguous = each["kind"] == "silent_rewrite" or not root.habit.has_ctime
            if not is_good or (is_ambiguous and self._is_kept_time(life)):
                self._right_once.add(str(each["id"]))
            elif str(each["id"]) not in self._right_once:
                self.add_error("O1", life, f"the file is good: {_show(each)}")
        if is_good or not scrubbed:
            return
        calls, has_witness = _name_calls(findings), self._world.has_witness(root, life)
        if has_witness and not accusing:
            self.add_error("O2", life, f"the file is damaged, and other bytes were read there before: {calls}")
        if is_last:
            self._count("file damaged", calls, has_witness=has_witness, is_decided=bool(accusing))

    def _judge_copy(
        self, life: Life, place: Place, findings: Sequence[JsonObject], *, accused: bool, compared: bool, is_last: bool
    ) -> None:
        """``accused``: the file is, too."""
        here, there = self._world.root.see(life.name), place.see(life.name)
        if here is None or there is None:
            return
        accusing = [each for each in findings if accuses(each)]
        relation = life.relate(here.content, there.content)
        is_named_both = accused and here.content == there.content
        for each in accusing:
            if there.content in life.honest and not (is_named_both and self._is_kept_time(life)):
                self.add_error("O1", life, f"the copy is {relation}: {_show(each)}")
        calls, is_damaged = _name_calls(findings), life.is_damaged(there.content)
        if life.is_damaged(here.content) and any(_INTACT.search(str(each["message"])) for each in findings):
            self._result.counts["untrue words", f"{calls}: a damaged original is called intact"] += 1
        if "copy_missing" in calls:
            self._result.counts["untrue words", "copy_missing: it is there"] += 1
        if not compared:
            return
        has_witness, is_decided = is_damaged and self._world.has_witness(place, life), bool(accusing) or is_named_both
        if has_witness:
            relation += f", read before {self._name_witness(life, place)}"
        if has_witness and not is_decided and not any(each["kind"] in UNDECIDED for each in findings):
            self.add_error("O2", life, f"the copy is {relation}: {calls}")
        if is_last and (is_damaged or here.content != there.content):
            self._count(f"copy {relation}", calls, has_witness=has_witness, is_decided=is_decided)

    def _name_witness(self, life: Life, place: Place) -> str:
        """Name what the copy was read with before, which says how hard it is to remember."""
        recorded = {each.content for each in self._world.root.readings.get(life.name, ())}
        former = {each.content for each in place.readings[life.name]}
        return "with a version of the file" if former & recorded else "but never with a recorded version"

    def _count(self, what: str, calls: str, *, has_witness: bool, is_decided: bool) -> None:
        self._result.counts["witness" if has_witness else "no witness", f"{what}: {calls}"] += 1
        self._result.decided += has_witness and is_decided


def accuses(finding: JsonObject) -> bool:
    """Say whether somebody is accused; "incomplete" accuses nobody."""
    return finding["kind"] in _ACCUSES_FILE or (finding["kind"] == "copy_differs" and not _is_incomplete(finding))


def _is_incomplete(finding: JsonObject) -> bool:
    return _INCOMPLETE.match(re.sub(r"/\S+", "PATH", str(finding["message"]))) is not None


def _name_calls(findings: Iterable[JsonObject]) -> str:
    names = (f"{each['kind']}{' (incomplete)' if _is_incomplete(each) else ''}" for each in findings)
    return ", ".join(sorted(names)) or "nothing"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 100:.1f} %"


def _show(finding: JsonObject) -> str:
    return f"{finding['kind']} ({finding.get('certainty')}): {finding['message']}"
