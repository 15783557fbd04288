"""
The only place that prints.

Results go to stdout, everything else to stderr. With ``--json`` stdout holds one object a line and nothing else; with
``-q`` nothing is printed as long as nothing is wrong.

Ask before something is done that can't be undone.
"""

import os
import sys
import time
from collections.abc import Mapping
from io import TextIOWrapper
from typing import TYPE_CHECKING, NamedTuple

import click

from integrity.cli import terminal
from integrity.errors import ConfigError, printable

if TYPE_CHECKING:
    pass

_CHUNK_BYTES = 1 << 16
_LONGEST_WAIT_S = 0.1


class OutputError(Exception):
    """
    Say that output can't be written, for another reason than that its reader has gone.

    Args:
        what: of the output, where it is not stdout.
        error: why not.
    """

    def __init__(self, error: OSError, what: str = "the output") -> None:
        self.reason = os.strerror(error.errno) if error.errno else str(error)
        super().__init__(f"can't write {what}: {self.reason}")


class Output(NamedTuple):
    """
    How one command talks to its user.

    Args:
        is_json: objects instead of sentences.
        is_quiet: only what is wrong.
        verbosity: how many times ``-v`` was given.
        color: "auto", "always" or "never".
    """

    is_json: bool = False
    is_quiet: bool = False
    verbosity: int = 0
    color: str = "auto"

    def say(self, text: str = "") -> None:
        """Print what is nice to know: not with ``-q``."""
        if not self.is_quiet:
            self.tell(text)

    def tell(self, text: str = "") -> None:
        """Print what must be known: a problem, or what was asked for."""
        if not self.is_json:
            print_line(text, has_color=self._has_color(sys.stdout))

    def give(self, kind: str, fields: Mapping[str, object]) -> None:
        """Print a JSON object, with ``--json`` only."""
        if self.is_json:
            # Flushed one by one: who reads a pipe sees a finding when it is met, not when a buffer is full.
            import json  # here, for --help does without

            print_line(json.dumps({"type": kind, "schema": 1, **fields}, ensure_ascii=False, separators=(",", ":")))

    def warn(self, text: str) -> None:
        """Print a warning on stderr."""
        _print_error(f"integrity: warning: {printable(text)}")

    def note(self, text: str) -> None:
        """Print on stderr what people want to know meanwhile: not with ``-q``, nor with ``--json``."""
        if not (self.is_quiet or self.is_json):
            click.echo(f"integrity: {printable(text)}", err=True)

    def complain(self, command: str, text: str) -> None:
        """Say on stderr what a command met, in the words of the program that it stands in for."""
        _print_error(f"integrity {command}: {printable(text)}")

    def fail(self, text: str, exit_code: int) -> None:
        """Print why a command could not do what was asked: on stderr, and as an object with ``--json``."""
        for line in text.split("\n"):
            _print_error(f"integrity: {printable(line)}")
        self.give("error", {"message": text, "exit_code": exit_code})

    def style(self, text: str, color: str) -> str:
        """Make words stand out on a terminal; where color is off it is taken out again when printing."""
        return click.style(text, fg=color, bold=True)

    def _has_color(self, stream: object) -> bool:
        if self.color == "auto":
            return not os.environ.get("NO_COLOR") and isinstance(stream, TextIOWrapper) and stream.isatty()
        return self.color == "always"


def print_line(text: str, *, has_color: bool = False) -> None:
    """
    Write one line to stdout at once.

    Raises:
        BrokenPipeError: its reader has gone.
        OutputError: it can't be written: a full disk, say.
    """
    try:
        with terminal.erased():
            click.echo(text, color=has_color)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from error


def _print_error(line: str) -> None:
    with terminal.erased():
        click.echo(line, err=True)


class Lines:
    """
    Lines for other programs, written to stdout as they are, names included: many at a time, but none kept for long.

    To be used as a context manager, so that all are written however it ends.
    """

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0
        self._written_at = time.monotonic()

    def put(self, line: bytes) -> None:
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _CHUNK_BYTES or time.monotonic() - self._written_at > _LONGEST_WAIT_S:
            self.flush()

    def flush(self) -> None:
        """
        Write what is waiting.

        Raises:
            BrokenPipeError: the reader has gone.
            OutputError: it can't be written.
        """
        data, self._lines, self._size = b"".join(self._lines), [], 0
        try:
            if data:  # without a buffer (PYTHONUNBUFFERED) even to write nothing fails on a full disk
                sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error) from error
        self._written_at = time.monotonic()

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


def open_missing_streams() -> None:
    """
    Put something in the place of standard streams that the process was started without (``>&-``), for Python has none.

    Left free, their descriptors would be given to the next files to be opened. A read-only stdout and a write-only
    stdin fail as closed ones do, with EBADF; what goes to stderr is lost.
    """
    for name, flags, mode in (("stdin", os.O_WRONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            # In this order each one gets the number that is missing: the lowest that is free.
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8", closefd=False))


def set_up_streams(*, is_json: bool) -> None:
    """Make sure that no character can't be printed; JSON is UTF-8 whatever the locale is."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8" if is_json else None, errors="backslashreplace")


def close_streams() -> None:
    """
    Bring all that was printed out of the program.

    Raises:
        BrokenPipeError: the reader has gone.
        OutputError: the last of it could not be written.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error) from error


def abandon_stdout() -> None:
    """Let go of a stdout that can't be written to, so that the interpreter does not complain when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def confirm(question: str, *, is_yes: bool) -> None:
    """
    Go on only if the user says so, on the terminal or by ``--yes``.

    Raises:
        ConfigError: there is nobody to ask.
        click.Abort: the answer was no.
    """
    if is_yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"{question} There is no terminal to ask on: give --yes if this is meant")
    click.confirm(question, abort=True, err=True)
