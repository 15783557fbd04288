"""Several works that answer one request: what they tell, and one summary of all."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import fields, replace

from integrity.errors import AppError
from integrity.jobs.report import Note, Progress, Report, Summary
from integrity.model import Finding, Outcome
from integrity.service.control.requests import Done

_WORST_FIRST = (Outcome.FAILED, Outcome.INTERRUPTED, Outcome.FINDINGS, Outcome.INCOMPLETE, Outcome.CLEAN)


class Gathered:
    """
    One report and one summary of all.

    Args:
        count: of the works.
        report: takes what any of them tells.
        done: takes the end of the last.
    """

    def __init__(self, count: int, report: Report, done: Done) -> None:
        self._left = count
        self._report = report
        self._done = done
        self._lock = threading.RLock()
        self._results: list[Summary | AppError] = []

    def progress(self, progress: Progress) -> None:
        """See Report."""
        with self._lock:
            self._report.progress(progress)

    def finding(self, finding: Finding) -> None:
        """See Report."""
        with self._lock:
            self._report.finding(finding)

    def note(self, note: Note) -> None:
        """See Report."""
        with self._lock:
            self._report.note(note)

    def take(self, result: Summary | AppError) -> None:
        """Take the end of one work; that of the last is the end of the request."""
        with self._lock:
            self._results.append(result)
            self._left -= 1
            if self._left:
                return
        errors = [one for one in self._results if isinstance(one, AppError)]
        self._done(errors[0] if errors else _add_up([one for one in self._results if isinstance(one, Summary)]))


def _add_up(summaries: Sequence[Summary]) -> Summary:
    """Sum up runs that went on side by side."""
    first = summaries[0]
    for other in summaries[1:]:
        for one in fields(first.counts):
            setattr(first.counts, one.name, getattr(first.counts, one.name) + getattr(other.counts, one.name))
    outcomes = {summary.outcome for summary in summaries}
    return replace(
        first,
        started_at=min(summary.started_at for summary in summaries),
        finished_at=max(summary.finished_at for summary in summaries),
        outcome=next(outcome for outcome in _WORST_FIRST if outcome in outcomes),
        duration_s=max(summary.duration_s for summary in summaries),
        has_integrity_problem=any(summary.has_integrity_problem for summary in summaries),
        is_incomplete=any(summary.is_incomplete for summary in summaries),
    )
