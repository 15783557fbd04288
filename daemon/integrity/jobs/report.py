"""
Report progress and results of a job, and request its end.

Jobs know no terminal: they pass values to a ``Report``, and the caller decides what to do with them.

``Stop`` requests the end of a job and may be set by a signal handler. ``threading.Event`` may not: Python runs handlers
in the main thread between any two instructions. If that thread holds the event's lock in ``wait``, the handler
deadlocks.
"""

from __future__ import annotations

import os
import select
import weakref
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from integrity.model import Finding, Job, Outcome, RunCounts, SkipReason


class NoteKind(StrEnum):
    """What a note is about: worth listing, but no problem."""

    MOVED = "moved"
    DELETED = "deleted"
    ROLLED_BACK = "rolled_back"
    CHANGED = "changed"
    UNSTABLE = "unstable"
    MISSING = "missing"  # recorded and not found; no scan has decided whether it was moved or deleted
    RESOLVED = "resolved"
    SKIPPED = "skipped"
    EXTRA = "copy_extra"  # in the copy but not in the root
    NOT_COMPARABLE = "copy_not_comparable"
    WARNING = "warning"


class Note(NamedTuple):
    """
    Something worth listing.

    ``path`` is relative to ``root``; None if the note is about the root. An empty ``root``: the note is about no root.
    ``skip_reason``: of a name that was skipped.
    """

    kind: NoteKind
    root: bytes
    path: bytes | None
    message: str
    skip_reason: SkipReason | None = None


class Progress(NamedTuple):
    """How far a job is. Unknown totals are None."""

    job: Job
    root: bytes
    phase: str
    files_done: int
    files_total: int | None
    bytes_done: int
    bytes_total: int | None


@dataclass(slots=True)
class Compared:
    """
    What a comparison found, besides the counts of the run; updated while it runs.

    Args:
        shown: its location, without secrets.
        published: files compared with the digests that the copy states.
        read: files compared by reading the copy back.
        cached: files compared by reading the copy, possibly from memory.
        listed: files of which only size and time were looked at, as the copy lists them.
        read_here: files that were read here as well.
        known_by_record: files of which only the record was compared with the copy.
        oldest_record_at: when the first of these was last read here; None: there is none.
        can_read: the copy has data, so --read can compare it.
        extra: files that only the copy has.
        differing: files whose copy is damaged, incomplete, or a copy of damage.
        incomplete: those of them whose copy is no more than the beginning of the file.
        damaged_on_both_sides: those that are not incomplete, and whose file is not intact here either.
        conflicting: files that differ from their copies, where nothing tells which is right.
        newer: files whose copy is newer.
        stale: files whose copy is an older version.
        shared: files whose copies share data on the disk with them.
        renamed: files that the copy has under another name.
        behind: files that changed too recently for the backup to have them.
        repairable: damaged files that the copy has as recorded.
        not_comparable: files that could not be compared.
        left_out: files that the backup leaves out on purpose.
        is_unreachable: the copy could not be reached, or became unreachable.
    """

    copy: str
    shown: str
    published: int = 0
    read: int = 0
    cached: int = 0
    listed: int = 0
    read_here: int = 0
    known_by_record: int = 0
    oldest_record_at: int | None = None
    can_read: bool = True
    extra: int = 0
    differing: int = 0
    incomplete: int = 0
    damaged_on_both_sides: int = 0
    conflicting: int = 0
    newer: int = 0
    stale: int = 0
    shared: int = 0
    renamed: int = 0
    behind: int = 0
    repairable: int = 0
    not_comparable: int = 0
    left_out: int = 0
    is_unreachable: bool = False


class Summary(NamedTuple):
    """
    The result of a command over all its roots.

    Args:
        compared: set after a comparison.
        altered: how many of the files counted as damaged somebody wrote to where nobody should.
        skips: reasons for skipping names that have no record (``SkipReason``), and how many names each.
    """

    job: Job
    started_at: int
    finished_at: int
    outcome: Outcome
    counts: RunCounts
    duration_s: float
    has_integrity_problem: bool
    is_incomplete: bool
    compared: Compared | None = None
    skips: tuple[tuple[str, int], ...] = ()
    altered: int = 0


class Report(Protocol):
    """
    Receive what a job reports.

    All methods are called from the job's thread, one at a time, and must return soon, because the disk is idle
    meanwhile. They may raise only to end the job.
    """

    def progress(self, progress: Progress) -> None:
        """Receive the progress; called at most about ten times a second."""

    def finding(self, finding: Finding) -> None:
        """Receive a finding that this run met, new or still open; each one once per run."""

    def note(self, note: Note) -> None:
        """Receive a note."""


class Stop:
    """A one-way flag. Any thread or signal handler may set it; any number of threads may wait for it."""

    def __init__(self) -> None:
        self._is_set = False
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._fd)

    def is_set(self) -> bool:
        """Return whether the job should end."""
        return self._is_set

    def set(self) -> None:
        """Request the end of the job; may be called again."""
        self._is_set = True
        os.eventfd_write(self._fd, 1)  # never read, so that every waiter sees it

    def wait(self, duration_s: float | None = None) -> bool:
        """
        Wait until the flag is set or the time is over.

        Args:
            duration_s: seconds; None waits forever.

        Returns:
            Whether the flag is set.
        """
        if not self._is_set:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            poll.poll(None if duration_s is None else max(duration_s, 0.0) * 1000)
        return self._is_set
