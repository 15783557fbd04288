"""
How far a job is, on one line of a terminal that is drawn over and over; elsewhere nothing at all.

rich takes 40 ms to import, so it is imported only when there is a terminal to draw on.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from integrity.config import format_size
from integrity.errors import show_path

if TYPE_CHECKING:
    from integrity.jobs.report import Progress


class ProgressLine(Protocol):
    """Shows how far a job is until it is closed."""

    def show(self, progress: Progress) -> None:
        """Draw the newest state."""

    def close(self) -> None:
        """Take the line off the screen, so that results stand in its place; may be called twice."""


class NoProgress:
    """Shows nothing: there is no terminal, or it was not wanted."""

    def show(self, progress: Progress) -> None:
        """Draw nothing."""

    def close(self) -> None:
        """Have nothing to take away."""


class TerminalProgress:
    """A bar with files, bytes, rate and time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[files]}", markup=False),
            DownloadColumn(binary_units=True),
            TextColumn("{task.fields[rate]}", markup=False),
            TimeRemainingColumn(compact=True),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=None, files="", rate="")
        self._shown = ""
        self._bar.start()

    def show(self, progress: Progress) -> None:
        """Draw the newest state; a new root or phase begins a new count of rate and time."""
        description = f"{progress.job.value} {show_path(progress.root)}: {progress.phase}"
        if description != self._shown:
            self._shown = description
            self._bar.reset(self._task)
        total = "" if progress.files_total is None else f"/{progress.files_total:,}"
        speed = self._bar.tasks[self._task].speed
        self._bar.update(
            self._task,
            description=description,
            completed=progress.bytes_done,
            total=progress.bytes_total,
            files=f"{progress.files_done:,}{total} files",
            rate="" if speed is None else f"{format_size(speed)}/s",
        )

    def close(self) -> None:
        """Take the line off the screen."""
        self._bar.stop()


def open_progress(*, is_quiet: bool) -> ProgressLine:
    """Choose how to show progress here."""
    return NoProgress() if is_quiet or not sys.stderr.isatty() else TerminalProgress()
