"""
Read what a vote needs from the database: members, what boxes found in files, and the rows of files.

V1  Folders whose ``content`` digests are equal on all members are never joined with the files in them.
V2  Memory does not grow with the number of files, only with that of unresolved findings of the boxes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.errors import ConfigError
from integrity.files.excludes import Excludes
from integrity.hub.former import find_former
from integrity.hub.replica_verdict import HOLDING_OF_KIND, Holding, ReplicaView, Version, do_differ, find_holding
from integrity.hub.schema import box, box_finding, file, folder, member, member_folder
from integrity.model import FindingKind, ReadHow
from integrity.reporting.digest_tree import FROZEN, READ_HOWS

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


class ReplicaRow(NamedTuple):
    """What a member reports of a file, by its own clock; as in the table ``file``."""

    member_id: int
    size_bytes: int
    mtime_ns: int
    md5: bytes | None
    xxh3_128: bytes | None
    recorded_at: int
    verified_at: int | None
    read_how: int
    flags: int


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
    rows: tuple[ReplicaRow | None, ...]
    findings: tuple[BoxFinding, ...]

    @property
    def path(self) -> bytes:
        """Relative to the root."""
        return join_key(self.key)


class _FileGroup(NamedTuple):
    folder_id: int
    folder: bytes
    name: bytes
    rows: dict[int, ReplicaRow]


_NONE: frozenset[Version] = frozenset()

Noted = Mapping[FileKey, tuple[BoxFinding, ...]]
"""The files about whose content boxes have unresolved findings."""


def join_key(key: FileKey) -> bytes:
    """Return the path of a file."""
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
        """Return whether an entry is excluded; see ``Excludes``."""
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
    groups = _find_groups(c, set_id, members, keys)
    while some := list(islice(groups, FILES_AT_ONCE)):
        yield from _complete(c, members, some, noted)


def find_disagreeing(
    c: sa.Connection, members: Sequence[SetMember], skipped: Collection[FileKey]
) -> Iterator[DisputedFile]:
    """Return the files that some members lack or have with other content, in sets of any size."""
    groups = (one for one in _find_disagreeing(c, members) if (one.folder, one.name) not in skipped)
    while some := list(islice(groups, FILES_AT_ONCE)):
        yield from _complete(c, members, some, {})


def find_differing_folders(c: sa.Connection, members: Sequence[SetMember]) -> list[int]:
    """Return the folders that some members lack or have with other files (V1)."""
    ids = [one.id for one in members]
    number, content = member_folder.c.folder_id, member_folder.c.content
    is_differing = sa.or_(sa.func.count() < len(ids), sa.func.count(content.distinct()) > 1)
    query = sa.select(number).where(member_folder.c.member_id.in_(ids)).group_by(number).having(is_differing)
    return sorted(c.execute(query).scalars())


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
    for start in range(0, len(keys), FILES_AT_ONCE):
        some = keys[start : start + FILES_AT_ONCE]
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
                group.rows[row.member_id] = ReplicaRow(*row[3:])
        yield from (group for group in groups.values() if group.rows)  # else: a folder, or gone everywhere


def _find_disagreeing(c: sa.Connection, members: Sequence[SetMember]) -> Iterator[_FileGroup]:
    ids, folder_ids = [one.id for one in members], find_differing_folders(c, members)
    for start in range(0, len(folder_ids), FOLDERS_AT_ONCE):
        is_here = file.c.member_id.in_(ids), file.c.folder_id.in_(folder_ids[start : start + FOLDERS_AT_ONCE])
        query = _select_rows().where(*is_here).order_by(file.c.folder_id, file.c.name)
        rows = c.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE})
        for (folder_id, path, name), of_file in groupby(rows, itemgetter(0, 1, 2)):
            group = _FileGroup(folder_id, bytes(path), bytes(name), {row[3]: ReplicaRow(*row[3:]) for row in of_file})
            if len(group.rows) < len(ids) or _do_any_differ(group.rows.values()):
                yield group


def _do_any_differ(rows: Iterable[ReplicaRow]) -> bool:
    versions = {Version(row.size_bytes, row.md5, row.xxh3_128) for row in rows}
    return any(do_differ(one, other) for one, other in combinations(versions, 2))


def _select_rows() -> sa.Select[Any]:
    columns = [file.c[name] for name in ReplicaRow._fields]
    return sa.select(file.c.folder_id, folder.c.path, file.c.name, *columns).join(
        folder, folder.c.id == file.c.folder_id
    )


def _complete(
    c: sa.Connection,
    members: Sequence[SetMember],
    groups: Sequence[_FileGroup],
    findings: Noted,
) -> Iterator[DisputedFile]:
    """Add findings and former contents to some files."""
    ids = [one.id for one in members]
    keys = [(one.folder_id, one.name) for one in groups if _has_several_contents(one)]
    former = find_former(c, ids, keys) if keys else {}
    for group in groups:
        about = findings.get((group.folder, group.name), ())
        path = join_key((group.folder, group.name))
        views = []
        for one in members:
            kinds = [finding.kind for finding in about if finding.member_id == one.id] if about else ()
            before = former.get((one.id, group.folder_id, group.name), _NONE) if former else _NONE
            views.append(make_view(one, path, group.rows.get(one.id), kinds, before))
        yield DisputedFile((group.folder, group.name), tuple(views), tuple(map(group.rows.get, ids)), about)


def _has_several_contents(group: _FileGroup) -> bool:
    return len({(row.size_bytes, row.md5, row.xxh3_128) for row in group.rows.values()}) > 1


def make_view(
    one: SetMember, path: bytes, row: ReplicaRow | None, kinds: Collection[FindingKind], former: frozenset[Version]
) -> ReplicaView:
    """Return what a member reports of a file in the form that is judged: with times by the clock of the hub."""
    if row is None:  # whatever was found in it before
        holding = Holding.EXCLUDED if one.excludes.covers(path) else Holding.ABSENT
        return ReplicaView(holding, one.reported_at, clock_ahead_s=one.clock_ahead_s)
    holding = find_holding(kinds) if kinds else Holding.GOOD
    if holding is Holding.GOOD and row.flags & FROZEN:
        holding = Holding.DOUBTFUL  # its finding has not arrived yet
    is_verified = row.verified_at is not None and row.read_how in FROM_DISK
    return ReplicaView(
        holding,
        one.reported_at,
        Version(row.size_bytes, row.md5, row.xxh3_128),
        row.mtime_ns,
        one.clock_ahead_s,
        row.recorded_at - one.clock_ahead_s,
        row.verified_at - one.clock_ahead_s if is_verified and row.verified_at is not None else None,
        former,
    )
