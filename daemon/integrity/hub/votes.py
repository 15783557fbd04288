"""
Hold the members of a replica set against each other, and record what is wrong as findings.

A vote is a pure function of the rows that the boxes reported, and of nothing that an earlier vote concluded. It judges
only files whose content differs, that a member lacks, or in which a box found damage.

I1  One kind of finding about one box is listed file by file up to a limit; beyond, one finding stands for all of them:
    a member that was emptied is one incident. So memory does not grow with the number of files.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from integrity.hub import findings
from integrity.hub.box_bodies import JsonObject, read_body
from integrity.hub.kinds import HUB_KINDS, VOTED, HubCertainty, HubFindingKind
from integrity.hub.replica_rows import DisputedFile, SetMember, find_disputed, find_members
from integrity.hub.replica_verdict import MemberVote, are_reported, judge_replicas
from integrity.hub.replica_words import Draft, JudgedFile, SetWords
from integrity.hub.schema import box_finding, finding, replica_set

_EXAMPLES = 3
_BODIES_AT_ONCE = 500


class VoteResult(NamedTuple):
    """
    All that is wrong in a set.

    Attributes:
        is_waiting: files were left open, because a box has not reported since they were recorded elsewhere.
    """

    drafts: list[Draft]
    is_waiting: bool


class Wrong(NamedTuple):
    """What is wrong with one file: at a member, by its index, or (None) among several."""

    kind: HubFindingKind
    member: int | None


def run_vote(c: sa.Connection, set_id: int, now: int, *, clock: Callable[[], float] = time.monotonic) -> None:
    """
    Judge a replica set, and bring its findings up to date.

    Args:
        c: in a transaction, best of one snapshot.
        set_id: the set.
        now: seconds UTC.
        clock: seconds, to measure how long it takes.
    """
    started = clock()
    name = c.execute(sa.select(replica_set.c.name).where(replica_set.c.id == set_id)).scalar()
    if name is None:
        return  # no box reports it any more, and it was forgotten
    about = finding.c.set_id == set_id, finding.c.kind.in_([kind.value for kind in VOTED])
    result = vote(c, set_id, name)
    findings.record_drafts(c, about, result.drafts, now, findings.RESOLVED_BY_VOTE)
    findings.forget_resolved(c, finding.c.set_id == set_id)
    values = {"vote_ms": round((clock() - started) * 1000), "is_waiting": int(result.is_waiting)}
    c.execute(sa.update(replica_set).where(replica_set.c.id == set_id).values(voted_at=now, **values))


def vote(c: sa.Connection, set_id: int, set_name: str) -> VoteResult:
    """Judge a set. A single member has nobody to vote with."""
    members = find_members(c, set_id)
    if len(members) < 2:
        return VoteResult([], is_waiting=False)
    gathered: dict[Wrong, FoundFiles] = {}
    is_waiting = False
    for file in find_disputed(c, set_id, members):
        votes = judge_replicas(file.views)
        is_waiting = is_waiting or not are_reported(file.views)
        for wrong in find_wrong(votes):
            found = gathered.get(wrong)
            if found is None:
                found = gathered[wrong] = FoundFiles(HUB_KINDS[wrong.kind].listed_at_most)
            found.add(file, votes)
    return VoteResult(list(_describe(c, set_id, set_name, members, gathered)), is_waiting)


def find_wrong(votes: Sequence[MemberVote]) -> Iterator[Wrong]:
    """Return the findings about one file: one for each member that is wrong, and one for what nobody can decide."""
    undecided = {one.ruling.kind for one in votes if one.certainty is HubCertainty.UNDECIDED}
    if undecided:
        is_differing = HubFindingKind.REPLICA_DIFFERS in undecided
        yield Wrong(HubFindingKind.REPLICA_DIFFERS if is_differing else HubFindingKind.REPLICA_CONFLICT, None)
    for index, one in enumerate(votes):
        if one.ruling.kind is not None and one.certainty is not HubCertainty.UNDECIDED:
            yield Wrong(one.ruling.kind, index)


class FoundFiles:
    """Files with the same thing wrong with them: all of them, or (I1) only how many, where, and a few examples."""

    def __init__(self, listed_at_most: int) -> None:
        self._at_most = listed_at_most
        self.listed: list[tuple[DisputedFile, tuple[MemberVote, ...]]] = []
        self.count = 0
        self.above: bytes | None = None  # the deepest folder that all of them lie in
        self.examples: list[bytes] = []

    @property
    def are_many(self) -> bool:
        """Say whether one finding stands for all."""
        return self.count > self._at_most

    def add(self, file: DisputedFile, votes: tuple[MemberVote, ...]) -> None:
        """Add a file."""
        self.count += 1
        if self.are_many:
            self.listed.clear()
        else:
            self.listed.append((file, votes))
        above = file.path.rpartition(b"/")[0]
        if self.above != above:
            self.above = above if self.above is None else _find_common(self.above, above)
        if len(self.examples) < _EXAMPLES or file.path < self.examples[-1]:
            self.examples = heapq.nsmallest(_EXAMPLES, [*self.examples, file.path])


def _find_common(one: bytes, other: bytes) -> bytes:
    """Return the deepest folder above both, or one of them if it is above the other."""
    steps = []
    for a, b in zip(one.split(b"/"), other.split(b"/"), strict=False):
        if a != b:
            break
        steps.append(a)
    return b"/".join(steps)


def _describe(
    c: sa.Connection,
    set_id: int,
    set_name: str,
    members: Sequence[SetMember],
    gathered: Mapping[Wrong, FoundFiles],
) -> Iterator[Draft]:
    listed = [JudgedFile(file, votes, *wrong) for wrong, found in gathered.items() for file, votes in found.listed]
    box_ids = {one.id: one.box_id for one in members}
    wanted = {(box_ids[one.member_id], one.number) for judged in listed for one in judged.file.findings}
    words = SetWords(set_id, set_name, members, _load_bodies(c, wanted))
    yield from map(words.describe, listed)
    for wrong, found in gathered.items():
        if found.are_many:
            yield words.describe_many(*wrong, found.count, found.above or b"", found.examples)


def _load_bodies(c: sa.Connection, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], JsonObject]:
    """Return the objects of findings as their boxes reported them, by box and number."""
    numbers: dict[int, list[int]] = {}
    for box_id, number in sorted(wanted):
        numbers.setdefault(box_id, []).append(number)
    found: dict[tuple[int, int], JsonObject] = {}
    for box_id, all_numbers in numbers.items():
        for start in range(0, len(all_numbers), _BODIES_AT_ONCE):
            is_wanted = box_finding.c.number.in_(all_numbers[start : start + _BODIES_AT_ONCE])
            # The same number may stand beside it, resolved: of a stream that was replaced.
            where = box_finding.c.box_id == box_id, box_finding.c.resolved_at.is_(None), is_wanted
            for number, body in c.execute(sa.select(box_finding.c.number, box_finding.c.body).where(*where)):
                found[box_id, number] = read_body(body)
    return found
