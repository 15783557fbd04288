"""
Hold the members of a replica set against each other, and record what is wrong as findings.

A vote is a pure function of the rows that the boxes reported, and of nothing that an earlier vote concluded. It judges
only files whose content differs, that a member lacks, or in which a box found damage.

I1  One kind of finding about one box is listed file by file up to a limit; beyond, one finding stands for all of them:
    a member that was emptied is one incident. So memory does not grow with the number of files.
I2  A vote reads one state of the database, and writes only its findings, in a transaction of their own: however many
    files differ, boxes can report meanwhile.
I3  What an earlier vote saw never replaces what a later one did.
"""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from integrity.hub import findings
from integrity.hub.box_reports import JsonObject, read_body
from integrity.hub.database import HubDatabase, chunked
from integrity.hub.kinds import HUB_KINDS, VOTED, HubCertainty, HubFindingKind
from integrity.hub.members import read_changes
from integrity.hub.renames import Rename, group_renames, pair_names
from integrity.hub.replica_rows import (
    DisputedFile,
    FileKey,
    Noted,
    SetMember,
    find_members,
    find_noted,
    join_key,
    judge_disagreeing,
    load_files,
)
from integrity.hub.replica_verdict import (
    ContentDifferences,
    MemberVote,
    ReplicaView,
    are_reported,
    find_differences,
    judge_replicas,
)
from integrity.hub.replica_words import Draft, JudgedFile, SetWords
from integrity.hub.schema import box_finding, finding, replica_set
from integrity.hub.stored_files import find_former_of_paths

MOST_RENAMED = 100_000
"""Of the files that members lack so many are looked for under other names: their contents are kept in memory."""

_EXAMPLES = 3


class VoteResult(NamedTuple):
    """
    All that is wrong in a set.

    Attributes:
        is_waiting: files were left open, because a box has not reported since they were recorded elsewhere.
        changes: of the set, that the vote saw.
    """

    drafts: list[Draft]
    is_waiting: bool
    changes: int


class Wrong(NamedTuple):
    """What is wrong with one file: at a member, by its index, or (None) among several."""

    kind: HubFindingKind
    member: int | None


class FileVerdict(NamedTuple):
    """All that is wrong with one file; ``is_waiting``: a box has not reported since it was recorded elsewhere."""

    wrongs: tuple[Wrong, ...]
    is_waiting: bool


def run_vote(database: HubDatabase, set_id: int, now: int, *, clock: Callable[[], float] = time.monotonic) -> None:
    """
    Judge a replica set, and bring its findings up to date (I2).

    Args:
        clock: seconds, to measure how long it takes.
    """
    started = clock()
    with database.read() as c:
        result = vote(c, set_id)
    with database.transaction() as c:
        record_vote(c, set_id, result, now, clock() - started)


def record_vote(c: sa.Connection, set_id: int, result: VoteResult, now: int, took_s: float) -> None:
    """Bring the findings of a set up to date. ``now``: when its vote began, seconds UTC."""
    is_it = replica_set.c.id == set_id
    last = sa.select(replica_set.c.voted_changes, replica_set.c.voted_at).where(is_it).with_for_update()
    row = c.execute(last).first()
    if row is None:
        return  # no box reports it any more, and it was forgotten
    if (row.voted_changes, row.voted_at or 0) > (result.changes, now):
        return  # I3
    about = finding.c.set_id == set_id, finding.c.kind.in_([kind.value for kind in VOTED])
    findings.record_drafts(c, about, result.drafts, now, findings.RESOLVED_BY_VOTE)
    findings.forget_resolved(c, finding.c.set_id == set_id)
    values = {"voted_at": now, "vote_ms": round(took_s * 1000)}
    values |= {"voted_changes": result.changes, "is_waiting": int(result.is_waiting)}
    c.execute(sa.update(replica_set).where(is_it).values(**values))


def vote(c: sa.Connection, set_id: int) -> VoteResult:
    """Judge a set, in a transaction that sees one state of the database. A single member has nobody to vote with."""
    changes = read_changes(c, set_id)
    members = find_members(c, set_id)
    if len(members) < 2:
        return VoteResult([], is_waiting=False, changes=changes)
    gathered: dict[Wrong, FoundFiles] = {}
    lacking: dict[FileKey, list[int]] = {}
    is_waiting = False
    noted = find_noted(c, members)
    for key, verdict in _judge_all(c, set_id, members, noted):
        is_waiting = is_waiting or verdict.is_waiting
        for wrong in verdict.wrongs:
            is_missing, index = wrong.kind is HubFindingKind.REPLICA_MISSING, wrong.member
            if is_missing and index is not None and (key in lacking or len(lacking) < MOST_RENAMED):
                lacking.setdefault(key, []).append(index)
            else:
                _gather(gathered, key, wrong)
    renames = _find_renames(c, set_id, members, lacking)
    for key, members_without in lacking.items():
        for index in members_without:
            _gather(gathered, key, Wrong(HubFindingKind.REPLICA_MISSING, index))
    return VoteResult(list(_describe(c, set_id, members, noted, gathered, renames)), is_waiting, changes)


def _gather(gathered: dict[Wrong, FoundFiles], key: FileKey, wrong: Wrong) -> None:
    found = gathered.get(wrong)
    if found is None:
        found = gathered[wrong] = FoundFiles(HUB_KINDS[wrong.kind].listed_at_most)
    found.add(key)


