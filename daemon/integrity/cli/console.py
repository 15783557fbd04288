"""
What a job shows while it runs, what it tells, and how a signal stops it.

With ``--json`` each finding and note is printed when it comes. For people they are kept: notes first, problems last,
right above the summary, the gravest at the end, so that they are what stays on the screen.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Protocol, TypeVar

from integrity import program
from integrity.cli import terminal
from integrity.cli.exitcodes import ExitCode, code_for_summary
from integrity.cli.output import Output
from integrity.cli.terminal import count_cells, keep_end
from integrity.errors import printable, show_path
from integrity.model import Finding, FindingId, SkipReason
from integrity.paths import absolute
from integrity.units import format_size
from integrity.views.runs import describe_summary, note_object, summary_object
from integrity.words.card import write_terminal
from integrity.words.findings import finding_object, gather, make_card, sort_by_gravity

if TYPE_CHECKING:
    from integrity.jobs.report import Note, NoteKind, Progress, Stop, Summary

Printing = TypeVar("Printing", bound="ConsoleReport")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """
    Give what is set by the first signal; the second ends the process as if there were no handler.

    The job commits what it has and ends by itself. What is ignored on purpose stays so: nohup ignores SIGHUP.
    """
    from integrity.jobs.report import Stop  # here, for help does without

    stop = Stop()

    def handle(number: int, _: FrameType | None) -> None:
        if stop.is_set():
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        stop.set()

    former = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in former.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, handle)
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


_FILE_BYTES = 512 << 10
"""
Bytes that take as long as opening a file: some 100 KB on an NVMe disk, over 1 MB on a hard disk.

With the middle of these the total swings by a factor of 2 on a hard disk, of 3 on an NVMe disk.
"""

_BASIS_S = 10.0
_SAMPLE_S = 1.0
_WINDOW_S = 60.0
_WINDOW_SHARE = 0.5  # of the time that the job has run
_RATE_WINDOW_S = 10.0


class TimeLeft:
    """Estimates for one job, from the first observation on."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: tuple[float, int, int] | None = None  # when, files, bytes
        self._ran_s = 0.0
        self._work = _Speed()
        self._bytes = _Speed()

    @property
    def bytes_per_s(self) -> float | None:
        """Return how fast the last bytes were read; None: not known yet."""
        return self._bytes.per_s

    def observe(self, files_done: int, bytes_done: int) -> None:
        now = self._monotonic()
        if self._last is None:
            self._last = now, files_done, bytes_done
            return
        at, files_before, bytes_before = self._last
        if now - at < _SAMPLE_S:
            return
        self._last = now, files_done, bytes_done
        self._ran_s += now - at
        size = max(0, bytes_done - bytes_before)
        work = size + max(0, files_done - files_before) * _FILE_BYTES
        self._work.add(work, now - at, max(_WINDOW_S, self._ran_s * _WINDOW_SHARE))
        self._bytes.add(size, now - at, _RATE_WINDOW_S)

    def estimate_s(self, files_left: int, bytes_left: int) -> float | None:
        """Return the seconds that the rest takes; None while there is no basis for an estimate."""
        speed = self._work.per_s
        if self._ran_s < _BASIS_S or not speed:
            return None
        return (max(0, files_left) * _FILE_BYTES + max(0, bytes_left)) / speed


class _Speed:
    """An amount per second, in which what is longer ago counts less."""

    def __init__(self) -> None:
        self._amount = self._seconds = 0.0

    @property
    def per_s(self) -> float | None:
        return self._amount / self._seconds if self._seconds else None

    def add(self, amount: float, seconds: float, window_s: float) -> None:
        kept = math.exp(-seconds / window_s)
        self._amount = self._amount * kept + amount
        self._seconds = self._seconds * kept + seconds


