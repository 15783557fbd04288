"""The program while it runs: for tests that do something to it, or beside it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from support import AnyPath
from support.cli import Box, Completed, complete, make_command
from support.waiting import wait_until

_TIMEOUT_S = 60.0


class Running:
    """
    ``integrity`` in the background: ``with Running(box, "scan", root) as running: ...; done = running.finish()``.

    It never outlives the block. ``env`` is on top of the isolated environment.
    """

    def __init__(self, box: Box, *args: AnyPath, env: Mapping[str, str] | None = None) -> None:
        self._box, self._args = box, args
        self._env = box.environment | dict(env or {})

    def __enter__(self) -> Running:
        self._process = subprocess.Popen(
            make_command(*self._args),
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def read_error(self) -> str:
        """Wait for a line on standard error and return it; what ``finish`` returns begins behind it."""
        assert self._process.stderr is not None
        return self._process.stderr.readline().decode(errors="replace")

    def read_output(self) -> str:
        """Wait for a line on standard output and return it; what ``finish`` returns begins behind it."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().decode(errors="replace")

    def signal_and_wait(self, number: signal.Signals) -> None:
        """Send a signal, and wait until it has arrived."""
        self.signal(number)
        wait_until(lambda: not _is_pending(self._process.pid, number), f"{number.name} to arrive", timeout_s=30)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self._process.pid, number)

    def finish(self, timeout_s: float = _TIMEOUT_S) -> Completed:
        """Wait for its end and return what it left."""
        out, err = self._process.communicate(timeout=timeout_s)
        return complete(self._process.returncode, out, err, is_json="--json" in self._args)


def _is_pending(pid: int, number: signal.Signals) -> bool:
    """Say whether a process still has a signal before it; not so of one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
    return bool(int(status.partition("ShdPnd:")[2].split()[0], 16) >> (number - 1) & 1)
