"""
What a job tells while it runs and when it ends.

Jobs know no terminal: they hand values to a ``Report``, and whoever started them decides what becomes of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from integrity.model import Finding, Job, Outcome, RunCounts


class NoteKind(StrEnum):
    """What a note is about: worth listing, no reason to worry."""

    MOVED = "moved"
    DELETED = "deleted"
    ROLLED_BACK = "rolled_back"
    CHANGED = "changed"
    UNSTABLE = "unstable"
    RESOLVED = "resolved"
    SKIPPED = "skipped"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Note:
    """Something that a person may want to know. ``path`` is relative to ``root``; None when it is about the root."""

    kind: NoteKind
    root: bytes
    path: bytes | None
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is. Totals are None while they are not known."""

    job: Job
    root: bytes
    phase: str
    files_done: int
    files_total: int | None
    bytes_done: int
    bytes_total: int | None


@dataclass(frozen=True, slots=True)
class Summary:
    """How a command's run ended, over all the roots it touched."""

    job: Job
    started_at: int
    finished_at: int
    outcome: Outcome
    counts: RunCounts
    duration_s: float
    has_integrity_problem: bool
    is_incomplete: bool


class Report(Protocol):
    """
    Take what a job tells.

    All methods are called from the thread that runs the job, never at the same time, and must return soon: the disk
    waits for them. None may raise anything but what ends the job.
    """

    def progress(self, progress: Progress) -> None:
        """Take how far the job is; called at most some ten times a second."""

    def finding(self, finding: Finding) -> None:
        """Take a finding that this run met, new or still open; each is told once a run."""

    def note(self, note: Note) -> None:
        """Take a note."""
