"""
Send alerts to a program: as JSON on standard input, with a time limit.

``run_program`` is also used for sendmail.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import NamedTuple

from integrity.catalog.outbox import Message
from integrity.errors import ChannelError

TIMEOUT_S = 60.0
_MOST_TOLD = 500  # bytes from the end of its stderr


class FinishedProgram(NamedTuple):
    """The exit code of a program and the end of its stderr, joined to one line."""

    code: int
    stderr: str


def run_program(argv: Sequence[str], data: bytes, *, timeout_s: float = TIMEOUT_S) -> FinishedProgram:
    """
    Run a program with data on its standard input.

    Its streams are files, not pipes: a background process that it leaves behind can't block us.

    Raises:
        ChannelError: the program can't be started, or exceeded the time limit and was killed with its children.
    """
    with TemporaryFile() as given, TemporaryFile() as complaints:
        given.write(data)
        given.seek(0)
        try:
            process = subprocess.Popen(
                argv, stdin=given, stdout=subprocess.DEVNULL, stderr=complaints, start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise ChannelError(f"{argv[0]}: can't be started: {reason}", is_permanent=True) from error
        with process:
            try:
                code = process.wait(timeout_s)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                raise ChannelError(f"{argv[0]}: did not end within {timeout_s:g} s and was killed") from error
        size = complaints.seek(0, os.SEEK_END)
        complaints.seek(max(0, size - _MOST_TOLD))
        return FinishedProgram(code, " ".join(complaints.read().decode("utf-8", "replace").split()))


@dataclass(frozen=True, slots=True)
class CommandChannel:
    """A channel that starts a program for each message; no shell is involved."""

    argv: tuple[str, ...]
    timeout_s: float = TIMEOUT_S

    @property
    def name(self) -> str:
        return "command"

    def send(self, message: Message) -> None:
        """Run the program. Exit code 0 means that it accepted the message."""
        ended = run_program(self.argv, message.facts.encode() + b"\n", timeout_s=self.timeout_s)
        if ended.code:
            how = f"exit code {ended.code}" if ended.code > 0 else f"ended by signal {-ended.code}"
            raise ChannelError(f"{self.argv[0]}: {how}: {ended.stderr or 'it did not say why'}")
