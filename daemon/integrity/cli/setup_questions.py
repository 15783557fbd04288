"""
Ask questions on a terminal, each with a default, or take the defaults without asking.

Also parses answers that name folders of a numbered list.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import sys
import termios
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from integrity import program
from integrity.cli.output import Output
from integrity.errors import ConfigError, printable, show_path
from integrity.paths import shell_path

if TYPE_CHECKING:
    from integrity.cli.session import Session
    from integrity.config import Config

T = TypeVar("T")

NONE = "none"


class Given(NamedTuple):
    """Answers that were given as options; None or empty: to be asked."""

    roots: tuple[bytes, ...]
    archives: tuple[bytes, ...]
    copies: tuple[tuple[bytes, bytes], ...]
    no_copies: bool
    windows: str | None
    verify_every_s: int | None
    mail_to: tuple[str, ...]
    mail_server: str | None
    mail_password_file: bytes | None
    push: tuple[str, ...]
    page: str | None
    page_actions: str | None


class Dialog(NamedTuple):
    """
    What all questions share.

    Args:
        base: the configuration so far; the defaults if there is none.
        gains_privileges: as in ``find_mail_ways``.
        is_users: the service is a user's own, which may write what the user may.
        tests: whether to test that damage is found and alerts are accepted.
    """

    session: Session
    asker: Asker
    given: Given
    base: Config
    gains_privileges: bool
    is_users: bool
    tests: bool

    @property
    def output(self) -> Output:
        return self.session.output


class Asker:
    """
    Ask, or take the default.

    Args:
        asks: False takes every default.
    """

    def __init__(self, output: Output, *, asks: bool) -> None:
        self._output = output
        self.asks = asks
        self._number = 0

    def ask(self, question: str, default: str, parse: Callable[[str], T], explanation: Sequence[str] = ()) -> T:
        """
        Return the parsed answer; ask again while it can't be used.

        Args:
            default: the answer of who presses Enter, as it would be typed.
            parse: raises ConfigError or ValueError for what can't be used.
            explanation: lines between the question and the place to type.

        Raises:
            ConfigError: nobody is asked, and the default can't be used.
            click.Abort: Ctrl-C, or the end of the input.
        """
        if not self.asks:
            return parse(default)
        self._number += 1
        tell = self._output.tell
        tell()
        tell(self._output.style(f"{self._number}. {question}", "cyan"))
        for line in explanation:
            tell(wrap(f"   {line}"))
        while True:
            try:
                return parse(_read_line(f"   [{printable(default)}] > ") or default)
            except (ConfigError, ValueError) as error:
                tell(wrap(f"   not understood: {printable(str(error))}"))

    def ask_secret(self, question: str) -> str:
        """Return what is typed, which is not shown."""
        with _no_echo():
            return _read_line(f"   {question} > ")


def wrap(line: str) -> str:
    """Break a line at blanks where the terminal is too narrow for it; what follows is indented more."""
    indent = " " * (len(line) - len(line.lstrip()))
    if not sys.stdout.isatty():
        return line
    width = shutil.get_terminal_size().columns
    return textwrap.fill(
        line.strip(),
        width - 1,
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _read_line(prompt: str) -> str:
    """
    Return a line from the terminal, without blanks around it.

    ``input`` would miss a signal that comes after the prompt was written and before the terminal is read.

    Raises:
        click.Abort: the input has ended.
    """
    click.echo(prompt, nl=False)
    _wait_for_input()
    line = sys.stdin.readline()
    if not line:
        raise click.Abort
    return line.strip()


def _wait_for_input() -> None:
    """Return when something can be read; a signal is handled at once, whenever it comes."""
    terminal = sys.stdin.fileno()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        while terminal not in select.select([terminal, reading], [], [])[0]:
            os.read(reading, 1)  # the interpreter handles the signal now, which usually ends this
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


@contextmanager
def _no_echo() -> Iterator[None]:
    """Let the terminal not show what is typed."""
    before = termios.tcgetattr(sys.stdin)
    silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        click.echo()


def parse_choice(*choices: str) -> Callable[[str], str]:
    """Return a parser for words that may be abbreviated."""

    def parse(text: str) -> str:
        found = [word for word in choices if text and word.startswith(text.lower())]
        if len(found) != 1:
            raise ConfigError(f"type {' or '.join(choices)}")
        return found[0]

    return parse


def parse_names(text: str) -> list[str]:
    """Split an answer at commas and blanks; quotes and backslashes keep a name with blanks together."""
    if text.lower() in (NONE, "-"):
        return []
    words = shlex.shlex(text, posix=True)
    words.whitespace, words.whitespace_split, words.commenters = ", \t", True, ""
    try:
        return list(words)
    except ValueError as error:
        raise ConfigError(f"{text}: a quote is not closed") from error


def parse_paths(text: str, listed: Sequence[bytes]) -> list[bytes]:
    """
    Parse "1, 3-4, /mnt/x", "all" or "none".

    Args:
        listed: what the numbers stand for, from 1.

    Raises:
        ConfigError: a number that is not listed, or a relative path.
    """
    if text.lower() == "all":
        return list(listed)
    found = [path for name in parse_names(text) for path in _parse_path(name, listed)]
    return list(dict.fromkeys(found))


def spell_paths(paths: Sequence[bytes], listed: Sequence[bytes]) -> str:
    """Write paths as ``parse_paths`` reads them, by number where they are listed."""
    words = [str(listed.index(path) + 1) if path in listed else shell_path(path) for path in paths]
    return ", ".join(words) or NONE


def _parse_path(name: str, listed: Sequence[bytes]) -> list[bytes]:
    first, dash, last = name.partition("-")
    if first.isdecimal() and (not dash or last.isdecimal()):
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= len(listed):
            raise ConfigError(f"{name}: the numbers are 1 to {len(listed)}" if listed else f"{name}: there is no list")
        return list(listed[low - 1 : high])
    path = os.path.expanduser(os.fsencode(name))
    if not path.startswith(b"/"):
        raise ConfigError(
            f"{show_path(path)}: neither a number of the list nor a path from /; quote a name with blanks"
        )
    return [os.path.realpath(path)]


def require_terminal(*, is_json: bool) -> None:
    """Refuse to ask where nobody can answer."""
    if is_json:
        raise ConfigError("setup --json asks nothing: give --yes, and answers as options")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "setup asks its questions on a terminal, and there is none; to take the default answers, give --yes;"
            f" other answers are options: {program.command('setup --help')}"
        )
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")  # names may be any bytes (R10)


@contextmanager
def interrupting_signals() -> Iterator[None]:
    """Make SIGTERM, and SIGHUP of a terminal that is closed, interrupt a question as Ctrl-C does."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    former = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in former.items():
        if handler is not signal.SIG_IGN:  # nohup
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def without_interruption() -> Iterator[None]:
    """Deliver signals that end the program only after the block, which is short."""
    numbers = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
