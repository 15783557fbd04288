"""
How all boxes and replica sets are: what each box last reported, how long ago, and what votes found about it.

The database sums up; a page gets the boxes and sets that it shows, and one row for each group of the others. Rows of
files are never read. A box is called well only if it said so itself, not longer ago than ``silent_after``, every root
keeps its promise as of now, and no vote found damage on it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.coverage import Age
from integrity.hub.findings import UNRESOLVED
from integrity.hub.kinds import HUB_GRAVITY, HUB_KINDS, HubFindingKind
from integrity.hub.schema import box, box_finding, finding, member, replica_set
from integrity.kinds import Weight
from integrity.views.sentence import Gravity

_DAY_S = 86400
_CLOCK_SLACK_S = 3600
STATE_PROBLEM = "problem"
MOST_SHOWN = 60
"""Boxes of a group that the overview shows."""

_MOST_S = 1 << 52
_PROBLEMS = [kind.value for kind, entry in HUB_KINDS.items() if entry.weight is Weight.PROBLEM]


@dataclass(frozen=True, slots=True)
class OpenFindings:
    """
    Unresolved findings of the hub, by kind. False if there are none.

    Attributes:
        findings: how many there are: entries of a list.
        subjects: how many files, boxes or trees they are about, which is what sentences count: one finding may stand
            for all files of a box.
    """

    findings: Counter[HubFindingKind] = field(default_factory=Counter)
    subjects: Counter[HubFindingKind] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.findings)

    def add(self, kind: HubFindingKind, findings: int, subjects: int) -> None:
        self.findings[kind] += findings
        self.subjects[kind] += subjects

    def describe(self, weight: Weight | None = None) -> str:
        """Return what they are about, the gravest kind first: "3 damaged files, 1 box does not report"."""
        wanted = [kind for kind in self.subjects if weight is None or HUB_KINDS[kind].weight is weight]
        wanted.sort(key=HUB_GRAVITY.__getitem__)
        return ", ".join(HUB_KINDS[kind].phrase.of(self.subjects[kind]) for kind in wanted)


NOTHING_OPEN = OpenFindings()
"""Of most boxes and sets. Nobody adds to it."""


class BoxHealth(StrEnum):
    """How a box is, the worst first."""

    PROBLEM = "problem"  # it reports damage, or a vote found some on it
    SILENT = "silent"  # it has not reported for longer than silent_after
    GAP = "gap"  # something on it could not be checked, or is overdue
    WAITING = "waiting"  # it was added, and has not reported yet
    WORKING = "working"  # it reads shared trees, and reports no folders of its own
    OK = "ok"
    REVOKED = "revoked"  # its token was revoked

    @property
    def words(self) -> str:
        return _HEALTH_WORDS[self]


_HEALTH_WORDS = {
    BoxHealth.PROBLEM: "problem",
    BoxHealth.SILENT: "stopped reporting",
    BoxHealth.GAP: "not everything is checked",
    BoxHealth.WAITING: "has not reported yet",
    BoxHealth.WORKING: "reads shared trees",
    BoxHealth.OK: "well",
    BoxHealth.REVOKED: "may not report",
}
_HEALTHS = tuple(BoxHealth)


class BoxRoot(NamedTuple):
    """
    A root as its box reports it; see the columns of ``schema.member``.

    Attributes:
        oldest_at: when the file was verified that waits longest, by the clock of the hub; None: no file.
        age: of that verification, as text; None: the root has no files.
        is_complete: the hub has all files of the root as the box last announced them.
    """

    id: int
    box_id: int
    root_id: int
    set_id: int | None
    path: bytes
    url: str
    policy: str
    verify_every_s: int
    file_count: int
    byte_count: int
    settled_at: int | None
    set_name: str | None
    box_name: str
    oldest_at: int | None
    age: str | None
    is_complete: bool


class BoxStatus(NamedTuple):
    """
    A box, what it reports, and what is unresolved about it; see the columns of ``schema.box``.

    Attributes:
        root_count, files, bytes: of the roots that it reports.
        overdue_count: of them, those that break their promise as of now, whether or not the box has said so.
        oldest_at: when the file was verified that waits longest, by the clock of the hub; None: no file.
        promise_s: the longest ``verify_every`` of a root.
        finding_count: unresolved findings that it reported.
        hub_count: unresolved findings of the hub about it.
        silence_s: for how long it has been silent; None: it never called. Calls of its workers count only of a box that
            never reported: those of another one may go on while its reports have stopped.
        is_silent: for longer than ``silent_after``.
        health: how it is. What is red stays red while a box is silent.
        roots, hub_found: read only of boxes that are shown.
    """

    id: int
    name: str
    created_at: int
    revoked_at: int | None
    seen_at: int | None
    clock_ahead_s: int | None
    hostname: str | None
    version: str | None
    sentence: str | None
    state: str | None
    worked_at: int | None
    root_count: int
    overdue_count: int
    files: int
    bytes: int
    oldest_at: int | None
    promise_s: int
    finding_count: int
    hub_count: int
    silence_s: int | None
    is_silent: bool
    health: BoxHealth
    roots: tuple[BoxRoot, ...] = ()
    hub_found: OpenFindings = NOTHING_OPEN


class BoxOrder(StrEnum):
    """In which order boxes are listed; in each, by name."""

    NAME = "name"
    HEALTH = "health"  # the worst first
    REPORTED = "reported"  # the longest silence first
    VERIFIED = "verified"  # the oldest verification first
    FINDINGS = "findings"  # the most first
    SIZE = "size"  # the largest first

    @property
    def words(self) -> str:
        return _ORDERS[self][0]


_ORDERS: dict[BoxOrder, tuple[str, Callable[[Any], sa.ColumnElement[Any]]]] = {
    BoxOrder.NAME: ("name", lambda one: one.name),
    BoxOrder.HEALTH: ("state, the worst first", lambda one: one.health),
    BoxOrder.REPORTED: ("last report, the longest silence first", lambda one: sa.func.coalesce(one.seen_at, 0)),
    BoxOrder.VERIFIED: ("verification, the oldest first", lambda one: sa.func.coalesce(one.oldest_at, 2 * _MOST_S)),
    BoxOrder.FINDINGS: ("findings, the most first", lambda one: -one.finding_count - one.hub_count),
    BoxOrder.SIZE: ("size, the largest first", lambda one: -one.bytes),
}


def _bound(column: sa.ColumnElement[int]) -> sa.ColumnElement[int]:
    """Return a time, or a span, that a box reports: any 64 bits, of which differences may have more."""
    return sa.case((column > _MOST_S, _MOST_S), (column < -_MOST_S, -_MOST_S), else_=column)


_OLDEST_AT = _bound(member.c.oldest_verified_at) - _bound(sa.func.coalesce(box.c.clock_ahead_s, 0))
_SILENT_SINCE = sa.func.coalesce(box.c.seen_at, box.c.worked_at)


def _select_age(now: int) -> sa.ColumnElement[str | None]:
    age_s, every_s = now - _OLDEST_AT, _bound(member.c.verify_every_s)
    is_kept = age_s.between(-_CLOCK_SLACK_S, every_s)  # a time to come proves nothing
    return sa.case(
        (sa.and_(member.c.oldest_verified_at.is_(None), member.c.file_count == 0), None),
        (member.c.oldest_verified_at.is_(None), Age.NEVER.value),
        (~is_kept, Age.OVERDUE.value),
        (age_s <= _DAY_S, Age.DAY.value),
        (age_s <= 7 * _DAY_S, Age.WEEK.value),
        else_=Age.KEPT.value,
    )


def _sum(column: sa.ColumnElement[int]) -> sa.ColumnElement[Any]:
    """Sum up what boxes report: any numbers, whose sum may have more than 64 bits."""
    return sa.func.coalesce(sa.func.sum(sa.cast(column, sa.Double)), 0)


def _select_statuses(now: int, silent_after_s: int, ids: Collection[int] | None = None) -> sa.CTE:
    """Select the status of all boxes, or of some: the columns of ``BoxStatus``, and ``health`` as a number."""

    def of_some(column: sa.Column[Any]) -> tuple[sa.ColumnElement[bool], ...]:
        return () if ids is None else (column.in_(ids),)

    def count_all(*more: sa.ColumnElement[Any], of: sa.Column[Any], where: sa.ColumnElement[bool]) -> sa.Subquery:
        query = sa.select(of, sa.func.count().label("number"), *more)
        return query.where(where, *of_some(of)).group_by(of).subquery()

    sums = {
        "overdue_count": sa.func.count().filter(_select_age(now) == Age.OVERDUE.value),
        "files": _sum(member.c.file_count),
        "bytes": _sum(member.c.byte_count),
        "oldest_at": sa.func.min(_OLDEST_AT),
        "promise_s": sa.func.max(_bound(member.c.verify_every_s)),
    }
    roots = sa.select(
        member.c.box_id, sa.func.count().label("root_count"), *(one.label(name) for name, one in sums.items())
    )
    roots = roots.join(box).where(member.c.removed_at.is_(None), *of_some(member.c.box_id)).group_by(member.c.box_id)
    of_roots = roots.subquery()
    own = count_all(of=box_finding.c.box_id, where=box_finding.c.resolved_at.is_(None))
    problems = sa.func.count().filter(finding.c.kind.in_(_PROBLEMS)).label("problems")
    found = count_all(problems, of=finding.c.box_id, where=UNRESOLVED)
    silence_s = sa.case((now < _SILENT_SINCE, 0), else_=now - _SILENT_SINCE)
    is_silent = sa.func.coalesce(silence_s > silent_after_s, sa.false())
    numbers = {"root_count": 0, "overdue_count": 0, "files": 0, "bytes": 0, "oldest_at": None, "promise_s": 0}
    totals = {
        name: of_roots.c[name] if empty is None else sa.func.coalesce(of_roots.c[name], empty)
        for name, empty in numbers.items()
    }
    hub_count = sa.func.coalesce(found.c.number, 0)
    is_well = box.c.state == "ok", totals["root_count"] > 0, totals["overdue_count"] == 0, hub_count == 0
    first_that_holds = (
        (box.c.revoked_at.is_not(None), BoxHealth.REVOKED),
        (sa.or_(box.c.state == STATE_PROBLEM, found.c.problems > 0), BoxHealth.PROBLEM),
        (_SILENT_SINCE.is_(None), BoxHealth.WAITING),
        (is_silent, BoxHealth.SILENT),
        (box.c.seen_at.is_(None), BoxHealth.WORKING),
        (sa.and_(*is_well), BoxHealth.OK),
        (sa.true(), BoxHealth.GAP),
    )
    labeled = totals | {
        "finding_count": sa.func.coalesce(own.c.number, 0),
        "hub_count": hub_count,
        "silence_s": silence_s,
        "is_silent": is_silent,
        "health": sa.case(*((when, _HEALTHS.index(health)) for when, health in first_that_holds)),
    }
    names = [name for name in BoxStatus._fields if name in box.c]
    query = sa.select(*(box.c[name] for name in names), *(one.label(name) for name, one in labeled.items()))
    joined = box.outerjoin(of_roots, of_roots.c.box_id == box.c.id).outerjoin(own, own.c.box_id == box.c.id)
    joined = joined.outerjoin(found, found.c.box_id == box.c.id)
    return query.select_from(joined).where(*of_some(box.c.id)).cte("status")


_SUMS = slice(BoxStatus._fields.index("files"), BoxStatus._fields.index("bytes") + 1)
_LAST = BoxStatus._fields.index("health")


def _to_status(row: Any) -> BoxStatus:
    values: list[Any] = [*row[: _SUMS.start], *map(int, row[_SUMS]), *row[_SUMS.stop : _LAST], _HEALTHS[row[_LAST]]]
    return BoxStatus(*values)


def load_boxes(
    c: sa.Connection,
    now: int,
    silent_after_s: int,
    *,
    ids: Collection[int] | None = None,
    order: BoxOrder = BoxOrder.NAME,
    part: str = "",
    health: BoxHealth | None = None,
    after: str = "",
    limit: int | None = None,
) -> list[BoxStatus]:
    """
    Return the status of boxes, revoked ones too.

    Args:
        ids: only these.
        part: only those with this in their name.
        health: only those that are like this.
        after: only what stands behind the box of this name, wherever that is by now.
        limit: so many at most.
    """
    one = _select_statuses(now, silent_after_s, ids).c
    key = _ORDERS[order][1](one)
    query = sa.select(*one).order_by(key, one.name).limit(limit)
    if part:
        query = query.where(one.name.icontains(part, autoescape=True))
    if health is not None:
        query = query.where(one.health == _HEALTHS.index(health))
    if after:
        last = sa.select(key).where(one.name == after).scalar_subquery()
        query = query.where(sa.or_(key > last, sa.and_(key == last, one.name > after)))
    return [_to_status(row) for row in c.execute(query).all()]


def add_details(c: sa.Connection, boxes: Sequence[BoxStatus], now: int) -> list[BoxStatus]:
    """Add their roots, and what is unresolved about them, to some boxes."""
    ids = [one.id for one in boxes]
    roots: defaultdict[int, list[BoxRoot]] = defaultdict(list)
    for root in find_roots(c, now, member.c.box_id.in_(ids)):
        roots[root.box_id].append(root)
    found = count_open_by(c, finding.c.box_id, finding.c.box_id.in_(ids))
    return [one._replace(roots=tuple(roots[one.id]), hub_found=found.get(one.id, NOTHING_OPEN)) for one in boxes]


class BoxGroup(NamedTuple):
    """Boxes that are alike: in health, silence, and what they say. Sums, longest times, and ``first``: some by name."""

    number: int
    files: int
    bytes: int
    promise_s: int
    silence_s: int
    first: list[BoxStatus]


def load_groups(c: sa.Connection, now: int, silent_after_s: int) -> list[BoxGroup]:
    """Return all boxes in groups, the worst first."""
    one = _select_statuses(now, silent_after_s).c
    alike = one.health, one.is_silent, one.state
    sums = (
        sa.func.count(),
        *(sa.func.sum(one[name]) for name in ("files", "bytes")),
        *(sa.func.max(one[name]) for name in ("promise_s", "silence_s")),
    )
    columns = [total.over(partition_by=alike).label(f"all_{at}") for at, total in enumerate(sums)]
    place = sa.func.row_number().over(partition_by=alike, order_by=one.name).label("place")
    ranked = sa.select(*one, *columns, place).subquery()
    rows = c.execute(sa.select(ranked).where(ranked.c.place <= MOST_SHOWN).order_by(ranked.c.health, ranked.c.name))
    groups: dict[tuple[Any, ...], BoxGroup] = {}
    for row in rows:
        totals = [int(getattr(row, f"all_{at}") or 0) for at in range(len(sums))]
        group = groups.setdefault((row.health, row.is_silent, row.state), BoxGroup._make([*totals, []]))
        group.first.append(_to_status(row))
    return list(groups.values())


def find_roots(c: sa.Connection, now: int, *where: sa.ColumnElement[bool]) -> list[BoxRoot]:
    """Return some of the roots that boxes report now, in the order of their paths."""
    others = {
        "set_name": replica_set.c.name,
        "box_name": box.c.name,
        "oldest_at": _OLDEST_AT,
        "age": _select_age(now),
        "is_complete": sa.func.coalesce(member.c.announced_tree == member.c.settled_tree, sa.false()),
    }
    columns = (others[name].label(name) if name in others else member.c[name] for name in BoxRoot._fields)
    query = sa.select(*columns).select_from(member.join(box).outerjoin(replica_set))
    rows = c.execute(query.where(member.c.removed_at.is_(None), *where).order_by(member.c.path, member.c.id))
    return [BoxRoot._make(row) for row in rows]


class SetStatus(NamedTuple):
    """
    A replica set; see the columns of ``schema.replica_set``.

    Attributes:
        member_count, silent_count, unsettled_count: roots that boxes report in it, those of silent boxes, and those of
            which not all files were reported yet.
        members, found: read only of sets that are shown.
    """

    id: int
    name: str
    created_at: int
    voted_at: int | None
    vote_ms: int | None
    member_count: int
    silent_count: int
    unsettled_count: int
    members: tuple[BoxRoot, ...] = ()
    found: OpenFindings = NOTHING_OPEN


class Agreement(NamedTuple):
    """Whether the members of a set are known to agree; gravity None: nothing can be said."""

    gravity: Gravity | None
    text: str


def describe_agreement(one: SetStatus) -> Agreement:
    """Say whether the members of a set agree, as far as it is known."""
    if one.found:
        return Agreement(Gravity.PROBLEM, one.found.describe())
    if one.member_count < 2:
        return Agreement(None, "nothing to compare with")
    if one.voted_at is None:
        return Agreement(None, "not compared yet")
    if one.silent_count:
        silent = count_boxes(one.silent_count)
        return Agreement(Gravity.WARNING, f"no difference is known, but {silent} stopped reporting")
    if one.unsettled_count:
        return Agreement(Gravity.WARNING, "no difference is known, but not all files were reported yet")
    return Agreement(Gravity.GOOD, "all boxes agree")


def count_boxes(number: int) -> str:
    return f"{number:,} {'box' if number == 1 else 'boxes'}"


def _select_sets(now: int, silent_after_s: int, *where: sa.ColumnElement[bool]) -> sa.Subquery:
    """Select sets: the columns of ``SetStatus``, and whether anything is open about them."""
    number, some = sa.func.count(), sa.select(replica_set.c.id).where(*where)
    counts = (
        number.label("member_count"),
        number.filter(now - _SILENT_SINCE > silent_after_s).label("silent_count"),
        number.filter(member.c.settled_at.is_(None)).label("unsettled_count"),
    )
    is_its = member.c.removed_at.is_(None), member.c.set_id.in_(some) if where else member.c.set_id.is_not(None)
    of_set = sa.select(member.c.set_id, *counts).join(box).where(*is_its).group_by(member.c.set_id).subquery()
    names = [name for name in SetStatus._fields if name in replica_set.c]
    has_open = sa.exists().where(finding.c.set_id == replica_set.c.id, UNRESOLVED).label("has_open")
    columns = [sa.func.coalesce(of_set.c[one.name], 0).label(one.name) for one in counts]
    query = sa.select(*(replica_set.c[name] for name in names), *columns, has_open)
    return query.outerjoin(of_set, of_set.c.set_id == replica_set.c.id).where(*where).subquery()


def load_sets(
    c: sa.Connection,
    now: int,
    silent_after_s: int,
    *where: sa.ColumnElement[bool],
    limit: int | None = None,
    order: Sequence[str] = ("name",),
) -> list[SetStatus]:
    """
    Return replica sets with their members, those without members too.

    Args:
        where: conditions on ``schema.replica_set``.
        order: columns; ``has_open``: those with open findings first.
    """
    one = _select_sets(now, silent_after_s, *where).c
    keys = [one[name].desc() if name == "has_open" else one[name] for name in order]
    rows = c.execute(sa.select(*one).order_by(*keys).limit(limit)).all()
    ids = [row.id for row in rows]
    members: defaultdict[int | None, list[BoxRoot]] = defaultdict(list)
    for root in find_roots(c, now, member.c.set_id.in_(ids)):
        members[root.set_id].append(root)
    found = count_open_by(c, finding.c.set_id, finding.c.set_id.in_(ids))
    return [
        SetStatus(*row[:-1])._replace(members=tuple(members[row.id]), found=found.get(row.id, NOTHING_OPEN))
        for row in rows
    ]


class SetComparison(StrEnum):
    """How far the members of a set were compared."""

    ALONE = "alone"  # there is at most one
    NEVER = "never"
    PARTLY = "partly"  # not all files were reported yet
    WHOLE = "whole"


class SetGroup(NamedTuple):
    """Replica sets that were compared as far: how many, when the first of them was, and the names of some."""

    number: int
    voted_at: int | None
    names: list[str]


def load_set_groups(c: sa.Connection, now: int, silent_after_s: int) -> dict[SetComparison, SetGroup]:
    """Return all replica sets in groups; one is left out if there are no such sets."""
    one = _select_sets(now, silent_after_s).c
    state = sa.case(
        (one.member_count < 2, SetComparison.ALONE.value),
        (one.voted_at.is_(None), SetComparison.NEVER.value),
        (one.unsettled_count > 0, SetComparison.PARTLY.value),
        else_=SetComparison.WHOLE.value,
    )
    place = sa.func.row_number().over(partition_by=state, order_by=one.name).label("place")
    number = sa.func.count().over(partition_by=state).label("number")
    oldest = sa.func.min(one.voted_at).over(partition_by=state).label("oldest")
    ranked = sa.select(one.name, state.label("state"), place, number, oldest).subquery()
    groups: dict[SetComparison, SetGroup] = {}
    for row in c.execute(sa.select(ranked).where(ranked.c.place <= MOST_SHOWN).order_by(ranked.c.name)):
        group = groups.setdefault(SetComparison(row.state), SetGroup(row.number, row.oldest, []))
        group.names.append(row.name)
    return groups


def count_open(c: sa.Connection, *where: sa.ColumnElement[bool]) -> OpenFindings:
    return count_open_by(c, sa.null(), *where)[None]


def count_open_by(
    c: sa.Connection, key: sa.ColumnElement[Any], *where: sa.ColumnElement[bool]
) -> defaultdict[int | None, OpenFindings]:
    """Count the unresolved findings for each value of a column of ``finding``."""
    groups = [finding.c.kind] if isinstance(key, sa.Null) else [key, finding.c.kind]
    query = sa.select(key, finding.c.kind, sa.func.count(), sa.func.sum(finding.c.subjects))
    found: defaultdict[int | None, OpenFindings] = defaultdict(OpenFindings)
    for value, kind, findings, subjects in c.execute(query.where(UNRESOLVED, *where).group_by(*groups)):
        found[value].add(HubFindingKind(kind), findings, int(subjects))
    return found
