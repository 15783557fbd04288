"""How long ago each byte of a root was last verified, and the promise made about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from integrity.catalog.tables import file, folder
from integrity.model import ReadHow, RootId

_DAY_S = 86400
_DAYS = (0, 1, 7, 14, 30, 60, 90, 180, 365)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What is known of a root's verifications; ages count from the recording for files that were never re-read."""

    files: int
    bytes: int
    oldest_at: int | None  # the longest that any file has waited; None without files
    never_verified_files: int
    never_verified_bytes: int
    overdue_files: int
    overdue_bytes: int
    cache_possible_files: int  # verified, but memory may have answered
    suspects: int
    histogram: tuple[tuple[int, int | None, int, int], ...]  # (from day, before day or None, files, bytes)


def coverage(c: sa.Connection, root_id: RootId, *, now: int, verify_every_s: int) -> Coverage:
    """Sum up a root: two passes over its files, 0.3 s for a million."""
    looked_at = sa.func.coalesce(file.c.verified_at, file.c.recorded_at)
    is_never = file.c.verified_at.is_(None)
    is_cached = sa.and_(~is_never, file.c.read_how == ReadHow.CACHE_POSSIBLE.value)
    columns = [
        *_count(sa.true(), "files", "bytes"),
        sa.func.min(looked_at).label("oldest_at"),
        *_count(is_never, "never_verified_files", "never_verified_bytes"),
        *_count(looked_at < now - verify_every_s, "overdue_files", "overdue_bytes"),
        sa.func.count().filter(is_cached).label("cache_possible_files"),
        sa.func.count().filter(file.c.is_suspect == 1).label("suspects"),
    ]
    row = c.execute(_of_root(sa.select(*columns), root_id)).one()
    return Coverage(**row._asdict(), histogram=_histogram(c, root_id, looked_at, now))


def _count(condition: sa.ColumnElement[bool], files: str, size: str) -> tuple[sa.Label[int], sa.Label[int]]:
    """Count the files that meet a condition, and their bytes, under these names."""
    total = sa.func.coalesce(sa.func.sum(file.c.size_bytes).filter(condition), 0)
    return sa.func.count().filter(condition).label(files), total.label(size)


def _of_root(query: sa.Select[Any], root_id: RootId) -> sa.Select[Any]:
    joined = file.join(folder, file.c.folder_id == folder.c.id)
    return query.select_from(joined).where(folder.c.root_id == root_id)


def _histogram(
    c: sa.Connection, root_id: RootId, looked_at: sa.ColumnElement[int], now: int
) -> tuple[tuple[int, int | None, int, int], ...]:
    begins = [(looked_at > now - day * _DAY_S, number) for number, day in enumerate(_DAYS[1:])]
    bucket = sa.case(*begins, else_=len(_DAYS) - 1).label("bucket")
    query = sa.select(bucket, sa.func.count(), sa.func.sum(file.c.size_bytes)).group_by(bucket)
    found = {row[0]: (int(row[1]), int(row[2])) for row in c.execute(_of_root(query, root_id))}
    ends = (*_DAYS[1:], None)
    return tuple((day, ends[number], *found.get(number, (0, 0))) for number, day in enumerate(_DAYS))
