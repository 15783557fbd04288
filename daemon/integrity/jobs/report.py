"""
What a job tells while it runs and when it ends.

Jobs know no terminal: they hand values to a ``Report``, and whoever started them decides what becomes of these.

The wish that a job ends, which a signal handler may set.

``threading.Event`` is no such thing: Python runs a handler in the main thread, between any two instructions; between
those where that thread holds the event's lock in ``wait`` the handler waits for itself, for ever.
"""

from __future__ import annotations

import os
import select
import weakref
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
    MISSING = "missing"  # recorded, not found, and no scan has decided whether it was moved or deleted
    RESOLVED = "resolved"
    SKIPPED = "skipped"
    EXTRA = "copy_extra"  # a copy has it, the root has not
    NOT_COMPARABLE = "copy_not_comparable"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Note:
    """
    Something that a person may want to know.

    ``path`` is relative to ``root``; None when it is about the root. An empty root: it is about none of them.
    """

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


@dataclass(slots=True)
class Compared:
    """
    What a comparison found, besides what is counted of each name; it is added to as it goes.

    Args:
        copy: its name.
        shown: where it is, without secrets.
        published: files that were held against what the copy states of them.
        read: files whose bytes were read back.
        extra: files that only the copy has.
        differing: files whose copy is neither what is recorded nor what once was.
        stale: files whose copy is an older version.
        renamed: files that the copy has under another name.
        behind: files that are newer than a backup has to be.
        repairable: damaged files that the copy has as they were recorded.
        not_comparable: files of which nothing could be said.
        is_unreachable: the copy as a whole could not be reached, or not any more.
    """

    copy: str
    shown: str
    published: int = 0
    read: int = 0
    extra: int = 0
    differing: int = 0
    stale: int = 0
    renamed: int = 0
    behind: int = 0
    repairable: int = 0
    not_comparable: int = 0
    is_unreachable: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """How a command's run ended, over all the roots it touched; ``compared``: of a comparison."""

    job: Job
    started_at: int
    finished_at: int
    outcome: Outcome
    counts: RunCounts
    duration_s: float
    has_integrity_problem: bool
    is_incomplete: bool
    compared: Compared | None = None


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


class Stop:
    """Is set once, by any thread or by a signal handler, and can be waited for by any number of threads."""

    def __init__(self) -> None:
        self._is_set = False
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._fd)

    def is_set(self) -> bool:
        """Say whether the job is to end."""
        return self._is_set

    def set(self) -> None:
        """Have the job end; may be called again."""
        self._is_set = True
        os.eventfd_write(self._fd, 1)  # never read, so that all who wait see it

    def wait(self, duration_s: float | None = None) -> bool:
        """
        Wait until it is set, or for so long.

        Args:
            duration_s: seconds; None waits for ever.

        Returns:
            Whether it is set.
        """
        if not self._is_set:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            poll.poll(None if duration_s is None else max(duration_s, 0.0) * 1000)
        return self._is_set