def _find_renames(
    c: sa.Connection, set_id: int, members: Sequence[SetMember], lacking: dict[FileKey, list[int]]
) -> list[Rename]:
    """Return what has different names, and take it from the files that members lack."""
    if len(set(map(tuple, lacking.values()))) < 2:
        return []  # all are missing on the same members, which have nothing that the others lack
    pairs = list(pair_names(load_files(c, set_id, members, list(lacking), {}), lacking))
    for one, other, _ in pairs:
        lacking[one.key] = [index for index in lacking[one.key] if index not in other.having]
        lacking[other.key] = []
    indexes = {each.id: index for index, each in enumerate(members)}
    keys = [name.key for pair in pairs for name in (pair.one, pair.other)]
    had = find_former_of_paths(c, set_id, indexes, keys)
    return group_renames(
        pairs, {key: [(indexes[number], version) for number, version in some] for key, some in had.items()}
    )


def _judge_all(
    c: sa.Connection, set_id: int, members: Sequence[SetMember], noted: Noted
) -> Iterator[tuple[FileKey, FileVerdict]]:
    """Judge each file once: those about which boxes have findings, and all others that differ."""
    for file in load_files(c, set_id, members, list(noted), noted):
        yield file.key, _judge(file.views, find_differences(file.views))
    yield from judge_disagreeing(c, members, noted.keys(), _judge)


def _judge(views: Sequence[ReplicaView], differences: ContentDifferences) -> FileVerdict:
    votes = judge_replicas(views, differences)
    return FileVerdict(tuple(find_wrong(votes)), is_waiting=not are_reported(views))


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
        self._folder: bytes | None = None  # of the last file
        self.listed: list[FileKey] = []
        self.count = 0
        self.above: bytes | None = None  # the deepest folder that all of them lie in
        self.examples: list[bytes] = []

    @property
    def are_many(self) -> bool:
        """Say whether one finding stands for all."""
        return self.count > self._at_most

    def add(self, key: FileKey) -> None:
        self.count += 1
        if self.are_many:
            self.listed.clear()
        else:
            self.listed.append(key)
        if key[0] != self._folder:
            self._folder = key[0]
            self.above = key[0] if self.above is None else _find_common(self.above, key[0])
        if len(self.examples) < _EXAMPLES or join_key(key) < self.examples[-1]:
            self.examples = heapq.nsmallest(_EXAMPLES, [*self.examples, join_key(key)])


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
    members: Sequence[SetMember],
    noted: Noted,
    gathered: Mapping[Wrong, FoundFiles],
    renames: Sequence[Rename],
) -> Iterator[Draft]:
    """Describe what is wrong; the rows of files that are listed are read for it."""
    keys = sorted({key for found in gathered.values() for key in found.listed})
    files = {file.key: file for file in load_files(c, set_id, members, keys, noted)}
    votes = {key: judge_replicas(file.views) for key, file in files.items()}
    name = c.execute(sa.select(replica_set.c.name).where(replica_set.c.id == set_id)).scalar_one()
    words = SetWords(set_id, name, members, _load_bodies(c, _find_numbers(members, files.values())))
    for wrong, found in gathered.items():
        if found.are_many:
            yield words.describe_many(*wrong, found.count, found.above or b"", found.examples)
        yield from (words.describe(JudgedFile(files[key], votes[key], *wrong)) for key in sorted(found.listed))
    yield from _describe_renames(words, renames)


def _describe_renames(words: SetWords, renames: Iterable[Rename]) -> Iterator[Draft]:
    """Describe what has different names; of many on the same box there is one finding (I1)."""
    kind = HubFindingKind.REPLICA_RENAMED
    on: defaultdict[int | None, list[Rename]] = defaultdict(list)
    for one in renames:
        on[one.renamed_on_one].append(one)
    for index, some in on.items():
        if len(some) <= HUB_KINDS[kind].listed_at_most:
            yield from map(words.describe_rename, some)
            continue
        found = FoundFiles(0)
        for pair in (pair for one in some for pair in one.files):
            found.add(pair.other.key)
        yield words.describe_many(kind, index, found.count, found.above or b"", found.examples)


def _find_numbers(members: Sequence[SetMember], files: Iterable[DisputedFile]) -> set[tuple[int, int]]:
    """Return the findings of boxes about some files, by box and number."""
    box_ids = {one.id: one.box_id for one in members}
    return {(box_ids[one.member_id], one.number) for file in files for one in file.findings}


def _load_bodies(c: sa.Connection, wanted: Iterable[tuple[int, int]]) -> dict[tuple[int, int], JsonObject]:
    """Return the objects of findings as their boxes reported them, by box and number."""
    numbers: dict[int, list[int]] = {}
    for box_id, number in sorted(wanted):
        numbers.setdefault(box_id, []).append(number)
    found: dict[tuple[int, int], JsonObject] = {}
    for box_id, all_numbers in numbers.items():
        # The same number may stand beside it, resolved: of a stream that was replaced.
        mine = box_finding.c.box_id == box_id, box_finding.c.resolved_at.is_(None)
        query = sa.select(box_finding.c.number, box_finding.c.body).where(*mine)
        for some in chunked(all_numbers):
            for number, body in c.execute(query.where(box_finding.c.number.in_(some))):
                found[box_id, number] = read_body(body)
    return found
