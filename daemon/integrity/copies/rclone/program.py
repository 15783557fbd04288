"""
Run the program rclone: without secrets on its command line and in its messages.

A remote is written ``NAME:PATH``, with options ``NAME,KEY=VALUE,...:PATH``, or ``:BACKEND,KEY=VALUE:PATH``. Options may
be passwords: every user of the machine could read them on a command line, but only rclone's user in its environment,
where rclone takes them from, too (RCLONE_CONFIG_NAME_KEY). Lists of names are passed in files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from tempfile import TemporaryFile
from typing import Final, NamedTuple

from integrity.config.copy_urls import Scheme
from integrity.copies.program import Running
from integrity.errors import CopyUnreachable

_NAME_OF_UNNAMED: Final = "integritycopy"  # the name of a remote that only the URL describes

_VALUE = r"""(?:"(?:[^"]|"")*"|'(?:[^']|'')*'|[^,:"'][^,:]*|)"""
_OPTION = re.compile(rf",([A-Za-z0-9_]+)(?:=({_VALUE}))?(?=[,:])")
_NAME = re.compile(r"(:?)([^,:/]+)(?=,)")


class Invocation(NamedTuple):
    """
    How a remote is passed to rclone.

    Attributes:
        spec: for the command line.
        environment: added to that of this process.
    """

    spec: str
    environment: Mapping[str, str] = {}


def hide_options(spec: str) -> Invocation:
    """Move the options of a remote to the environment; what can't be parsed stays on the command line."""
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


NOT_FOUND: Final = 3  # its exit code for a folder that does not exist

_MOST_TOLD = 300  # characters of a message


class RcloneProblem(NamedTuple):
    """A line of rclone's log: the object that it is about (empty for all), and its message."""

    about: str
    message: str


class Remote:
    """
    A remote as rclone's command line names it: ``remote:path``.

    Args:
        spec: may contain options (``:sftp,host=...,pass=...:path``).
        program: rclone's name or path.
        timeout_s: how long a connection of rclone may be silent.
        idle_s: how long rclone itself may be silent; a folder of a million names takes it minutes.

    Attributes:
        must_stop: ends all waiting for rclone when it returns true.
    """

    def __init__(self, spec: str, *, program: str, timeout_s: float, idle_s: float) -> None:
        self._invocation = hide_options(spec)
        self.idle_s = idle_s
        self.must_stop: Callable[[], bool] = lambda: False
        self.name = "rclone"
        self._program = program
        self._timeout_s = timeout_s
        options, is_hiding = _find_options(spec)
        self._secrets = sorted(options, key=len, reverse=True)
        self._shown_spec = re.sub(r",.*:", ",...:", spec, count=1, flags=re.DOTALL) if is_hiding else spec
        self.shown = Scheme.RCLONE.prefix + self._shown_spec

    def start(self, verb: str, *flags: str, names: Iterable[str] | None = None) -> RcloneRun:
        """
        Start rclone on the remote.

        Args:
            verb: rclone's command, of one or more words.
            names: of the only files that it examines, in rclone's spelling.

        Raises:
            ConfigError: rclone is not installed.
        """
        words = [self._program, *verb.split(), "--use-json-log", "--log-level=ERROR", "--ask-password=false"]
        words += ["--progress=false", "--low-level-retries=3", "--retries=1"]
        words += [f"--timeout={self._timeout_s:g}s", f"--contimeout={self._timeout_s:g}s", *flags]
        if names is not None:
            words.append("--files-from-raw=-")
        with TemporaryFile() as given:
            given.writelines(name.encode("utf-8", "surrogatepass") + b"\n" for name in names or ())
            given.seek(0)
            environment = self._invocation.environment
            return RcloneRun(
                self, [*words, "--", self._invocation.spec], package="rclone", given=given, environment=environment
            )

    def failed(self, reason: str) -> CopyUnreachable:
        """Return the error that the remote can't be reached, with the reason."""
        told = self.hide(reason)
        return CopyUnreachable(f"{self.shown}: {told}; see what rclone says of it: rclone lsf {self._shown_spec}")

    def hide(self, text: str) -> str:
        """Remove the secrets of the URL from a message, and make it one line."""
        for secret in self._secrets:
            text = text.replace(secret, "...")
        return " ".join(text.split())[:_MOST_TOLD]


def _find_options(spec: str) -> tuple[set[str], bool]:
    """Find the texts that must not be shown: the options of a connection string, and their values."""
    found = re.match(r":?[^,:/]*(,.*):", spec, re.DOTALL)
    if found is None:
        return set(), False
    values = (option.partition("=")[2].strip("\"'") for option in found[1].split(","))
    return {found[1], spec, *(value for value in values if len(value) > 2)}, True


class RcloneRun(Running):
    """One run of rclone, which logs JSON."""

    def complaints(self) -> Iterator[RcloneProblem]:
        """Read its log; after its end."""
        return map(_read_complaint, self.log_lines())

    def reason(self) -> str:
        """Return the last message of its log as the reason of a failure."""
        last = ""
        for complaint in self.complaints():
            last = complaint.message or last
        return last or super().reason()


def _read_complaint(line: bytes) -> RcloneProblem:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        # Its last line is not JSON: "2026/01/31 23:59:59 Failed to ..."
        text = re.sub(r"^[0-9/]+ [0-9:]+ ", "", line.decode("utf-8", "replace").strip())
        return RcloneProblem("", text)
    if not isinstance(fields, dict):
        return RcloneProblem("", "")
    about, message = fields.get("object"), fields.get("msg")
    return RcloneProblem(about if isinstance(about, str) else "", message if isinstance(message, str) else "")
