"""What the checks that formats carry said of the recorded files; see ``inspect``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from integrity.arbitration import CopyVote
from integrity.catalog.baselines import IS_SAME, same_as
from integrity.catalog.db import Connection
from integrity.catalog.rows import FILE_JOIN, RECORD_COLUMNS, FileRecord, inside_by_id
from integrity.inspect.outcome import CheckResult
from integrity.model import FileId, FindingKind, RootId

_IS_OPEN = f"finding.root_id = ? AND finding.kind = '{FindingKind.INVALID}' AND finding.state != 'resolved'"


class OwnCheckCounts(NamedTuple):
    """
    The own checks of a root's files.

    Args:
        results: number of files by result.
        failing: files with an open finding.
        since_recorded: of these, files whose first record was like that.
        in_copies: number of these by name of a copy, and its vote.
    """

    results: Counter[CheckResult]
    failing: int
    since_recorded: int
    in_copies: dict[tuple[str, CopyVote], int]

    @property
    def tested(self) -> int:
        """Return how many files have a result of their own."""
        return sum(self.results[one] for one in (CheckResult.PASSES, CheckResult.WHOLE, CheckResult.FAILS))


def find_unchecked(
    c: Connection, root_id: RootId, prefix: bytes, after: FileId, *, limit: int, has_libraries: bool
) -> list[tuple[FileRecord, CheckResult | None]]:
    """
    Return files whose recorded content was not checked yet, by id, with the result of the version before.

    Files with an open finding about their content are left out.

    Args:
        has_libraries: what could not be tested for want of a library can be now.
    """
    part, values = inside_by_id(c, root_id, prefix, after)
    again = f" OR file.own_check = '{CheckResult.NO_LIBRARY}'" if has_libraries else ""
    query = f"""
        SELECT iif(file.checked_version = file.version - 1, file.own_check, NULL), {RECORD_COLUMNS}
        FROM file CROSS JOIN folder ON folder.id = file.folder_id -- in the order of ids, without sorting for each page
        WHERE {part} AND file.is_frozen = 0 AND (file.checked_version IS NOT file.version{again})
        ORDER BY file.id LIMIT ?"""
    rows = c.rows(query, *values, limit)
    return [(FileRecord.make(*row), None if before is None else CheckResult(before)) for before, *row in rows]


def save_own_checks(c: Connection, rows: Iterable[tuple[FileRecord, CheckResult]]) -> None:
    """Store results. A file that was recorded again meanwhile is not changed."""
    query = f"UPDATE file SET checked_version = version, own_check = ? WHERE {IS_SAME}"
    c.run_many(query, ((result.value, *same_as(record)) for record, result in rows))


def keep_own_check(c: Connection, record: FileRecord) -> None:
    """Have the result of a record hold for the version that followed it with the same content."""
    c.run("UPDATE file SET checked_version = version WHERE id = ? AND checked_version = ?", record.id, record.version)


def count_own_checks(c: Connection, root_id: RootId) -> OwnCheckCounts:
    """Count the results of a root's files, and what is open about them."""
    query = f"""
        SELECT file.own_check, count(*) FROM {FILE_JOIN}
        WHERE folder.root_id = ? AND file.checked_version = file.version GROUP BY file.own_check"""
    results = Counter({CheckResult(word): number for word, number in c.rows(query, root_id)})
    query = f"""
        SELECT count(*), count(*) FILTER (WHERE file.version = 1)
        FROM finding JOIN file ON file.id = finding.file_id WHERE {_IS_OPEN}"""
    [(failing, since_recorded)] = c.rows(query, root_id)
    query = f"""
        SELECT copy.name, copy_file.vote, count(*)
        FROM finding JOIN file ON file.id = finding.file_id JOIN copy ON copy.root_id = finding.root_id
            JOIN copy_file ON copy_file.copy_id = copy.id AND copy_file.file_id = file.id
                AND copy_file.version = file.version
        WHERE {_IS_OPEN} GROUP BY 1, 2 ORDER BY 1, 2"""
    in_copies = {(name, CopyVote(vote)): number for name, vote, number in c.rows(query, root_id)}
    return OwnCheckCounts(results, failing, since_recorded, in_copies)
