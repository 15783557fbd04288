"""How far a job is, on one line of a terminal that is drawn over and over; elsewhere nothing at all."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from integrity.cli import statusline
from integrity.cli.cells import count_cells, keep_end
from integrity.cli.estimate import TimeLeft, about
from integrity.config import format_size
from integrity.errors import show_path

if TYPE_CHECKING:
    from integrity.jobs.report import Progress

_USUAL_COLUMNS = 80  # of a terminal that does not know how wide it is
_SHORTEST_PATH = 12
_LEAST_FIRST = ("size", "rate", "files", "left", "share")
_WITH_PATH = 4
"""Of so many choices the path is a part; the share and the time left matter more than the path."""


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
    """
    Share, files, bytes, rate and time left, as many of them as the terminal is wide enough for.

    Args:
        monotonic: a clock in seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._shown: tuple[object, ...] = ()
        self._time_left = TimeLeft(monotonic)

    def show(self, progress: Progress) -> None:
        """Draw the newest state; a new root or phase begins a new count of rate and time."""
        shown = progress.job, progress.root, progress.phase
        if shown != self._shown:
            self._shown, self._time_left = shown, TimeLeft(self._monotonic)
        self._time_left.observe(progress.files_done, progress.bytes_done)
        # In the last column the cursor of some terminals waits on the next line.
        statusline.draw(_compose(progress, self._time_left, _count_columns() - 1))

    def close(self) -> None:
        """Take the line off the screen."""
        statusline.erase()


def open_progress(*, is_quiet: bool) -> ProgressLine:
    """Choose how to show progress here."""
    can_draw = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return TerminalProgress() if can_draw and not is_quiet else NoProgress()


def _count_columns() -> int:
    """Ask each time how wide the terminal is: windows are made narrower."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    except OSError:
        return _USUAL_COLUMNS


def _compose(progress: Progress, time_left: TimeLeft, columns: int) -> str:
    """Write as much as fits: what matters least goes first, then the path, then how far the job is."""
    job = str(progress.job.value)
    phase = "" if progress.phase == job else f": {progress.phase}"
    path = _as_written(show_path(progress.root))
    tails = [_join(phase, facts) for facts in _choose_facts(progress, time_left)]
    for tail in tails[:_WITH_PATH]:
        room = columns - len(f"{job} {tail}")
        if room >= min(_SHORTEST_PATH, count_cells(path)):
            return f"{job} {keep_end(path, room)}{tail}"
    lines = [f"{job}{tail}" for tail in tails]
    return next((line for line in lines if len(line) <= columns), lines[-1][: max(0, columns)])


def _join(phase: str, facts: Sequence[str]) -> str:
    return phase + (", " if phase and facts else ": " if facts else "") + ", ".join(facts)


def _choose_facts(progress: Progress, time_left: TimeLeft) -> Iterator[list[str]]:
    """List what can be said, then less and less of it."""
    files, size = progress.files_total, progress.bytes_total
    facts = {
        "share": _say_share(progress),
        "files": f"{progress.files_done:,} files" if files is None else f"{progress.files_done:,} of {files:,} files",
        "size": format_size(progress.bytes_done) + ("" if size is None else f" of {format_size(size)}"),
        "rate": _say_rate(time_left.bytes_per_s),
        "left": _say_time_left(progress, time_left),
    }
    if files is None and size is None and not progress.files_done and not progress.bytes_done:
        facts = {}  # it waits, or has just begun
    yield [text for text in facts.values() if text]
    for name in _LEAST_FIRST:
        facts.pop(name, "")
        yield [text for text in facts.values() if text]


def _say_share(progress: Progress) -> str:
    by_bytes, by_files = (progress.bytes_done, progress.bytes_total), (progress.files_done, progress.files_total)
    done, total = by_bytes if progress.bytes_total else by_files
    return f"{min(100, 100 * done // total)} %" if total else ""


def _say_rate(bytes_per_s: float | None) -> str:
    return "" if bytes_per_s is None else f"{format_size(bytes_per_s)}/s"


def _say_time_left(progress: Progress, time_left: TimeLeft) -> str:
    if progress.files_total is None and progress.bytes_total is None:
        return ""
    files_left = (progress.files_total or progress.files_done) - progress.files_done
    bytes_left = (progress.bytes_total or progress.bytes_done) - progress.bytes_done
    seconds = time_left.estimate_s(files_left, bytes_left)
    return "" if seconds is None else f"{about(seconds)} left"


def _as_written(text: str) -> str:
    """Return text as it looks after what the terminal's encoding has no character for was escaped."""
    encoding = sys.stderr.encoding or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)
