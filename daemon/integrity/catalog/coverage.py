"""
How long ago the files of a root were last verified, and when they are due again.

A file with an open finding that explains why it could not be verified is *uncovered*. It is counted separately, and is
neither verified nor overdue, because a longer window would not help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.rows import NEVER_AT, select_last_check, unless_ahead
from integrity.catalog.schema import file, finding, folder
from integrity.kinds import DOUBTS
from integrity.model import FindingState, ReadHow, RootId

_DAY_S = 86400
_DAYS = (0, 1, 7, 14, 30, 60, 90, 180, 365)
_NO_DOUBT = -1
_DOUBTS = sorted(kind.value for kind in DOUBTS)


class Age(StrEnum):
    """How long ago a file was last verified. Each file has one."""

    DAY = "day"  # within a day
    WEEK = "week"  # within a week
    KEPT = "kept"  # longer ago, but within verify_every
    OVERDUE = "overdue"
    NEVER = "never"  # not re-read since it was recorded
    UNCOVERED = "uncovered"  # with an open finding that explains it


class AgeShare(NamedTuple):
    """The files of one age."""

    age: Age
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Verification state of a root. Files that were never re-read count from their recording."""

    files: int
    bytes: int
    oldest_at: int | None  # of all files that are not uncovered; None: no such file
    never_verified_files: int
    never_verified_bytes: int
    overdue_files: int
    overdue_bytes: int
    uncovered_files: int  # with an open finding that explains it
    uncovered_bytes: int
    cache_possible_files: int  # verified, but possibly from the page cache
    cache_possible_bytes: int
    verified_bytes: int  # re-read from the disk within verify_every, and intact
    suspects: int
    histogram: tuple[tuple[int, int | None, int, int], ...]  # (from day, before day or None, files, bytes)
    ages: tuple[AgeShare, ...]  # in the order of Age; none is left out

    @property
    def verified_files(self) -> int:
        """The number of files that were verified in time, and found as they were recorded."""
        return sum(share.files for share in self.ages if share.age in (Age.DAY, Age.WEEK, Age.KEPT))

    @property
    def is_oldest_known(self) -> bool:
        """Return whether ``oldest_at`` is known: there is a file, and its time was not ahead of the clock."""
        return self.oldest_at not in (None, NEVER_AT)


_AGES = {0: Age.UNCOVERED, 1: Age.NEVER, 2: Age.OVERDUE}
"""What keeps a file from being verified, in the order in which it is asked."""

_SUMS = tuple(field.name for field in fields(Coverage) if field.name not in ("oldest_at", "histogram", "ages"))


@dataclass(frozen=True, slots=True)
class DueDay:
    """Files that were last verified or recorded on one day."""

    oldest_at: int  # oldest time of them
    files: int
    bytes: int


def coverage(c: sa.Connection, root_id: RootId, *, now: int, verify_every_s: int) -> Coverage:
    """Summarize a root in one pass over its files: 1 s for a million."""
    last, is_never = _last_check(now), unless_ahead(file.c.verified_at, now).is_(None)
    # LIMIT keeps SQLite from flattening the subquery, which would compute these columns at each use below.
    each = _of_root(
        sa.select(
            *(file.c.size_bytes, file.c.is_suspect, last.label("last"), is_never.label("is_never")),
            _is_uncovered(root_id).label("is_uncovered"),
            (file.c.read_how == ReadHow.CACHE_POSSIBLE.value).label("is_cached"),
        ),
        root_id,
    )
    by_age = _sum_up(each.limit(-1).subquery(), now, verify_every_s)
    rows = list(c.execute(by_age))
    ends = (*_DAYS[1:], None)
    return Coverage(
        **{name: sum(getattr(row, name) for row in rows) for name in _SUMS},
        oldest_at=min((row.oldest_at for row in rows if row.oldest_at is not None), default=None),
        histogram=tuple(
            (day, ends[number], *_count([row for row in rows if row.bucket == number]))
            for number, day in enumerate(_DAYS)
        ),
        ages=tuple(AgeShare(age, *_count([row for row in rows if _find_age(row) is age])) for age in Age),
    )


