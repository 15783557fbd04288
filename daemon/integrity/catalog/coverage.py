"""
How long ago the files of a root were last verified, and when they are due again.

A file with an open finding that explains why it could not be verified is *uncovered*. It is counted separately, and is
neither verified nor overdue, because a longer window would not help.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from integrity.catalog.db import Connection
from integrity.catalog.rows import DAY_S, NEVER_AT, quoted, select_last_check, unless_ahead
from integrity.kinds import DOUBTS
from integrity.model import ReadHow, RootId

_DAYS = (0, 1, 7, 14, 30, 60, 90, 180, 365)
_WAVE_FILES, _WAVE_PERCENT = 20, 5
IS_SUSPECT = "(file.is_suspect AND NOT file.is_frozen)"
_IS_UNCOVERED = f"""(
    file.is_frozen = 1
    OR file.id IN (
        SELECT finding.file_id FROM finding
        WHERE finding.root_id = ? AND finding.state != 'resolved' AND finding.kind IN ({quoted(DOUBTS)})
            AND finding.file_id IS NOT NULL
    )
)"""


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


class Coverage(NamedTuple):
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
    suspects: int  # replaced or touched, and not read since
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


class _Group(NamedTuple):
    """Files with the same answers to all questions that are asked of them."""

    bucket: int
    is_uncovered: int
    is_never: int
    is_overdue: int
    read_how: str | None
    files: int
    bytes: int
    suspects: int
    oldest_at: int

    @property
    def age(self) -> Age:
        if self.is_uncovered:
            return Age.UNCOVERED
        if self.is_never:
            return Age.NEVER
        if self.is_overdue:
            return Age.OVERDUE
        return Age.DAY if self.bucket == 0 else Age.WEEK if self.bucket == 1 else Age.KEPT


class DueDay(NamedTuple):
    """Files that were last verified or recorded on one day."""

    oldest_at: int  # oldest time of them
    files: int
    bytes: int


def coverage(c: Connection, root_id: RootId, *, now: int, verify_every_s: int) -> Coverage:
    """Summarize a root in one pass over its files: 1 s for a million."""
    begins = " ".join(f"WHEN last > {now - day * DAY_S} THEN {number}" for number, day in enumerate(_DAYS[1:]))
    # LIMIT keeps SQLite from flattening the subquery, which would compute these columns at each use.
    query = f"""
        SELECT CASE {begins} ELSE {len(_DAYS) - 1} END AS bucket, is_uncovered, is_never,
            last < {now - verify_every_s} AS is_overdue, read_how, count(*), sum(size_bytes), sum(is_suspect), min(last)
        FROM (
            SELECT file.size_bytes, {IS_SUSPECT} AS is_suspect, file.read_how,
                {select_last_check(now)} AS last,
                {unless_ahead("file.verified_at", now)} IS NULL AS is_never, {_IS_UNCOVERED} AS is_uncovered
            FROM file JOIN folder ON folder.id = file.folder_id WHERE folder.root_id = ? LIMIT -1
        ) GROUP BY bucket, is_uncovered, is_never, is_overdue, read_how"""
    groups = c.all(_Group, query, root_id, root_id)

    in_time = [group for group in groups if group.age in (Age.DAY, Age.WEEK, Age.KEPT)]
    return Coverage(
        *_count(groups),
        min((group.oldest_at for group in groups if not group.is_uncovered), default=None),
        *_count([group for group in groups if group.is_never]),
        *_count([group for group in groups if group.is_overdue and not group.is_uncovered]),
        *_count([group for group in groups if group.is_uncovered]),
        *_count([group for group in groups if group.read_how == ReadHow.CACHE_POSSIBLE and not group.is_never]),
        verified_bytes=sum(group.bytes for group in in_time if group.read_how not in (None, ReadHow.CACHE_POSSIBLE)),
        suspects=sum(group.suspects for group in groups),
        histogram=tuple(
            (day, end, *_count([group for group in groups if group.bucket == number]))
            for number, (day, end) in enumerate(zip(_DAYS, (*_DAYS[1:], None), strict=True))
        ),
        ages=tuple(AgeShare(age, *_count([group for group in groups if group.age is age])) for age in Age),
    )


def _count(groups: Sequence[_Group]) -> tuple[int, int]:
    return sum(group.files for group in groups), sum(group.bytes for group in groups)


def has_prioritized(c: Connection, root_id: RootId) -> bool:
    """Return whether a root has suspects that are read early."""
    sql = f"""
        SELECT coalesce(sum({IS_SUSPECT}), 0), count(*)
        FROM file JOIN folder ON folder.id = file.folder_id WHERE folder.root_id = ?"""
    [(suspects, files)] = c.rows(sql, root_id)
    return are_read_early(suspects, files)


def are_read_early(suspects: int, files: int) -> bool:
    """Return whether suspects exist and are few enough to get priority."""
    return 0 < suspects <= max(_WAVE_FILES, files * _WAVE_PERCENT / 100)


def find_due_days(c: Connection, root_id: RootId, *, now: int) -> list[DueDay]:
    """Group a root's files by the day of their last verification or recording, oldest first; skip uncovered files."""
    last = select_last_check(now)
    query = f"""
        SELECT min({last}), count(*), sum(file.size_bytes) FROM file JOIN folder ON folder.id = file.folder_id
        WHERE folder.root_id = ? AND NOT {_IS_UNCOVERED} GROUP BY {last} / {DAY_S} ORDER BY {last} / {DAY_S}"""
    return c.all(DueDay, query, root_id, root_id)
