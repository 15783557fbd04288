"""
Run a program that reads a copy: without a shell and without prompts, with a deadline, until the job is asked to stop.

What it complains of goes into a file of its own, so that neither of its output streams can block the other.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pwd
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Protocol, Self

from integrity.errors import ConfigError, CopyUnreachable, ReadInterrupted

_CHUNK_BYTES = 1 << 16
_LONGEST_LINE = 1 << 22  # bytes; fits the longest path, escaped, and its digests
_PIPE_BYTES = 1 << 20
_LOOK_S = 0.2
_PR_CAP_AMBIENT, _RAISE, _LOWER = 47, 2, 3  # linux/prctl.h
_CAP_DAC_READ_SEARCH = 2  # linux/capability.h
_libc = ctypes.CDLL(None)


class ReadingProgram(Protocol):
    """
    A program that reads one copy.

    Attributes:
        name: of the program.
        shown: the copy, for people.
        idle_s: how long it may be silent.
        must_stop: ends all waiting for it when it returns true.
    """

    shown: str
    idle_s: float
    must_stop: Callable[[], bool]

    @property
    def name(self) -> str:
        """Return the name of the program."""

    def failed(self, reason: str) -> CopyUnreachable:
        """Return the error that the copy can't be reached, with the reason and what to do."""


@contextmanager
def lend_right_to_read() -> Iterator[None]:
    """
    Let a program that this thread starts read all files, if this process may: CAP_DAC_READ_SEARCH in the ambient set.

    The set is one of the thread, so nothing that other threads start gets it. The service has the capability, and gives
    it to nothing else: see ``service.startup``.
    """
    is_raised = _libc.prctl(_PR_CAP_AMBIENT, _RAISE, _CAP_DAC_READ_SEARCH, 0, 0) == 0  # refused: as any user
    try:
        yield
    finally:
        if is_raised:
            _libc.prctl(_PR_CAP_AMBIENT, _LOWER, _CAP_DAC_READ_SEARCH, 0, 0)


class Running:
    """
    One run of a program; leaving the context kills it.

    Args:
        words: its command line.
        given: its input; None: nothing.
        environment: added to that of this process.
        user: as whom it runs; None: as this process.
        package: that installs it.
        passes: descriptors that it gets under their numbers.
        may_read_all: it may read all files that this process may; see ``lend_right_to_read``.

    Raises:
        ConfigError: it is not installed.
    """

    def __init__(
        self,
        program: ReadingProgram,
        words: Sequence[str | bytes],
        *,
        package: str,
        given: IO[bytes] | None = None,
        environment: Mapping[str, str] | None = None,
        user: pwd.struct_passwd | None = None,
        passes: Sequence[int] = (),
        may_read_all: bool = False,
    ) -> None:
        self.program = program
        self._log = TemporaryFile()  # noqa: SIM115 - closed with the run
        groups = None if user is None else os.getgrouplist(user.pw_name, user.pw_gid)
        try:
            with lend_right_to_read() if may_read_all else nullcontext():
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL if given is None else given,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    start_new_session=True,
                    env={**os.environ, **(environment or {})},
                    user=None if user is None else user.pw_uid,
                    group=None if user is None else user.pw_gid,
                    extra_groups=groups,
                    pass_fds=passes,
                )
        except OSError as error:
            self._log.close()
            raise ConfigError(
                f"{program.shown}: can't run {program.name}: {error.strerror}; install it: apt install {package}"
            ) from error
        except BaseException:
            self._log.close()
            raise
        assert self._process.stdout is not None
        self._fd = self._process.stdout.fileno()
        with suppress(PermissionError):  # the user has too many pipes
            fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    @property
    def pid(self) -> int:
        """Return the number of its process, which leads a group of its own."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill it and its children; may be called twice."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def read(self, length: int) -> bytes:
        """
        Read its output.

        Returns:
            Up to ``length`` bytes, as soon as there are some; none at the end.

        Raises:
            CopyUnreachable: it printed nothing for too long.
            ReadInterrupted: ``must_stop`` returned true.
        """
        program = self.program
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        until = time.monotonic() + program.idle_s
        while not poll.poll(max(0.0, min(_LOOK_S, until - time.monotonic())) * 1000):
            if program.must_stop():
                raise ReadInterrupted(f"waiting for {program.name} was interrupted")
            if time.monotonic() >= until:
                raise program.failed(f"{program.name} has said nothing for {program.idle_s:g} s, and was ended")
        return os.read(self._fd, length)

    def lines(self) -> Iterator[bytes]:
        """
        Read the lines of its output, without their ends.

        Raises:
            CopyUnreachable: it printed nothing for too long, or a line is too long.
            ReadInterrupted: ``must_stop`` returned true.
        """
        rest = b""
        while chunk := self.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(rest) > _LONGEST_LINE:
                raise self.program.failed(f"{self.program.name} prints a line without an end")
        if rest:
            yield rest

    def wait(self) -> int:
        """Wait for its end after the end of its output, and return its exit code."""
        program = self.program
        try:
            return self._process.wait(program.idle_s)
        except subprocess.TimeoutExpired as error:
            raise program.failed(f"{program.name} did not end within {program.idle_s:g} s, and was ended") from error

    def log_lines(self) -> Iterator[bytes]:
        """Read the lines of its log; after its end."""
        self._log.seek(0)
        yield from self._log

    def reason(self) -> str:
        """Return the last line of its log as the reason of a failure; after its end."""
        said = [line.decode("utf-8", "replace").strip() for line in self.log_lines()]
        last = next((line for line in reversed(said) if line), "")
        return last or f"{self.program.name} failed with exit code {self._process.returncode}"


def parse_time(text: object) -> int | None:
    """Return a time of RFC 3339 in nanoseconds since 1970, which datetime can't represent; None if it is none."""
    if not isinstance(text, str) or not text:
        return None
    whole, point, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :]
    try:
        seconds = datetime.fromisoformat(whole + zone if point else whole)
    except ValueError:
        return None
    if seconds.tzinfo is None:
        return None
    return int(seconds.timestamp()) * 1_000_000_000 + int(digits.ljust(9, "0")[:9] or "0")
