"""
Read what a vote needs from the database: members, what boxes found in files, and the rows of files.

V1  From the top of the tree only folders are looked into whose subtrees hold other files on some members
    (``subtree_content``), or whose digests are being computed. Of these, only files are read that differ.
V2  Memory does not grow with the number of files, only with that of folders that differ and of unresolved findings of
    the boxes.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

import sqlalchemy as sa

from integrity.errors import ConfigError
from integrity.files.excludes import Excludes
from integrity.hub.database import chunked
from integrity.hub.replica_verdict import (
    HOLDING_OF_KIND,
    ContentDifferences,
    Holding,
    ReplicaView,
    Version,
    find_differences,
    find_holding,
)
from integrity.hub.schema import box, box_finding, file, folder, member, member_folder
from integrity.hub.stored_files import find_former
from integrity.model import FindingKind, ReadHow
from integrity.reporting.digest_tree import FROZEN, READ_HOWS, ReportedFile

FILES_AT_ONCE = 500
FOLDERS_AT_ONCE = 1000
"""Differing folders that one query looks into: what it sorts and joins fits into the memory of the database."""

_LONGEST_PATTERNS = 64 << 10
"""Of all patterns of a root; those behind exclude nothing. A long list has a few thousand characters."""

_PATTERNS_TAKE_S = 60.0
_ROWS_AT_ONCE = 5000
FROM_DISK = frozenset(READ_HOWS.index(how) for how in (ReadHow.DIRECT, ReadHow.DROPPED))


@dataclass(frozen=True, slots=True)
class SetMember:
    """
    A member of a replica set.

    Attributes:
        reported_at: when its box last reported all that it has recorded, by the clock of the hub.
        clock_ahead_s: the clock of the box minus that of the hub.
    """

    id: int
    box_id: int
    root_id: int
    box_name: str
    hostname: str
    path: bytes
    url: str
    excludes: Excludes
    reported_at: int
    clock_ahead_s: int


def is_verified(row: ReportedFile) -> bool:
    """Return whether the content of a file was certainly read from the disk, and right."""
    return row.verified_at is not None and row.read_how in FROM_DISK


class BoxFinding(NamedTuple):
    """An unresolved finding of a box about a file."""

    member_id: int
    number: int
    kind: FindingKind


FileKey = tuple[bytes, bytes]
"""Path of the folder, and name."""


class DisputedFile(NamedTuple):
    """A file to judge: of each member what it reports, if anything, and the findings of its box."""

    key: FileKey
    views: tuple[ReplicaView, ...]
    rows: tuple[ReportedFile | None, ...]
    findings: tuple[BoxFinding, ...]

    @property
    def path(self) -> bytes:
        return join_key(self.key)


class _FileGroup(NamedTuple):
    folder_id: int
    folder: bytes
    name: bytes
    rows: dict[int, ReportedFile]

    @property
    def key(self) -> FileKey:
        return self.folder, self.name

    @property
    def has_several_contents(self) -> bool:
        return len({(row.size_bytes, row.md5, row.xxh3_128) for row in self.rows.values()}) > 1


_NONE: frozenset[Version] = frozenset()

_Former = Mapping[tuple[int, int, bytes], frozenset[Version]]
_MOST_CASES = 10_000

Verdict = TypeVar("Verdict")
Judge = Callable[[Sequence[ReplicaView], ContentDifferences], Verdict]

Noted = Mapping[FileKey, tuple[BoxFinding, ...]]
"""The files about whose content boxes have unresolved findings."""


def join_key(key: FileKey) -> bytes:
    above, name = key
    return above + b"/" + name if above else name


def find_members(c: sa.Connection, set_id: int) -> list[SetMember]:
    """Return the members that vote: those that reported all their files once, and whose box may report."""
    query = (
        sa.select(member, box.c.name, box.c.hostname, box.c.clock_ahead_s, box.c.seen_at)
        .join(box, box.c.id == member.c.box_id)
        .where(member.c.set_id == set_id, member.c.removed_at.is_(None), box.c.revoked_at.is_(None))
        .where(member.c.settled_at.is_not(None))
        .order_by(box.c.name, member.c.id)
    )
    return [_to_member(row) for row in c.execute(query)]


def _to_member(row: sa.Row[Any]) -> SetMember:
    is_settled = row.settled_tree is not None and row.settled_tree == row.announced_tree
    return SetMember(
        id=row.id,
        box_id=row.box_id,
        root_id=row.root_id,
        box_name=row.name,
        hostname=row.hostname or row.name,
        path=bytes(row.path),
        url=row.url,
        excludes=_read_excludes(row.excludes),
        reported_at=row.seen_at if is_settled and row.seen_at is not None else row.settled_at,
        clock_ahead_s=row.clock_ahead_s or 0,
    )


def _read_excludes(text: str) -> Excludes:
    """Read the patterns of a box; a pattern that this version does not understand excludes nothing."""
    patterns: list[str] = []
    length = 0
    for pattern in json.loads(text):
        length += len(pattern)
        try:
            Excludes([pattern])
        except (ConfigError, RecursionError, OverflowError):
            continue
        if length <= _LONGEST_PATTERNS:
            patterns.append(pattern)
    return _ReportedExcludes(patterns) if patterns else Excludes()


class _ReportedExcludes(Excludes):
    """Patterns of a box, which may be made to take forever: after a minute of a vote they exclude nothing more."""

    __slots__ = ("_left_s",)

    def __init__(self, patterns: Sequence[str]) -> None:
        super().__init__(patterns)
        self._left_s = _PATTERNS_TAKE_S

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        if self._left_s <= 0:
            return False
        began_at = time.thread_time()
        is_excluded = super().matches(path, name, is_folder)
        self._left_s -= time.thread_time() - began_at
        return is_excluded


def load_files(
    c: sa.Connection, set_id: int, members: Sequence[SetMember], keys: Sequence[FileKey], noted: Noted
) -> Iterator[DisputedFile]:
    """Return some files; those that no member has are left out."""
    views = _ReplicaViews(members)
    for groups in chunked(_find_groups(c, set_id, members, keys), FILES_AT_ONCE):
        former = _find_former(c, members, groups)
        for group in groups:
            about = noted.get(group.key, ())
            rows = tuple(group.rows.get(one.id) for one in members)
            yield DisputedFile(group.key, views.make(group, former, about), rows, about)


def judge_disagreeing(
    c: sa.Connection, members: Sequence[SetMember], skipped: Collection[FileKey], judge: Judge[Verdict]
) -> Iterator[tuple[FileKey, Verdict]]:
    """
    Judge the files that some members lack or have with other content.

    Args:
        skipped: files to leave out: those about which boxes have findings.
        judge: is called once for all files of which everything is the same that a verdict depends on.
    """
    cases = _Cases(members, judge)
    groups = (one for one in _find_disagreeing(c, members) if one.key not in skipped)
    for some in chunked(groups, FILES_AT_ONCE):
        former = _find_former(c, members, some)
        yield from ((one.key, cases.judge(one, former)) for one in some)


class _Cases(Generic[Verdict]):
    """
    Judges each case once: a million files that are missing on one box are one case, or a handful.

    A verdict depends on who has the file, verified or not, whose report is older than whose record, and on how the
    contents differ; not on the contents, nor on the times themselves. That is so only without findings of boxes.
    """

    def __init__(self, members: Sequence[SetMember], judge: Judge[Verdict]) -> None:
        self._views = _ReplicaViews(members)
        self._judge = judge
        self._reported = sorted({one.reported_at for one in members})
        self._known: dict[tuple[object, ...], Verdict] = {}

    def judge(self, group: _FileGroup, former: _Former) -> Verdict:
        """Judge a file. ``former``: of files with several contents."""
        views, differences = None, {}
        case: tuple[object, ...] = tuple(map(self._describe, self._views.members, self._views.excluded, repeat(group)))
        if group.has_several_contents:
            views = self._views.make(group, former)
            differences = find_differences(views)
            case = *case, *differences.items()
        verdict = self._known.get(case)
        if verdict is None:
            if len(self._known) >= _MOST_CASES:
                self._known.clear()
            verdict = self._known[case] = self._judge(views or self._views.make(group, former), differences)
        return verdict

    def _describe(self, one: SetMember, excluded: ExcludedFiles, group: _FileGroup) -> object:
        row = group.rows.get(one.id)
        if row is None:
            return excluded.has(group.key)
        return row.flags & FROZEN, is_verified(row), bisect_left(self._reported, row.recorded_at - one.clock_ahead_s)


class _ReplicaViews:
    """Says what members report of a file, in the form that is judged."""

    def __init__(self, members: Sequence[SetMember]) -> None:
        self.members = members
        self.excluded = [ExcludedFiles(one.excludes) for one in members]

    def make(self, group: _FileGroup, former: _Former, about: Collection[BoxFinding] = ()) -> tuple[ReplicaView, ...]:
        """Return a view for each member. ``former``: of files with several contents. ``about``: findings of boxes."""
        return tuple(
            _make_view(
                one,
                group.rows.get(one.id),
                [finding.kind for finding in about if finding.member_id == one.id] if about else (),
                former.get((one.id, group.folder_id, group.name), _NONE),
                is_excluded=one.id not in group.rows and excluded.has(group.key),
            )
            for one, excluded in zip(self.members, self.excluded, strict=True)
        )


class ExcludedFiles:
    """Says which files the patterns of a member leave out. Many files of one folder come one after the other."""

    def __init__(self, excludes: Excludes) -> None:
        self._excludes = excludes
        self._folder: tuple[bytes, bool] = b"", False

    def has(self, key: FileKey) -> bool:
        above, name = key
        if self._folder[0] != above:
            self._folder = above, bool(above) and self._excludes.covers(above, is_folder=True)
        return self._folder[1] or self._excludes.matches(join_key(key), name, False)


def find_differing_folders(c: sa.Connection, members: Sequence[SetMember]) -> list[int]:
    """Return the folders that some members lack or have with other files (V1)."""
    table, ids = member_folder.c, [one.id for one in members]
    has_other_files = sa.or_(sa.func.count() < len(ids), sa.func.count(table.content.distinct()) > 1)
    known = sa.func.sum(sa.case((table.subtree_content.is_not(None), table.is_checked), else_=0))
    holds_other_files = sa.or_(known < len(ids), sa.func.count(table.subtree_content.distinct()) > 1)
    # Not the column, nor the numbers themselves below: SQLite would go through all folders in their order.
    number = table.folder_id + sa.literal_column("0")
    columns = number, has_other_files, holds_other_files
    query = sa.select(*columns).where(table.member_id.in_(ids)).group_by(number)
    query = query.having(sa.or_(has_other_files, holds_other_files))
    found, level = list[int](), [table.parent_id.is_(None)]
    while level:
        rows = [row for where in level for row in c.execute(query.where(where))]
        found += [folder_id for folder_id, differs, _ in rows if differs]
        below = [folder_id for folder_id, _, is_below in rows if is_below]
        level = [
            table.parent_id.in_(sa.select(folder.c.id).where(folder.c.id.in_(some)))
            for some in chunked(below, FOLDERS_AT_ONCE)
        ]
    return sorted(found)


def find_noted(c: sa.Connection, members: Sequence[SetMember]) -> dict[FileKey, tuple[BoxFinding, ...]]:
    """Return the files about whose content boxes have unresolved findings."""
    found: dict[FileKey, tuple[BoxFinding, ...]] = {}
    for one in members:
        query = sa.select(box_finding.c.path, box_finding.c.number, box_finding.c.kind).where(
            box_finding.c.box_id == one.box_id,
            box_finding.c.root_id == one.root_id,
            box_finding.c.path.is_not(None),
            box_finding.c.resolved_at.is_(None),
            box_finding.c.kind.in_(HOLDING_OF_KIND),
        )
        for path, number, kind in c.execute(query.order_by(box_finding.c.number)):
            above, _, name = bytes(path).rpartition(b"/")
            finding = BoxFinding(one.id, number, FindingKind(kind))
            found[above, name] = (*found.get((above, name), ()), finding)
    return found


def _find_groups(
    c: sa.Connection, set_id: int, members: Sequence[SetMember], keys: Sequence[FileKey]
) -> Iterator[_FileGroup]:
    ids = [one.id for one in members]
    for some in chunked(keys, FILES_AT_ONCE):
        known = sa.select(folder.c.path, folder.c.id).where(
            folder.c.set_id == set_id, folder.c.path.in_({above for above, _ in some})
        )
        folder_ids = {bytes(path): number for path, number in c.execute(known)}
        groups = {key: _FileGroup(folder_ids.get(key[0], 0), *key, {}) for key in some}
        query = _select_rows().where(
            file.c.member_id.in_(ids), file.c.folder_id.in_(folder_ids.values()), file.c.name.in_({k[1] for k in some})
        )
        for row in c.execute(query):
            group = groups.get((bytes(row.path), bytes(row.name)))
            if group is not None:
                group.rows[row.member_id] = ReportedFile(*row[3:])
        yield from (group for group in groups.values() if group.rows)  # else: a folder, or gone everywhere


def _find_disagreeing(c: sa.Connection, members: Sequence[SetMember]) -> Iterator[_FileGroup]:
    ids, folder_ids = [one.id for one in members], find_differing_folders(c, members)
    for numbers in chunked(folder_ids, FOLDERS_AT_ONCE):
        is_here = file.c.member_id.in_(ids), file.c.folder_id.in_(numbers)
        contents = (sa.func.count(file.c[name].distinct()) > 1 for name in ("size_bytes", "md5", "xxh3_128"))
        keys = sa.select(file.c.folder_id, file.c.name).where(*is_here).group_by(file.c.folder_id, file.c.name)
        some = keys.having(sa.or_(sa.func.count() < len(ids), *contents)).subquery().c
        is_one = file.c.folder_id == some.folder_id, file.c.name == some.name
        # The folders again: planners do not conclude from those of the keys that no other rows are needed.
        query = _select_rows().join(some.name.table, sa.and_(*is_one)).where(*is_here)
        rows = c.execute(query.order_by(file.c.folder_id, file.c.name), execution_options={"yield_per": _ROWS_AT_ONCE})
        for (folder_id, path, name), of_file in groupby(rows, itemgetter(0, 1, 3)):
            yield _FileGroup(folder_id, bytes(path), bytes(name), {row[2]: ReportedFile(*row[3:]) for row in of_file})


def _select_rows() -> sa.Select[Any]:
    columns = [file.c[name] for name in ReportedFile._fields]
    return sa.select(file.c.folder_id, folder.c.path, file.c.member_id, *columns).join(
        folder, folder.c.id == file.c.folder_id
    )


def _find_former(c: sa.Connection, members: Sequence[SetMember], groups: Sequence[_FileGroup]) -> _Former:
    keys = [(one.folder_id, one.name) for one in groups if one.has_several_contents]
    return find_former(c, [one.id for one in members], keys) if keys else {}


def _make_view(
    one: SetMember,
    row: ReportedFile | None,
    kinds: Collection[FindingKind],
    former: frozenset[Version],
    *,
    is_excluded: bool,
) -> ReplicaView:
    """Return what a member reports of a file in the form that is judged: with times by the clock of the hub."""
    if row is None:  # whatever was found in it before
        holding = Holding.EXCLUDED if is_excluded else Holding.ABSENT
        return ReplicaView(holding, one.reported_at, clock_ahead_s=one.clock_ahead_s)
    holding = find_holding(kinds) if kinds else Holding.GOOD
    if holding is Holding.GOOD and row.flags & FROZEN:
        holding = Holding.DOUBTFUL  # its finding has not arrived yet
    return ReplicaView(
        holding,
        one.reported_at,
        Version(row.size_bytes, row.md5, row.xxh3_128),
        row.mtime_ns,
        one.clock_ahead_s,
        row.recorded_at - one.clock_ahead_s,
        row.verified_at - one.clock_ahead_s if is_verified(row) and row.verified_at is not None else None,
        former,
    )