def about(seconds: float) -> str:
    """Write an estimated time without digits that it does not have: "about 20 min", "about 3 h 30 min"."""
    if seconds < 60:
        return "less than a minute"
    minutes = seconds / 60
    # Up to so many minutes, rounded to so many.
    steps = ((10, 1), (60, 5), (120, 10), (600, 30), (2880, 60))
    step = next((step for limit, step in steps if minutes < limit), None)
    if step is None:
        return f"about {round(minutes / 1440)} days"
    hours, rest = divmod(round(minutes / step) * step, 60)
    words = [f"{hours} h"] if hours else []
    words += [f"{rest} min"] if rest else []
    return f"about {' '.join(words)}"


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
    """Share, files, bytes, rate and time left, as many of them as the terminal is wide enough for."""

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
        terminal.draw(_compose(progress, self._time_left, _count_columns() - 1))

    def close(self) -> None:
        terminal.erase()


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
    # What is read again to be certain is no more than there is.
    files_done = progress.files_done if files is None else min(progress.files_done, files)
    bytes_done = progress.bytes_done if size is None else min(progress.bytes_done, size)
    facts = {
        "share": _say_share(progress),
        "files": f"{files_done:,} files" if files is None else f"{files_done:,} of {files:,} files",
        "size": format_size(bytes_done) + ("" if size is None else f" of {format_size(size)}"),
        "rate": ("" if time_left.bytes_per_s is None else f"{format_size(time_left.bytes_per_s)}/s"),
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


# A wave of findings must not fill the memory or the screen; the gravest stay, and `findings` lists them all.
_FINDINGS_KEPT = 5000
_ENTRIES_SHOWN = 200
_NOTES_SHOWN = 10
_LONGEST = 20_000  # a path of 4,096 bytes fits, each of them escaped


class ConsoleReport:
    """A ``jobs.report.Report`` that prints. With ``-v`` all notes are listed, else the first of each kind."""

    def __init__(self, output: Output, progress: ProgressLine) -> None:
        self._output = output
        self._progress = progress
        self._findings: dict[FindingId, Finding] = {}
        self._found: set[FindingId] = set()
        self._notes: dict[NoteKind, list[Note]] = {}
        self._note_counts: Counter[NoteKind] = Counter()
        self._notes_kept = 1 << 20 if output.verbosity else _NOTES_SHOWN

    def progress(self, progress: Progress) -> None:
        self._progress.show(progress)

    def finding(self, finding: Finding) -> None:
        """Print or keep a finding; if it is told again, as more is known of it by now, that holds."""
        self._output.give("finding", finding_object(finding))
        self._found.add(finding.id)
        self._findings[finding.id] = finding
        if len(self._findings) >= 2 * _FINDINGS_KEPT:
            gravest = sort_by_gravity(self._findings.values())[:_FINDINGS_KEPT]
            self._findings = {one.id: one for one in gravest}

    def note(self, note: Note) -> None:
        self._output.give("note", note_object(note))
        if note.skip_reason is SkipReason.EXCLUDED and not self._output.verbosity:
            return
        self._note_counts[note.kind] += 1
        kept = self._notes.setdefault(note.kind, [])
        if len(kept) < self._notes_kept:
            kept.append(note)

    def finish(self, summary: Summary) -> ExitCode:
        """Print what was kept and the summary, and return the exit code."""
        output, code = self._output, code_for_summary(summary)
        self.show()
        print_line = output.say if code is ExitCode.OK else output.tell
        for line in describe_summary(summary, output):
            print_line(line)
        output.give("summary", summary_object(summary))
        return code

    def show(self) -> None:
        self._progress.close()
        output = self._output
        for kind, notes in self._notes.items():
            for note in notes:
                place = f"{_clip(show_path(absolute(note.root, note.path)))}: " if note.root else ""
                output.say(f"{kind.value}: {place}{_clip(printable(note.message))}")
            more = self._note_counts[kind] - len(notes)
            if more:
                output.say(f"{kind.value}: and {more:,} more (all of them with -v)")
        if self._notes:
            output.say()
        groups = list(gather(sort_by_gravity(self._findings.values())))[:_ENTRIES_SHOWN]
        more = len(self._found) - sum(map(len, groups))
        if more:
            output.tell(f"{more:,} more, not shown here; list them all with: {program.command('findings')}")
            output.tell()
        for group in reversed(groups):
            for line in write_terminal(make_card(group), output):
                output.tell(line)
            output.tell()


def _clip(text: str) -> str:
    """Cut what is longer than any screen: a list that somebody else wrote may have names of a million characters."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


@contextmanager
def reporting(output: Output, kind: Callable[[Output, ProgressLine], Printing]) -> Iterator[Printing]:
    """Give a report that shows the progress of a job until the end of the body."""
    progress = open_progress(is_quiet=output.is_quiet)
    try:
        yield kind(output, progress)
    finally:
        progress.close()
