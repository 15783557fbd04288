"""
Find the files that the members of a set disagree on, and judge them, without reading their rows.

The database reduces the rows of a file to all that its verdict depends on: who has it, verified or not, whose report is
older than whose record, and for each two members which content is the older one. That is a *pattern*: some bits for
each member and each pair. A million files have a handful of patterns, and each pattern is judged once.

P1  A pattern is judged as the rows would be: its views differ from those of ``replica_rows`` only in values that no
    rule looks at.
P2  Nothing here depends on what boxes found: files with findings are judged by their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Generic, NamedTuple, TypeVar

import sqlalchemy as sa

from integrity.hub.replica_rows import (
    FOLDERS_AT_ONCE,
    FROM_DISK,
    FileKey,
    SetMember,
    find_differing_folders,
    join_key,
)
from integrity.hub.replica_verdict import (
    MTIME_SLACK_NS,
    ContentDifference,
    ContentDifferences,
    ContentOrder,
    Holding,
    ReplicaView,
    Version,
)
from integrity.hub.schema import file, folder, former_file, member
from integrity.reporting.digest_tree import FROZEN

MOST_MEMBERS = 16
"""The query has as many joins, and bits for each two of them. Larger sets are judged by their rows."""

_ROWS_AT_ONCE = 5000
_MOST_KNOWN = 10_000
_WORD_BITS = 62
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_SOME_VERSION = Version(0, None, None)

Verdict = TypeVar("Verdict")
Judge = Callable[[Sequence[ReplicaView], ContentDifferences], Verdict]
_Condition = sa.ColumnElement[bool]


def judge_disagreeing(
    c: sa.Connection, members: Sequence[SetMember], skipped: Collection[FileKey], judge: Judge[Verdict]
) -> Iterator[tuple[FileKey, Verdict]]:
    """
    Judge the files that some members lack or have with other content.

    Args:
        skipped: files to leave out.
        judge: is called once for each pattern.
    """
    patterns = _KnownPatterns(members, judge)
    folder_ids = find_differing_folders(c, members)
    for start in range(0, len(folder_ids), FOLDERS_AT_ONCE):
        some = folder_ids[start : start + FOLDERS_AT_ONCE]
        paths = {number: bytes(path) for number, path in c.execute(_select_paths(some))}
        query = _PatternQuery(members, _find_members_with_former(c, members, some)).select(some)
        for folder_id, name, *words in c.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}):
            key = paths[folder_id], bytes(name)
            if key not in skipped:
                yield key, patterns.judge(key, tuple(words))


def _select_paths(folder_ids: Collection[int]) -> sa.Select[Any]:
    return sa.select(folder.c.id, folder.c.path).where(folder.c.id.in_(folder_ids))


def _find_members_with_former(c: sa.Connection, members: Sequence[SetMember], folder_ids: Collection[int]) -> set[int]:
    """Return the members that had other content in some folders: the database does not look for that of others."""
    is_former = sa.exists().where(former_file.c.member_id == member.c.id, former_file.c.folder_id.in_(folder_ids))
    return set(c.execute(sa.select(member.c.id).where(member.c.id.in_(one.id for one in members), is_former)).scalars())


class _Bits(NamedTuple):
    """A condition, and flags that mean something only where it is true."""

    condition: _Condition
    flags: tuple[_Condition, ...]


class _Place(NamedTuple):
    """Where the bits of a condition and its flags are: the number of the word, and the lowest bit in it."""

    word: int
    lowest: int

    def read(self, words: Sequence[int], count: int) -> list[bool] | None:
        """Return so many flags; None: the condition is false."""
        bits = words[self.word] >> self.lowest
        return [bool(bits >> number & 1) for number in range(1, count + 1)] if bits & 1 else None


def _lay_out(counts: Iterable[int]) -> list[_Place]:
    """Return places for conditions with so many flags each."""
    places, word, lowest = [], 0, 0
    for count in counts:
        if lowest + count + 1 > _WORD_BITS:
            word, lowest = word + 1, 0
        places.append(_Place(word, lowest))
        lowest += count + 1
    return places


class _Layout:
    """
    What the bits of a pattern are: one group for each member, then one for each pair of them.

    Attributes:
        reported: the times of the last reports of all members, each once; a record is later than some of them.
        pairs: indexes of members, the higher one first.
    """

    def __init__(self, members: Sequence[SetMember]) -> None:
        self.reported = sorted({one.reported_at for one in members})
        self.pairs = [(high, low) for low, high in combinations(range(len(members)), 2)]
        self.of_member = 2 + len(self.reported)
        self.of_pair = 5
        self.places = _lay_out([self.of_member] * len(members) + [self.of_pair] * len(self.pairs))


class _PatternQuery:
    """
    The query for the patterns of files.

    Args:
        with_former: the members whose former contents matter.
    """

    def __init__(self, members: Sequence[SetMember], with_former: Collection[int]) -> None:
        self._members = members
        self._with_former = with_former
        self._layout = _Layout(members)
        self._rows = [file.alias(f"of_{index}").c for index in range(len(members))]

    def select(self, folder_ids: Sequence[int]) -> sa.Select[Any]:
        """Return the query: folder, name, and the words of the pattern of each file that members disagree on."""
        ids = [one.id for one in self._members]
        folders: Any = sa.bindparam("folders", folder_ids, expanding=True)
        each = sa.select(file.c.folder_id, file.c.name).where(file.c.member_id.in_(ids), file.c.folder_id.in_(folders))
        key = each.group_by(file.c.folder_id, file.c.name).subquery().c
        joined: Any = key.folder_id.table
        for one, row in zip(self._members, self._rows, strict=True):
            is_same = row.member_id == one.id, row.folder_id == key.folder_id, row.name == key.name
            # The folders again: planners do not conclude from those of the keys that no other rows are needed.
            joined = joined.outerjoin(row.member_id.table, sa.and_(*is_same, row.folder_id.in_(folders)))
        groups = [self._describe_member(index) for index in range(len(ids))]
        groups += [self._describe_pair(high, low) for high, low in self._layout.pairs]
        disagree = [row.name.is_(None) for row in self._rows] + [one.condition for one in groups[len(ids) :]]
        return sa.select(key.folder_id, key.name, *self._pack(groups)).select_from(joined).where(sa.or_(*disagree))

    def _pack(self, groups: Sequence[_Bits]) -> list[sa.ColumnElement[int]]:
        words: dict[int, list[sa.ColumnElement[int]]] = {}
        for group, place in zip(groups, self._layout.places, strict=True):
            flags = [
                sa.case((flag, _number(1 << place.lowest + at)), else_=_number(0))
                for at, flag in enumerate(group.flags, 1)
            ]
            value = sum(flags, _number(1 << place.lowest))
            words.setdefault(place.word, []).append(sa.case((group.condition, value), else_=_number(0)))
        return [sum(values[1:], values[0]) for values in words.values()]

    def _describe_member(self, index: int) -> _Bits:
        row, one = self._rows[index], self._members[index]
        is_verified = sa.and_(row.verified_at.is_not(None), row.read_how.in_(FROM_DISK))
        late = [row.recorded_at > _number(at + one.clock_ahead_s) for at in self._layout.reported]
        return _Bits(row.name.is_not(None), (row.flags.bitwise_and(FROZEN) != 0, is_verified, *late))

    def _describe_pair(self, high: int, low: int) -> _Bits:
        one, other = self._rows[high], self._rows[low]
        differ = sa.or_(one.size_bytes != other.size_bytes, one.md5 != other.md5, one.xxh3_128 != other.xxh3_128)
        older, newer = self._is_older(high, low), self._is_older(low, high)
        former = self._had(high, other), self._had(low, one), self._had_common(high, low)
        return _Bits(differ, (older, newer, *former))

    def _is_older(self, index: int, at: int) -> _Condition:
        """Return whether the mtime of one member is earlier than that of another, whichever clock set either."""
        ahead = -self._members[index].clock_ahead_s, self._members[at].clock_ahead_s
        gap_ns = MTIME_SLACK_NS + sum(max(0, one) for one in ahead) * 10**9
        one, other = self._rows[index].mtime_ns, self._rows[at].mtime_ns
        # Not one comparison: the difference may be smaller than the smallest number.
        return sa.case((other < _number(_SMALLEST + gap_ns), sa.false()), else_=one < other - _number(gap_ns))

    def _had(self, index: int, now: Any) -> _Condition:
        """Return whether a member had, before, the content that another one has now."""
        if self._members[index].id not in self._with_former:
            return sa.false()
        former = former_file.alias().c
        return sa.exists().where(*self._is_former(former, index), _do_agree(former, now))

    def _had_common(self, high: int, low: int) -> _Condition:
        """Return whether two members had the same content before."""
        if not {self._members[high].id, self._members[low].id} <= set(self._with_former):
            return sa.false()
        one, other = former_file.alias().c, former_file.alias().c
        is_it = *self._is_former(one, high), *self._is_former(other, low)
        return sa.exists().where(*is_it, _do_agree(one, other))

    def _is_former(self, former: Any, index: int) -> tuple[_Condition, ...]:
        row = self._rows[index]
        is_it = former.member_id == self._members[index].id
        return is_it, former.folder_id == row.folder_id, former.name == row.name


def _number(value: int) -> sa.ColumnElement[int]:
    return sa.literal(max(_SMALLEST, min(_LARGEST, value)), sa.BigInteger)


def _do_agree(one: Any, other: Any) -> _Condition:
    """Return what ``replica_verdict.do_agree`` does, of two rows."""
    md5, xxh3 = one.md5 == other.md5, one.xxh3_128 == other.xxh3_128
    is_equal = sa.or_(sa.and_(md5, sa.func.coalesce(xxh3, sa.true())), sa.and_(xxh3, sa.func.coalesce(md5, sa.true())))
    return sa.and_(one.size_bytes == other.size_bytes, is_equal)


@dataclass(frozen=True, slots=True)
class _Pattern(Generic[Verdict]):
    """A pattern; ``verdicts``: by the members that exclude the file."""

    words: tuple[int, ...]
    absent: tuple[int, ...]
    verdicts: dict[tuple[int, ...], Verdict] = field(default_factory=dict)


class _KnownPatterns(Generic[Verdict]):
    """Judges each pattern once."""

    def __init__(self, members: Sequence[SetMember], judge: Judge[Verdict]) -> None:
        self._members = members
        self._judge = judge
        self._layout = _Layout(members)
        self._known: dict[tuple[int, ...], _Pattern[Verdict]] = {}
        self._excluded_folders: dict[int, tuple[bytes, bool]] = {}

    def judge(self, key: FileKey, words: tuple[int, ...]) -> Verdict:
        """Judge a file."""
        pattern = self._known.get(words)
        if pattern is None:
            pattern = self._learn(words)
        excluded = tuple(at for at in pattern.absent if self._is_excluded(at, key)) if pattern.absent else ()
        if excluded not in pattern.verdicts:
            pattern.verdicts[excluded] = self._judge(*self._read(words, excluded))
        return pattern.verdicts[excluded]

    def _learn(self, words: tuple[int, ...]) -> _Pattern[Verdict]:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        places = self._layout.places[: len(self._members)]
        absent = tuple(at for at, place in enumerate(places) if place.read(words, 0) is None)
        return self._known.setdefault(words, _Pattern(words, absent))

    def _is_excluded(self, index: int, key: FileKey) -> bool:
        above, name = key
        excludes = self._members[index].excludes
        known = self._excluded_folders.get(index)
        if known is None or known[0] != above:
            known = above, bool(above) and excludes.covers(above, is_folder=True)
            self._excluded_folders[index] = known
        return known[1] or excludes.matches(join_key(key), name, False)

    def _read(
        self, words: tuple[int, ...], excluded: Collection[int]
    ) -> tuple[list[ReplicaView], dict[tuple[int, int], ContentDifference]]:
        """Return what the bits say (P1); times are replaced by their order."""
        layout, views, differences = self._layout, [], {}
        places = iter(layout.places)
        for at, one in enumerate(self._members):
            reported = layout.reported.index(one.reported_at)
            flags = next(places).read(words, layout.of_member)
            if flags is None:
                views.append(ReplicaView(Holding.EXCLUDED if at in excluded else Holding.ABSENT, reported))
                continue
            is_doubtful, is_verified, *late = flags
            holding, verified_at = Holding.DOUBTFUL if is_doubtful else Holding.GOOD, 0 if is_verified else None
            views.append(ReplicaView(holding, reported, _SOME_VERSION, recorded_at=sum(late), verified_at=verified_at))
        for pair in layout.pairs:
            flags = next(places).read(words, layout.of_pair)
            if flags is not None:
                older, newer, *former = flags
                order = ContentOrder.OLDER if older else ContentOrder.NEWER if newer else ContentOrder.UNDECIDED
                differences[pair] = ContentDifference(order, *former)
        return views, differences
