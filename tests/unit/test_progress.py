"""The progress line on a real pseudo-terminal: it fits any width, and nothing is left of it."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import pytest

from integrity.cli.console import TerminalProgress
from integrity.cli.output import Output
from integrity.cli.terminal import count_cells, set_up_logging
from integrity.jobs.report import Progress
from integrity.model import Job
from support.cli import Box, make_command
from support.clock import Clock
from support.screen import Terminal

GIB = 1 << 30
WIDTHS = [120, 80, 50, 20, 5, 1]
ROOTS = [
    b"/srv/photos",
    b"/srv/" + b"a/very/long/folder/" * 12 + b"photos",
    "/srv/写真と動画".encode() + "/とても長いフォルダ".encode() * 8,
    "/srv/e\u0301le\u0301phant/\U0001f418\U0001f418".encode(),
    b"/srv/\xff\n\x1b[2J",
]


@contextmanager
def on_terminal(columns: int) -> Iterator[Terminal]:
    """Make a terminal the standard error of this process."""
    with (
        Terminal(columns) as terminal,
        open(os.dup(terminal.fd), "w", encoding="utf-8") as stream,
        redirect_stderr(stream),
    ):
        yield terminal


def make(root: bytes, percent: int, *, job: Job = Job.SCRUB, phase: str = "scrub", is_known: bool = True) -> Progress:
    """Make a state of a job of 118,655 files in 5 TiB."""
    files, size = 118_655, 5 * 1024 * GIB
    totals = (files, size) if is_known else (None, None)
    return Progress(job, root, phase, files * percent // 100, totals[0], size * percent // 100, totals[1])


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("is_known", [True, False])
def test_line_fits_and_leaves_nothing(columns: int, root: bytes, is_known: bool) -> None:
    """One line of the screen is used and no other, whatever the path; closed, the screen is as it was."""
    clock = Clock(0)
    with on_terminal(columns) as terminal:
        progress = TerminalProgress(monotonic=clock)
        for percent in range(0, 101, 5):
            progress.show(make(root, percent, is_known=is_known))
            terminal.read()
            clock.now += 7.5
            (line,) = terminal.screen.lines
            assert line or columns == 1
        progress.close()
        terminal.read()

    assert ([""], 0) == (terminal.screen.lines, terminal.screen.wraps)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (120, "scrub /srv/photos: 50 %, 59,327 of 118,655 files, 2.5 TiB of 5.0 TiB, 1.0 GiB/s, about 40 min left"),
        (80, "scrub /srv/photos: 50 %, 59,327 of 118,655 files, 1.0 GiB/s, about 40 min left"),
        (50, "scrub /srv/photos: 50 %, about 40 min left"),
        (40, "scrub: 50 %, about 40 min left"),
        (20, "scrub: 50 %"),
    ],
)
def test_what_matters_most_stays_on_narrow_terminals(columns: int, expected: str) -> None:
    """How far and how long before how much."""
    clock = Clock(0)
    with on_terminal(columns) as terminal:
        progress = TerminalProgress(monotonic=clock)
        for percent in range(51):
            progress.show(make(b"/srv/photos", percent))
            terminal.read()
            clock.now += 50

    assert [expected] == terminal.screen.lines


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (b"/srv/a/long/folder/of/photos", "scrub ...older/of/photos: 50 %, 59,327 of 118,655 files"),
        ("/srv/写真と動画の写真と動画".encode(), "scrub ...画の写真と動画: 50 %, 59,327 of 118,655 files"),
    ],
)
def test_end_of_a_path_stays(root: bytes, expected: str) -> None:
    """It says more than its beginning; wide characters are counted as what they take."""
    with on_terminal(56) as terminal:
        TerminalProgress(monotonic=Clock(0)).show(make(root, 50))
        terminal.read()

    assert [expected] == terminal.screen.lines


def test_job_without_totals_promises_no_end() -> None:
    """While a folder is being walked nobody knows how much is in it."""
    clock = Clock(0)
    with on_terminal(120) as terminal:
        progress = TerminalProgress(monotonic=clock)
        for percent in range(5):
            progress.show(make(b"/srv/photos", percent, job=Job.SCAN, phase="record", is_known=False))
            terminal.read()
            clock.now += 50

    assert ["scan /srv/photos: record, 4,746 files, 205 GiB, 1.0 GiB/s"] == terminal.screen.lines


def test_narrower_terminal_is_noticed() -> None:
    """Each drawing asks how wide the terminal is now."""
    with on_terminal(120) as terminal:
        progress = TerminalProgress(monotonic=Clock(0))
        progress.show(make(ROOTS[1], 50))
        terminal.read()
        terminal.screen.feed("\r\x1b[K")
        terminal.resize(30)
        progress.show(make(ROOTS[1], 51))
        terminal.read()

    assert 0 == terminal.screen.wraps


def test_log_lines_stand_above_the_line() -> None:
    """What is logged or printed meanwhile has its own lines, and the progress is drawn below it again."""
    logger = logging.getLogger()
    before = logger.handlers[:]
    logger.handlers.clear()
    try:
        with on_terminal(80) as terminal:
            set_up_logging(1)
            progress = TerminalProgress(monotonic=Clock(0))
            progress.show(make(b"/srv/photos", 50))
            logger.warning("first")
            progress.show(make(b"/srv/photos", 51))
            Output().warn("second")
            progress.show(make(b"/srv/photos", 52))
            progress.close()
            print("third", file=sys.stderr)
            while "third" not in terminal.screen.lines[-2:]:
                terminal.read()
    finally:
        logger.handlers[:] = before

    assert ["WARNING root: first", "integrity: warning: second", "third", ""] == terminal.screen.lines


def test_terminal_that_has_gone_ends_no_job() -> None:
    """Nobody looks any more, and the job goes on."""
    with on_terminal(80) as terminal:
        progress = TerminalProgress(monotonic=Clock(0))
        terminal.hang_up()
        progress.show(make(b"/srv/photos", 50))
        progress.close()


@pytest.mark.parametrize("columns", [80, 20])
def test_command_leaves_nothing_on_its_terminal(integrity: Box, tmp_path: Path, columns: int) -> None:
    """The real program on a terminal of its own: objects and log lines are whole, and no progress is left."""
    root = tmp_path / "写真"
    root.mkdir()
    for number in range(4):
        (root / f"{number}").write_bytes(os.urandom(1_500_000))
    integrity.run("scan", root, expect=0)
    (root / "0").unlink()
    argv = make_command("--json", "-v", "scrub", "--rate", "2M", root)
    with Terminal(columns) as terminal:
        # Lines longer than the terminal is wide would be wrapped by it, so the model is told of a wider one.
        terminal.screen.columns = 10_000
        process = subprocess.Popen(
            argv, env=integrity.environment, stdin=subprocess.DEVNULL, stdout=terminal.fd, stderr=terminal.fd
        )
        with process:
            terminal.let_go()
            shown = ""
            while text := terminal.read():
                shown += text
    lines = [line for line in terminal.screen.lines if line]

    assert process.returncode is not None
    assert any(line.startswith('{"type":"summary"') for line in lines)
    assert all(line.startswith(('{"type":', "INFO ", "WARNING ")) and "scrub: " not in line for line in lines)
    drawn = re.findall(r"\r([^\r\n\x1b]+)\x1b\[K", shown)
    assert drawn
    assert all(count_cells(text) < columns for text in drawn)
