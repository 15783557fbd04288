"""
Take a remote of rclone apart: ``NAME:PATH``, with options ``NAME,KEY=VALUE,...:PATH``, or ``:BACKEND,KEY=VALUE:PATH``.

Options may be passwords. On rclone's command line everybody on the machine could read them; in its environment only
its user can. rclone takes the options of remotes from there: RCLONE_CONFIG_NAME_KEY.

Run the program rclone: no shell, no questions, an end to everything, and no secrets in what it complains of.

Lists of names reach it through files, and options of remotes through its environment, never on the command line. Its
log is JSON in a file of its own, so that neither of its two streams can hold up the other.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Final, NamedTuple, Self

from integrity.config.copy_urls import Scheme
from integrity.errors import ConfigError, CopyUnreachable, ReadInterrupted

_NAME_OF_UNNAMED: Final = "integritycopy"  # for a remote that is described in the URL alone

_VALUE = r"""(?:"(?:[^"]|"")*"|'(?:[^']|'')*'|[^,:"'][^,:]*|)"""
_OPTION = re.compile(rf",([A-Za-z0-9_]+)(?:=({_VALUE}))?(?=[,:])")
_NAME = re.compile(r"(:?)([^,:/]+)(?=,)")


class Invocation(NamedTuple):
    """
    How rclone is told of a remote.

    Attributes:
        spec: for its command line.
        environment: on top of that of this process.
    """

    spec: str
    environment: Mapping[str, str] = {}


def hide_options(spec: str) -> Invocation:
    """Move the options of a remote to the environment; what can't be understood stays on the command line."""
    start = _NAME.match(spec)
    if start is None:
        return Invocation(spec)
    colon, name = start[1], start[2]
    options: dict[str, str] = {"type": name} if colon else {}
    at = start.end()
    while found := _OPTION.match(spec, at):
        options[found[1]] = "true" if found[2] is None else _unquote(found[2])
        at = found.end()
    if spec[at : at + 1] != ":" or "\0" in spec:
        return Invocation(spec)
    named = _NAME_OF_UNNAMED if colon else name
    environment = {f"RCLONE_CONFIG_{named.upper()}_{key.upper()}": options[key] for key in options}
    return Invocation(f"{named}{spec[at:]}", environment)


def _unquote(value: str) -> str:
    if value[:1] in ('"', "'"):
        quote = value[0]
        return value[1:-1].replace(quote * 2, quote)
    return value


NOT_FOUND: Final = 3  # its exit code where a folder is not there

_CHUNK_BYTES = 1 << 16
_LONGEST_LINE = 1 << 22  # a path of the longest kind, escaped, and its digests
_LOOK_S = 0.2
_MOST_TOLD = 300  # characters of what it complains of


class RcloneProblem(NamedTuple):
    """A line of rclone's log: what it is about (empty for all), and what it says."""

    about: str
    message: str


class Remote:
    """
    What rclone is asked about: ``remote:path`` as its own command line takes it.

    Args:
        spec: may hold options (``:sftp,host=...,pass=...:path``).
        program: rclone's name or path.
        timeout_s: after which rclone gives up a silent connection.
        idle_s: after which a silent rclone is given up; it may be busy, as in a folder of a million names.

    Attributes:
        is_asked: says whether all waiting for it is to end.
    """

    def __init__(self, spec: str, *, program: str, timeout_s: float, idle_s: float) -> None:
        self._invocation = hide_options(spec)
        self.idle_s = idle_s
        self.is_asked: Callable[[], bool] = lambda: False
        self._program = program
        self._timeout_s = timeout_s
        options, is_hiding = _find_options(spec)
        self._secrets = sorted(options, key=len, reverse=True)
        self._shown_spec = re.sub(r",.*:", ",...:", spec, count=1, flags=re.DOTALL) if is_hiding else spec
        self.shown = Scheme.RCLONE.prefix + self._shown_spec

    def start(self, verb: str, *flags: str, names: Iterable[str] | None = None) -> Running:
        """
        Start rclone on the remote.

        Args:
            verb: what it is to do; may have several words.
            flags: of the verb.
            names: of the only files that it is to look at, in its own spelling.

        Raises:
            ConfigError: there is no rclone.
        """
        words = [self._program, *verb.split(), "--use-json-log", "--log-level=ERROR", "--ask-password=false"]
        words += ["--progress=false", "--low-level-retries=3", "--retries=1"]
        words += [f"--timeout={self._timeout_s:g}s", f"--contimeout={self._timeout_s:g}s", *flags]
        if names is not None:
            words.append("--files-from-raw=-")
        with TemporaryFile() as given:
            given.writelines(name.encode("utf-8", "surrogatepass") + b"\n" for name in names or ())
            given.seek(0)
            return Running(self, [*words, "--", self._invocation.spec], given, self._invocation.environment)

    def failed(self, reason: str) -> CopyUnreachable:
        """Say that the remote can't be reached, and why."""
        told = self.hide(reason)
        return CopyUnreachable(f"{self.shown}: {told}; see what rclone says of it: rclone lsf {self._shown_spec}")

    def hide(self, text: str) -> str:
        """Take what the URL keeps secret out of a message, and make it one line."""
        for secret in self._secrets:
            text = text.replace(secret, "...")
        return " ".join(text.split())[:_MOST_TOLD]


