"""
What a vote must find, computed the slow way: from all files of all members, one by one, without any digest of a folder.

Written from the rules (docs/hub.md, "votes") and not from the code: it shares nothing with ``hub/replica_verdict.py``.
``Replicas`` lets anything happen to the boxes of a set, and holds a vote against it after each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from integrity.hub import schema
from integrity.hub.database import HubDatabase
from integrity.hub.findings import HubFinding
from integrity.hub.kinds import HUB_KINDS
from integrity.reporting.digest_tree import FROZEN, ReportedFile
from support.hub_rows import NOW, HubRows

CHANGED_BY_WRITE = frozenset({"shrunk", "changed", "rolled_back"})
DAMAGE = frozenset({"rot", "silent_rewrite", "unreadable", "missing"}) | CHANGED_BY_WRITE
WEIGHTIER = frozenset({"rot", "silent_rewrite", "unreadable", "missing"})
ROT = frozenset({"rot", "silent_rewrite"})
LOSS = WEIGHTIER - ROT
DOUBT = frozenset({"transient", "unstable", "catalog_damaged"})
_FROM_DISK = 1, 2


@dataclass
class ModelMember:
    """
    A member.

    Attributes:
        files: all of them by path; times by the clock of the box.
        findings: the kinds of its unresolved findings by path.
        excluded_suffix: of names that it leaves out; None: it leaves out nothing.
        former: what its files held before.
    """

    reported_at: int
    ahead: int = 0
    files: dict[bytes, ReportedFile] = field(default_factory=dict)
    findings: dict[bytes, frozenset[str]] = field(default_factory=dict)
    excluded_suffix: bytes | None = None
    former: dict[bytes, list[ReportedFile]] = field(default_factory=dict)

    def is_damaged(self, path: bytes) -> bool:
        """Say whether its box found damage in a file that it has."""
        return path in self.files and bool(self.findings.get(path, frozenset()) & DAMAGE)

    def find_proof(self, path: bytes) -> str:
        """Say how sure it is that it has what it recorded."""
        file = self.files[path]
        if self.findings.get(path, frozenset()) & (DAMAGE | DOUBT) or file.flags & FROZEN:
            return "damaged"
        return "verified" if file.verified_at is not None and file.read_how in _FROM_DISK else "recorded"


class ModelFinding(NamedTuple):
    """
    What is wrong.

    Attributes:
        member: at which member; None: nobody knows.
        path: with which file; empty: with many.
        sources: the members that have what it needs.
        command: the program to run; None: there is none to propose.
        runs_on: at which member.
    """

    kind: str
    member: str | None
    path: bytes
    certainty: str
    sources: frozenset[str] = frozenset()
    command: str | None = None
    runs_on: str | None = None


Limits = Mapping[str, int]
Members = Mapping[str, ModelMember]


def vote_by_hand(members: Members, limits: Limits) -> set[ModelFinding]:
    """Return all that a vote must find. ``limits``: how many findings of a kind at one member are listed."""
    if len(members) < 2:
        return set()
    found: dict[tuple[str, str | None], list[ModelFinding]] = {}
    judged = [
        one
        for path in {path for each in members.values() for path in each.files}
        for one in _File(path, members).judge()
    ]
    for one in _find_two_names(judged, members):
        found.setdefault((one.kind, one.member), []).append(one)
    return {
        one
        for (kind, name), listed in found.items()
        for one in (
            listed
            if len(listed) <= limits[kind]
            else [ModelFinding(kind, name, b"", "undecided" if name is None else "likely")]
        )
    }


def _find_two_names(judged: list[ModelFinding], members: Members) -> Iterable[ModelFinding]:
    """Yield what was found, with the missing files that stand under another name taken out, and told as renamed."""
    lacking: dict[bytes, set[str]] = {}
    for one in judged:
        if one.kind == "replica_missing" and one.member is not None:
            lacking.setdefault(one.path, set()).add(one.member)
    having = {path: {name for name, one in members.items() if path in one.files} for path in lacking}
    explained: set[tuple[bytes, str]] = set()
    first, second = _PATHS
    are_apart = {first, second} <= set(lacking) and not having[first] & having[second]
    if are_apart and (having[first] & lacking[second] or having[second] & lacking[first]):
        files = [members[name].files[path] for path in _PATHS for name in having[path]]
        if all(_is_one(one, files[0]) for one in files):
            yield _tell_renamed(having, members, files[0])
            ones, others = sorted(_PATHS, key=lambda path: (-len(having[path]), min(having[path])))
            explained = {(ones, name) for name in having[others]} | {(others, name) for name in members}
    yield from (one for one in judged if one.kind != "replica_missing" or (one.path, one.member) not in explained)


def _is_one(a: ReportedFile, b: ReportedFile) -> bool:
    """Say whether two files with different names are one: by size and MD5, or XXH3 where there is none."""
    return (a.size_bytes, a.md5 or (a.xxh3_128, None)) == (b.size_bytes, b.md5 or (b.xxh3_128, None)) and bool(
        a.md5 or a.xxh3_128
    )


def _tell_renamed(having: Mapping[bytes, set[str]], members: Members, file: ReportedFile) -> ModelFinding:
    """Tell who renamed, as far as somebody has one name and had the other before."""
    gave_up = {
        new: {name for name in having[new] if any(_is_one(was, file) for was in members[name].former.get(old, ()))}
        for new, old in (_PATHS, _PATHS[::-1])
    }
    names = sorted(_PATHS, key=lambda path: (-len(having[path]), min(having[path])))
    renamed_on: set[str] = set()
    if bool(gave_up[_PATHS[0]]) != bool(gave_up[_PATHS[1]]):
        new = next(path for path in _PATHS if gave_up[path])
        names, renamed_on = [path for path in _PATHS if path != new] + [new], gave_up[new]
    member = next(iter(renamed_on)) if len(renamed_on) == 1 else None
    return ModelFinding("replica_renamed", member, names[1], "proven" if renamed_on else "undecided")


def is_open_until_next_report(members: Members) -> bool:
    """Say whether a vote leaves a file open because a box may not have reported since it was recorded elsewhere."""
    first = min((one.reported_at for one in members.values()), default=0)
    return len(members) > 1 and any(
        max(_recorded(one, one.files[path]) for one in members.values() if path in one.files) > first
        for path in {path for one in members.values() for path in one.files}
        if _is_judged(path, members)
    )


def _is_judged(path: bytes, members: Members) -> bool:
    files = [one.files[path] for one in members.values() if path in one.files]
    is_disputed = len(files) < len(members) or any(_differ(a, b) for a in files for b in files)
    return is_disputed or any(one.findings.get(path, frozenset()) & (DAMAGE | DOUBT) for one in members.values())


class _File:
    """One file at all members."""

    def __init__(self, path: bytes, members: Members) -> None:
        self.path, self.members = path, members
        self.having = sorted(name for name, one in members.items() if path in one.files)
        self.bad = {name for name in self.having if members[name].is_damaged(path)}
        self.newer_than = {
            name: [other for other in self.having if self._compare(name, other)[0] == "older"] for name in self.having
        }
        is_circle = all(self.newer_than.values())
        self.behind = set() if is_circle else {name for name in self.having if self.newer_than[name]}
        self.newest = [name for name in self.having if name not in self.behind]

    def judge(self) -> Iterable[ModelFinding]:
        """Return what is wrong with it."""
        for name in self.members:
            if name in self.bad:
                yield self._judge_damaged(name)
            elif name not in self.having:
                yield from self._judge_missing(name)
            elif name in self.behind:
                yield self._judge_stale(name)
        yield from self._judge_undecided()

    def _finding(self, kind: str, name: str | None, certainty: str, **advice: object) -> ModelFinding:
        return ModelFinding(kind, name, self.path, certainty, **advice)  # type: ignore[arg-type]

    def _judge_damaged(self, name: str) -> ModelFinding:
        one = self.members[name]
        equal = [
            other
            for other in self.having
            if other != name and _equal(one.files[self.path], self.members[other].files[self.path])
        ]
        proof, sources = self._find_best(equal)
        certainty = "likely"
        command, runs_on = None, None
        if proof == "verified":
            certainty = "proven" if one.findings[self.path] & WEIGHTIER else "likely"
            command, runs_on = "integrity repair", name
        elif proof == "recorded":
            command, runs_on = "integrity scrub", sources[0]
        elif name in self.behind:
            sources = self.newer_than[name]
            command, runs_on = "rsync", name
        is_lost = one.findings[self.path] & LOSS and not one.findings[self.path] & ROT
        kind = "replica_lost" if is_lost else "replica_damaged"
        return self._finding(kind, name, certainty, sources=frozenset(sources), command=command, runs_on=runs_on)

    def _judge_missing(self, name: str) -> Iterable[ModelFinding]:
        one = self.members[name]
        if one.excluded_suffix is not None and self.path.endswith(one.excluded_suffix):
            return
        had = [
            other
            for other in self.newest
            if _recorded(self.members[other], self.members[other].files[self.path]) <= one.reported_at
        ]
        if had:
            yield self._replicate("replica_missing", name, "proven", had)

    def _judge_stale(self, name: str) -> ModelFinding:
        newer = self.newer_than[name]
        is_proven = any(self._compare(name, other)[1] for other in newer)
        candidates = [other for other in newer if other in self.newest] or newer
        return self._replicate("replica_stale", name, "proven" if is_proven else "likely", candidates)

    def _replicate(self, kind: str, name: str, certainty: str, candidates: list[str]) -> ModelFinding:
        proof, sources = self._find_best(candidates)
        advice = {} if proof == "damaged" else {"command": "rsync", "runs_on": name}
        return self._finding(kind, name, certainty, sources=frozenset(sources), **advice)

    def _judge_undecided(self) -> Iterable[ModelFinding]:
        sound = [name for name in self.newest if name not in self.bad]
        orders = {name: {self._compare(name, other)[0] for other in sound} - {"same"} for name in sound}
        mine = [name for name in sound if orders[name]]
        if mine:
            are_conflicts = all(orders[name] == {"conflict"} for name in mine)
            to_verify = [name for name in mine if self.members[name].find_proof(self.path) != "verified"]
            advice = {"command": "integrity scrub", "runs_on": to_verify[0]} if to_verify else {}
            yield self._finding("replica_conflict" if are_conflicts else "replica_differs", None, "undecided", **advice)

    def _find_best(self, candidates: list[str]) -> tuple[str, list[str]]:
        proofs = {name: self.members[name].find_proof(self.path) for name in candidates}
        best = next((one for one in ("verified", "recorded", "damaged") if one in proofs.values()), "damaged")
        return best, [name for name in candidates if proofs[name] == best]

    def _compare(self, name: str, other: str) -> tuple[str, bool]:
        """Return how the content at one member is compared with that of another, and whether its history shows it."""
        one, two = self.members[name], self.members[other]
        a, b = one.files[self.path], two.files[self.path]
        if not _differ(a, b):
            return "same", False
        if max(_recorded(one, a), _recorded(two, b)) > min(one.reported_at, two.reported_at):
            return "same", False
        former_a, former_b = one.former.get(self.path, []), two.former.get(self.path, [])
        a_was_there = any(_equal(a, was) for was in former_b)
        b_was_here = any(_equal(b, was) for was in former_a)
        by_time = _compare_times(one, a, two, b)
        if a_was_there and not b_was_here:
            return ("undecided", False) if by_time == "newer" else ("older", True)
        if b_was_here and not a_was_there:
            return ("undecided", False) if by_time == "older" else ("newer", True)
        if not a_was_there and any(_equal(was, before) for was in former_a for before in former_b):
            return "conflict", False
        return by_time, False


def _compare_times(one: ModelMember, a: ReportedFile, other: ModelMember, b: ReportedFile) -> str:
    times_a = {a.mtime_ns, a.mtime_ns - one.ahead * 10**9}
    times_b = {b.mtime_ns, b.mtime_ns - other.ahead * 10**9}
    if all(y - x > 2 * 10**9 for x in times_a for y in times_b):
        return "older"
    return "newer" if all(x - y > 2 * 10**9 for x in times_a for y in times_b) else "undecided"


def _recorded(one: ModelMember, file: ReportedFile) -> int:
    return file.recorded_at - one.ahead


def _differ(a: ReportedFile, b: ReportedFile) -> bool:
    pairs = [(a.md5, b.md5), (a.xxh3_128, b.xxh3_128)]
    return a.size_bytes != b.size_bytes or any(x != y for x, y in pairs if x and y)


def _equal(a: ReportedFile, b: ReportedFile) -> bool:
    return not _differ(a, b) and bool((a.md5 and b.md5) or (a.xxh3_128 and b.xxh3_128))


_Content = tuple[int, bytes | None, bytes | None]
_BOXES = st.integers(0, 16)
_PATHS = b"a", b"x/\xff.tmp"
_paths = st.sampled_from(_PATHS)
_KINDS = st.sampled_from([*sorted(DAMAGE | DOUBT), "overdue", "kind_of_a_newer_version"])
_AHEAD = st.sampled_from([0, 60, -4000])
_MTIMES = st.sampled_from([-3, 0, 0, 1, 3, 3, 5000, -(1 << 63), (1 << 63) - 1])
_READ_HOWS = st.sampled_from([1, 1, 1, 2, 0, 3])
_VOTED_EVERY = 3
_MOSTLY = st.sampled_from([True, True, True, False])


@st.composite
def _contents(draw: st.DrawFn) -> _Content:
    """Draw size and digests, few, so that equal ones meet."""
    content = draw(st.sampled_from([b"0", b"1", b"2", b"3"])) * 16
    size_bytes = draw(st.sampled_from([7, 7, 7, 8]))
    digests = draw(st.sampled_from(["both", "both", "both", "both", "md5", "xxh3", ""]))
    return size_bytes, content if digests in ("both", "md5") else None, content if digests in ("both", "xxh3") else None


_none_of_eight = st.integers(0, 7).flatmap(lambda number: _contents() if number else st.none())
_edits = st.tuples(_BOXES, _none_of_eight, _MTIMES)


class Replicas(RuleBasedStateMachine):
    """
    Boxes with one replica set: whatever they report, each vote equals the model.

    Args:
        database: of a hub; nothing of what happens stays in it.
        count: of boxes at the beginning.
    """

    def __init__(self, database: HubDatabase, count: int) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._c = self._stack.enter_context(database.engine.connect())
        self._stack.callback(self._c.begin().rollback)
        self._rows = HubRows(self._c)
        self._count = count
        self._members: dict[str, ModelMember] = {}
        self._all: list[ModelMember] = []
        self._now = NOW
        self._numbers: dict[tuple[str, bytes, str], int] = {}
        self._last_number = self._steps = 0
        self._is_filled = False
        self._found: dict[tuple[str, str | None, bytes], HubFinding] = {}

    def teardown(self) -> None:
        """Vote twice: where nothing happened, nothing of what was found changes. Take everything back."""
        with self._stack:
            self.vote()
            assert list(self._found.values()) == self._rows.vote(self._now + 1)

    @initialize(aheads=st.lists(_AHEAD, min_size=2, max_size=3), are_alike=st.booleans(), are_verified=_MOSTLY)
    def begin(self, aheads: list[int], are_alike: bool, are_verified: bool) -> None:
        """Let boxes join that have the same files, or nothing yet."""
        count = len(aheads) if self._count <= len(aheads) else self._count
        for number in range(count):
            name = self._join(aheads[number % len(aheads)], b".tmp" if number % 2 else None)
            for path in _PATHS if are_alike else ():
                file = self._make_file(name, (7, b"0" * 16, b"0" * 16), 0)
                self._store(name, path, file._replace(verified_at=self._now, read_how=1) if are_verified else file)

    def _join(self, ahead: int, excluded_suffix: bytes | None) -> str:
        name = f"box{len(self._rows.boxes):02}"
        excludes = [] if excluded_suffix is None else ["*" + excluded_suffix.decode()]
        self._rows.add_member(name, {}, seen_at=self._now, clock_ahead_s=ahead, excludes=excludes)
        self._members[name] = ModelMember(self._now, ahead, excluded_suffix=excluded_suffix)
        self._all.append(self._members[name])
        return name

    def _name(self, number: int) -> str:
        names = sorted(self._members)
        return names[number % len(names)]

    def has_members(self) -> bool:
        """Say whether there is anybody to report anything."""
        return bool(self._members)

    # What boxes do

    @precondition(lambda self: len(self._members) < self._count + 1)
    @rule(ahead=_AHEAD, excluded_suffix=st.sampled_from([None, b".tmp"]))
    def join(self, ahead: int, excluded_suffix: bytes | None) -> None:
        """A box joins, with nothing yet."""
        self._join(ahead, excluded_suffix)

    @precondition(has_members)
    @rule(path=_paths, edits=st.lists(_edits, min_size=1, max_size=3), are_reported=_MOSTLY)
    def write(self, path: bytes, edits: list[tuple[int, _Content | None, int]], are_reported: bool) -> None:
        """A file is written, or deleted, on one box or on several."""
        for box, content, mtime in edits:
            name = self._name(box)
            self._store(name, path, content and self._make_file(name, content, mtime))
        if are_reported:
            self._report_all()

    def _make_file(self, name: str, content: _Content, mtime: int) -> ReportedFile:
        mtime_ns = mtime if abs(mtime) > 5000 else mtime * 10**9
        size_bytes, md5, xxh3_128 = content
        recorded_at = self._now + self._members[name].ahead
        return ReportedFile(b"", size_bytes, mtime_ns, md5, xxh3_128, recorded_at, None, 0, 0)

    @precondition(has_members)
    @rule(box=_BOXES, path=_paths, source=_BOXES, are_reported=_MOSTLY)
    def replicate(self, box: int, path: bytes, source: int, are_reported: bool) -> None:
        """A file is copied from another box, with its time, or deleted where that one has none."""
        name = self._name(box)
        file = self._members[self._name(source)].files.get(path)
        now = self._now + self._members[name].ahead
        self._store(name, path, file and file._replace(recorded_at=now, verified_at=None, flags=0))
        if are_reported:
            self._report_all()

    @precondition(has_members)
    @rule(boxes=st.lists(_BOXES, min_size=1, max_size=3), path=_paths, content=_contents(), are_moved=_MOSTLY)
    def rename(self, boxes: list[int], path: bytes, content: _Content, are_moved: bool) -> None:
        """A file that all boxes have gets another name on some, or they have it under that name from the beginning."""
        other = next(each for each in _PATHS if each != path)
        renaming = {self._name(box) for box in boxes}
        for name in self._members:
            self._store(name, other, None)
            if are_moved or name not in renaming:
                self._store(name, path, self._make_file(name, content, 0))
        for name in renaming:
            self._store(name, other, self._make_file(name, content, 0))
            self._store(name, path, None)
        self._report_all()

    @precondition(has_members)
    @rule(box=_BOXES, path=_paths, how=_READ_HOWS, flags=st.sampled_from([0, 0, 0, 0, FROZEN]))
    def verify(self, box: int, path: bytes, how: int, flags: int) -> None:
        """A box reads a file again; what it finds may not be known yet."""
        name = self._name(box)
        if file := self._members[name].files.get(path):
            now = self._now + self._members[name].ahead
            self._store(name, path, file._replace(verified_at=now, read_how=how, flags=flags))

    @precondition(has_members)
    @rule(box=_BOXES, path=_paths, kind=_KINDS)
    def find(self, box: int, path: bytes, kind: str) -> None:
        """A box opens a finding."""
        name = self._name(box)
        if (name, path, kind) not in self._numbers:
            self._last_number += 1
            self._numbers[name, path, kind] = self._last_number
            self._rows.report_finding(name, self._last_number, kind, path)
            self._note(name, path, {kind}, set())

    @precondition(lambda self: self._numbers)
    @rule(number=_BOXES)
    def resolve(self, number: int) -> None:
        """A finding of a box ends."""
        keys = sorted(self._numbers)
        name, path, kind = keys[number % len(keys)]
        self._rows.resolve_finding(name, self._numbers.pop((name, path, kind)))
        if name in self._members:
            self._note(name, path, set(), {kind})

    def _note(self, name: str, path: bytes, new: set[str], over: set[str]) -> None:
        of_member = self._members[name].findings
        of_member[path] = frozenset((of_member.get(path, frozenset()) | new) - over)

    @precondition(lambda self: is_open_until_next_report(self._members))
    @rule(box=_BOXES)
    def report(self, box: int) -> None:
        """A box has reported everything until now."""
        self._members[self._name(box)].reported_at = self._now
        self._set_box(self._name(box), seen_at=self._now)

    def _report_all(self) -> None:
        for name, one in self._members.items():
            one.reported_at = self._now
            self._set_box(name, seen_at=self._now)

    @precondition(has_members)
    @rule(box=_BOXES, ahead=_AHEAD)
    def measure_clock(self, box: int, ahead: int) -> None:
        """The clock of a box turns out to be wrong."""
        self._members[self._name(box)].ahead = ahead
        self._set_box(self._name(box), clock_ahead_s=ahead)

    @precondition(lambda self: len(self._members) > max(2, self._count - 1))
    @rule(box=_BOXES)
    def revoke(self, box: int) -> None:
        """A box may not report any more."""
        name = self._name(box)
        del self._members[name]
        self._set_box(name, revoked_at=self._now)

    def _set_box(self, name: str, **values: object) -> None:
        self._c.execute(sa.update(schema.box).where(schema.box.c.name == name).values(**values))

    @precondition(lambda self: not self._is_filled)
    @rule(box=_BOXES, count=st.sampled_from([100, 101]))
    def fill(self, box: int, count: int) -> None:
        """A box has as many files as are listed, or one more, in a folder of their own."""
        self._is_filled = True
        name = self._name(box)
        content = 7, bytes(16), bytes(16)
        files = {b"many/%d" % number: self._make_file(name, content, 0) for number in range(count)}
        one = self._members[name]
        one.files |= files
        self._store_folder(name, b"many")

    def _store(self, name: str, path: bytes, file: ReportedFile | None) -> None:
        one = self._members[name]
        was = one.files.pop(path, None)
        if file is not None:
            one.files[path] = file
        others = (other for other in self._all if other is not one)
        is_over = any(path in other.files for other in others) if file is None else was and _differ(was, file)
        if was is not None and is_over:
            one.former.setdefault(path, []).append(was)
        self._store_folder(name, path.rpartition(b"/")[0])

    def _store_folder(self, name: str, folder: bytes) -> None:
        split = {path: path.rpartition(b"/") for path in self._members[name].files}
        files = [
            file._replace(name=split[path][2])
            for path, file in self._members[name].files.items()
            if split[path][0] == folder
        ]
        self._rows.store_folder(name, folder, files, has_former=True)

    # What a vote says

    @invariant()
    def pass_minute(self) -> None:
        """A minute passes; a vote waits until some things have happened."""
        self._now += 60
        self._steps += 1
        if self._steps % _VOTED_EVERY == 0:
            self.vote()

    def vote(self) -> None:
        """A vote finds what the model does; what lasts keeps its number."""
        found = {(one.kind.value, one.box_name, one.path): one for one in self._rows.vote(self._now)}
        limits = {kind.value: entry.listed_at_most for kind, entry in HUB_KINDS.items()}
        assert vote_by_hand(self._members, limits) == {_to_model(one) for one in found.values()}
        is_waiting = self._c.execute(sa.select(schema.replica_set.c.is_waiting)).scalar()
        assert is_open_until_next_report(self._members) == bool(is_waiting)
        newest = max((one.id for one in self._found.values()), default=0)
        for key, one in found.items():
            before = self._found.get(key)
            assert (one.id, one.opened_at) == (before.id, before.opened_at) if before else one.id > newest
        self._found = found


def _to_model(found: HubFinding) -> ModelFinding:
    sources = {str(one["box"]) for one in found.objects if one.get("is_source")}
    command = found.command and " ".join(found.command.split()[: 2 if found.command.startswith("integrity") else 1])
    return ModelFinding(
        found.kind.value,
        found.box_name,
        found.path,
        found.certainty.value,
        frozenset(sources),
        command,
        found.command_box_name,
    )
