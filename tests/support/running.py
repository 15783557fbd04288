"""The program while it runs: for tests that do something to it, or beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from support import AnyPath
from support.cli import Box, Completed, Process, can_share_start, complete, make_command, start_integrity
from support.waiting import wait_until
from support.warmstart import read_all

_TIMEOUT_S = 60.0


class Running:
    """
    ``integrity`` in the background: ``with Running(box, "scan", root) as running: ...; done = running.finish()``.

    It never outlives the block. ``env`` is on top of the isolated environment.
    """

    def __init__(self, box: Box, *args: AnyPath, env: Mapping[str, str] | None = None) -> None:
        self._box, self._args = box, args
        self._env = box.environment | dict(env or {})
        self._is_shared = can_share_start(env or ())

    def __enter__(self) -> Running:
        (out, its_out), (err, its_err) = os.pipe(), os.pipe()
        self._out, self._err = open(out, "rb", buffering=0), open(err, "rb", buffering=0)
        try:
            self._process = start_integrity(self._args, self._env, its_out, its_err, is_shared=self._is_shared)
        finally:
            os.close(its_out)
            os.close(its_err)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._out.close()
        self._err.close()

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
        return self._err.readline().decode(errors="replace")

    def read_output(self) -> str:
        """Wait for a line on standard output and return it; what ``finish`` returns begins behind it."""
        return self._out.readline().decode(errors="replace")

    def signal_and_wait(self, number: signal.Signals) -> None:
        """Send a signal, and wait until it has arrived."""
        self.signal(number)
        wait_until(lambda: not _is_pending(self._process.pid, number), f"{number.name} to arrive")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if not self.has_ended:
            os.kill(self._process.pid, number)

    def finish(self, timeout_s: float = _TIMEOUT_S) -> Completed:
        """Wait for its end and return what it left."""
        printed = {self._out.fileno(): bytearray(), self._err.fileno(): bytearray()}
        if not read_all(printed, time.monotonic() + timeout_s):
            raise subprocess.TimeoutExpired("integrity", timeout_s)
        out, err = map(bytes, printed.values())
        return complete(self._process.wait(timeout_s), out, err, is_json="--json" in self._args)


class Background:
    """
    A program that goes on until it is told to end, and its log; it never outlives the block, but may be started again.

    Args:
        command: its argv; of ``integrity``: as ``make_command`` makes it, for a start that is shared with others.
        env: its whole environment.
        log: the file for all that it prints, behind what is there.
        ready: what it prints once it serves.

    Attributes:
        is_shared: the start of ``integrity`` may be that of others; not where its memory is measured.
    """

    is_shared = True

    def __init__(self, command: Sequence[AnyPath], env: Mapping[str, str], log: Path, ready: str = "") -> None:
        self._command, self._environment, self._log, self._ready = command, env, log, ready
        self._process: Process | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        if error is not None:
            print(f"--- {self._log}\n{self.log}")  # pytest shows it with the failure
        self.stop()

    @property
    def log(self) -> str:
        """All that it printed."""
        return self._log.read_text("utf-8", "replace")

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> None:
        """Start it and wait until it serves."""
        with open(self._log, "ab") as log:
            before = log.tell()
            self._process = self._spawn(log.fileno())
        try:
            wait_until(lambda: self._ready in self.log[before:] or self.has_ended, f"{self._ready!r} in the log")
            assert not self.has_ended, self.log
        except BaseException:
            self._process.kill()
            raise

    def _spawn(self, log: int) -> Process:
        own = make_command()
        if list(self._command[: len(own)]) == own:
            return start_integrity(self._command[len(own) :], self._environment, log, log, is_shared=self.is_shared)
        return subprocess.Popen(self._command, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        assert self._process is not None
        return self._process.wait(_TIMEOUT_S)

    def stop(self, number: int = signal.SIGTERM) -> int | None:
        """End it, and return its exit code, unless that was done before; SIGKILL is a crash."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(number)
        try:
            return process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def _is_pending(pid: int, number: signal.Signals) -> bool:
    """Say whether a process still has a signal before it; not so of one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return bool(int(status.partition("ShdPnd:")[2].split()[0], 16) >> (number - 1) & 1)