def _find_options(spec: str) -> tuple[set[str], bool]:
    """Find the texts that must not be shown: options of a connection string, and their values."""
    found = re.match(r":?[^,:/]*(,.*):", spec, re.DOTALL)
    if found is None:
        return set(), False
    values = (option.partition("=")[2].strip("\"'") for option in found[1].split(","))
    return {found[1], spec, *(value for value in values if len(value) > 2)}, True


class Running:
    """One run of rclone; leaving the context ends it, whatever it is doing."""

    def __init__(self, remote: Remote, words: list[str], given: IO[bytes], environment: Mapping[str, str]) -> None:
        self._remote = remote
        self._log = TemporaryFile()  # noqa: SIM115 - closed with the run
        try:
            self._process = subprocess.Popen(
                words,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=self._log,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        except OSError as error:
            self._log.close()
            raise ConfigError(
                f"{remote.shown}: can't run {words[0]}: {error.strerror}; install it: apt install rclone"
            ) from error
        except BaseException:
            self._log.close()
            raise
        assert self._process.stdout is not None
        self._fd = self._process.stdout.fileno()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it and what it started; may be called twice."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):  # it has just ended
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def read(self, length: int) -> bytes:
        """
        Read what it prints.

        Returns:
            At most so many bytes, as soon as there are some; none at the end.

        Raises:
            CopyUnreachable: it prints nothing for too long.
            ReadInterrupted: the waiting was to end.
        """
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        until = time.monotonic() + self._remote.idle_s
        while not poll.poll(max(0.0, min(_LOOK_S, until - time.monotonic())) * 1000):
            if self._remote.is_asked():
                raise ReadInterrupted("waiting for rclone was interrupted")
            if time.monotonic() >= until:
                raise self._remote.failed(f"rclone has said nothing for {self._remote.idle_s:g} s, and was ended")
        return os.read(self._fd, length)

    def lines(self) -> Iterator[bytes]:
        """
        Read the lines that it prints, without their ends.

        Raises:
            CopyUnreachable: it prints nothing for too long, or what are no lines.
        """
        rest = b""
        while chunk := self.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
            if len(rest) > _LONGEST_LINE:
                raise self._remote.failed("rclone prints a line without an end")
        if rest:
            yield rest

    def wait(self) -> int:
        """Wait for its end after it has printed all, and return its exit code."""
        try:
            return self._process.wait(self._remote.idle_s)
        except subprocess.TimeoutExpired as error:
            raise self._remote.failed(f"rclone did not end within {self._remote.idle_s:g} s, and was ended") from error

    def complaints(self) -> Iterator[RcloneProblem]:
        """Read its log, after its end."""
        self._log.seek(0)
        for line in self._log:
            yield _read_complaint(line)

    def reason(self) -> str:
        """Say why it failed: the last thing that it complains of."""
        last = ""
        for complaint in self.complaints():
            last = complaint.message or last
        return last or f"rclone failed with exit code {self._process.returncode}"


def _read_complaint(line: bytes) -> RcloneProblem:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        # Its last words are no JSON: "2026/01/31 23:59:59 Failed to ..."
        text = re.sub(r"^[0-9/]+ [0-9:]+ ", "", line.decode("utf-8", "replace").strip())
        return RcloneProblem("", text)
    if not isinstance(fields, dict):
        return RcloneProblem("", "")
    about, message = fields.get("object"), fields.get("msg")
    return RcloneProblem(about if isinstance(about, str) else "", message if isinstance(message, str) else "")