def _count(rows: Sequence[sa.Row[Any]]) -> tuple[int, int]:
    """Return the files of some rows, and their bytes."""
    return sum(row.files for row in rows), sum(row.bytes for row in rows)


def _find_age(row: sa.Row[Any]) -> Age:
    if row.doubt != _NO_DOUBT:
        return _AGES[row.doubt]
    return Age.DAY if row.bucket == 0 else Age.WEEK if row.bucket == 1 else Age.KEPT


def _sum_up(each: sa.Subquery, now: int, verify_every_s: int) -> sa.Select[Any]:
    """Sum up the files of each histogram bucket, apart by what keeps them from being verified."""
    is_never, is_uncovered, is_cached = each.c.is_never, each.c.is_uncovered, each.c.is_cached
    is_overdue = each.c.last < now - verify_every_s
    conditions = {
        "": sa.true(),
        "never_verified_": is_never,
        "overdue_": sa.and_(is_overdue, ~is_uncovered),
        "uncovered_": is_uncovered,
        "cache_possible_": sa.and_(~is_never, is_cached),
    }
    is_verified = sa.and_(~is_never, ~is_cached, ~is_overdue, ~is_uncovered)
    begins = [(each.c.last > now - day * _DAY_S, number) for number, day in enumerate(_DAYS[1:])]
    bucket = sa.case(*begins, else_=len(_DAYS) - 1).label("bucket")
    doubts = zip((is_uncovered, is_never, is_overdue), _AGES, strict=True)
    doubt = sa.case(*((condition, number) for condition, number in doubts), else_=_NO_DOUBT).label("doubt")

    def size(condition: sa.ColumnElement[bool]) -> sa.ColumnElement[int]:
        return sa.func.coalesce(sa.func.sum(each.c.size_bytes).filter(condition), 0)

    return sa.select(
        bucket,
        doubt,
        *(sa.func.count().filter(condition).label(f"{name}files") for name, condition in conditions.items()),
        *(size(condition).label(f"{name}bytes") for name, condition in conditions.items()),
        size(is_verified).label("verified_bytes"),
        sa.func.count().filter(each.c.is_suspect == 1).label("suspects"),
        sa.func.min(each.c.last).filter(~is_uncovered).label("oldest_at"),
    ).group_by(bucket, doubt)


def find_due_days(c: sa.Connection, root_id: RootId, *, now: int) -> list[DueDay]:
    """Group a root's files by the day of their last verification or recording, oldest first; skip uncovered files."""
    last = _last_check(now)
    day = (last // _DAY_S).label("day")
    query = sa.select(sa.func.min(last), sa.func.count(), sa.func.sum(file.c.size_bytes)).group_by(day)
    rows = c.execute(_of_root(query.where(~_is_uncovered(root_id)), root_id).order_by(day))
    return [DueDay(int(row[0]), int(row[1]), int(row[2])) for row in rows]


def _last_check(now: int) -> sa.ColumnElement[int]:
    return select_last_check(file.c.verified_at, file.c.recorded_at, now)


def _is_uncovered(root_id: RootId) -> sa.ColumnElement[bool]:
    with_open_findings = sa.select(finding.c.file_id).where(
        finding.c.root_id == root_id,
        finding.c.state != FindingState.RESOLVED.value,
        finding.c.kind.in_(_DOUBTS),
        finding.c.file_id.is_not(None),
    )
    return sa.or_(file.c.is_frozen == 1, file.c.id.in_(with_open_findings))


def _of_root(query: sa.Select[*tuple[Any, ...]], root_id: RootId) -> sa.Select[*tuple[Any, ...]]:
    joined = file.join(folder, file.c.folder_id == folder.c.id)
    return query.select_from(joined).where(folder.c.root_id == root_id)
