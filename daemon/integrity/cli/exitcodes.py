"""What a run's end means to the program that started it; the table stands in ``--help``, too."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from integrity.errors import AppError, CatalogError, ConfigError, HubDatabaseError

if TYPE_CHECKING:
    from integrity.jobs.report import Summary
    from integrity.model import FindingKind


class ExitCode(IntEnum):
    """All that the program exits with."""

    OK = 0
    PROBLEM = 1
    USAGE = 2
    INCOMPLETE = 3
    CATALOG = 4
    INTERRUPTED = 130
    BROKEN_PIPE = 141  # what a shell reports of any program whose reader went away


TABLE = (
    (ExitCode.OK, "everything was checked, and nothing is wrong"),
    (ExitCode.PROBLEM, "an integrity problem: damaged, missing, or unexpectedly changed files"),
    (ExitCode.USAGE, "usage or configuration error; nothing was done"),
    (ExitCode.INCOMPLETE, "something could not be checked: unreadable files, missing disks, a dead service"),
    (ExitCode.CATALOG, "the catalog is missing, damaged, locked, or of another version"),
    (ExitCode.INTERRUPTED, "interrupted; finished work is kept"),
)


def code_for_kinds(kinds: Iterable[FindingKind]) -> ExitCode:
    """Tell what open findings mean; a problem outweighs a gap."""
    from integrity.kinds import COVERAGE_PROBLEMS, INTEGRITY_PROBLEMS  # here, for --help does without

    met = set(kinds)
    if met & INTEGRITY_PROBLEMS:
        return ExitCode.PROBLEM
    return ExitCode.INCOMPLETE if met & COVERAGE_PROBLEMS else ExitCode.OK


def code_for_summary(summary: Summary) -> ExitCode:
    from integrity.model import Outcome

    if summary.outcome is Outcome.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if summary.has_integrity_problem:
        return ExitCode.PROBLEM
    return ExitCode.INCOMPLETE if summary.is_incomplete else ExitCode.OK


def code_for_error(error: AppError) -> ExitCode:
    if isinstance(error, ConfigError):
        return ExitCode.USAGE
    # All others say that something could not be found out: a root that is not itself, a file that can't be read.
    return ExitCode.CATALOG if isinstance(error, CatalogError | HubDatabaseError) else ExitCode.INCOMPLETE
