"""The real service in a process of its own, as systemd runs it: it tells a socket of the test how it is."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from support import AnyPath
from support.cli import Box, Process, can_share_start, make_command, start_integrity
from support.stored import query
from support.waiting import TimedOutError, wait_until

START_S = 120.0
"""A Python that starts on busy cores."""

STOP_S = 10.0
"""Within so long of SIGTERM the service has ended."""


class Service:
    """
    ``with Service(box) as service: ...`` starts ``integrity daemon`` and waits until it is ready; it never outlives it.

    Args:
        box: whose catalog and configuration are served.
        args: options before ``daemon``.
        env: on top of the box's environment.
        wrapper: a command that runs the daemon's, say in a namespace; it must become it (exec).
        is_awaited: wait until it is ready; else the block begins at once.
        is_shared: its start may be that of others; else it has a command line of its own.
    """

    def __init__(
        self,
        box: Box,
        *args: AnyPath,
        env: Mapping[str, str] | None = None,
        wrapper: Sequence[AnyPath] = (),
        is_awaited: bool = True,
        is_shared: bool = True,
    ) -> None:
        self._box, self._args, self._wrapper, self._is_awaited = box, args, wrapper, is_awaited
        # abstract: the name is short however long the box's path is, and nothing stays behind
        name = f"integrity-test-{secrets.token_hex(8)}"
        runtime = {"RUNTIME_DIRECTORY": box.environment["XDG_RUNTIME_DIR"]}  # root's would be the machine's own
        self._environment = {**box.environment, **runtime, "NOTIFY_SOCKET": f"@{name}", **(env or {})}
        self._is_shared = is_shared and can_share_start(env or ())
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(b"\0" + name.encode())
        self._messages: list[str] = []
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, name="notify", daemon=True)
        self._log = box.home / "daemon.log"

    def __enter__(self) -> Service:
        self._reader.start()
        self._began_at = time.time()
        with open(self._log, "ab") as log:
            self._process = self._start(log.fileno())
        if self._is_awaited:
            try:
                self.wait_ready()
            except BaseException:
                self._end()
                raise
        return self

    def _start(self, log: int) -> Process:
        args = [*self._args, "daemon"]
        if not self._wrapper:
            return start_integrity(args, self._environment, log, log, is_shared=self._is_shared, is_leader=True)
        return subprocess.Popen(
            [*self._wrapper, *make_command(*args)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            print(f"--- the service's log\n{self.log}")  # pytest shows it with the failure
        self._end()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    @property
    def is_leaving(self) -> bool:
        """Whether all of it has ended but threads that hang in the kernel."""
        try:
            status = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8")
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            return False
        return status.rpartition(")")[2].split()[0] == "Z"

    @property
    def bytes_read(self) -> int:
        """How much its read calls have returned so far, from wherever."""
        with open(f"/proc/{self.pid}/io", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("rchar:")).split()[1])

    @property
    def log(self) -> str:
        """All that it, and the services of this box before it, printed."""
        return self._log.read_text(encoding="utf-8", errors="backslashreplace")

    @property
    def messages(self) -> list[str]:
        """What it told, one assignment each: ``READY=1``, ``STATUS=...``, ``WATCHDOG=1``, in order."""
        with self._lock:
            return list(self._messages)

    @property
    def status(self) -> str:
        """The last status that it told."""
        return next(
            (line.removeprefix("STATUS=") for line in reversed(self.messages) if line.startswith("STATUS=")), ""
        )

    def wait_ready(self, nth: int = 1, *, timeout_s: float = START_S) -> None:
        """Wait until it is ready for the ``nth`` time: the first time after its start, then after each reload."""
        self._wait(lambda: self.messages.count("READY=1") >= nth, f"READY=1 number {nth}", timeout_s)

    def wait_status(self, part: str, *, timeout_s: float = START_S) -> None:
        """Wait until its status contains ``part``."""
        self._wait(lambda: part in self.status, f"status with {part!r}", timeout_s)

    def wait_log(self, part: str, *, timeout_s: float = START_S) -> None:
        """Wait until ``part`` stands in its log."""
        self._wait(lambda: part in self.log, f"{part!r} in the log", timeout_s)

    def wait_idle(self, *, timeout_s: float = START_S) -> None:
        """Wait until it has nothing to do."""
        self._wait(lambda: self.status.startswith("idle") and "waiting" not in self.status, "idle service", timeout_s)

    def wait_begun(self, roots: int = 1) -> None:
        """Wait until at least so many roots have been scanned, which are watched then, and nothing is left to do."""
        ended = "SELECT count(DISTINCT root_id) FROM run WHERE started_at >= ? AND outcome IS NOT NULL"
        since = (int(self._began_at),)
        self._wait(lambda: query(self._box, ended, since) >= [(roots,)], f"{roots} roots scanned", START_S)
        self.wait_idle()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self._process.pid, number)

    def reload(self) -> None:
        """Send SIGHUP and wait until it is ready again."""
        nth = self.messages.count("READY=1") + 1
        self.signal(signal.SIGHUP)
        self.wait_ready(nth)

    def stop(self, *, within_s: float = STOP_S, code: int = 0) -> float:
        """
        Send SIGTERM, insist that it ends in time and with ``code``, and return how many seconds it took.

        A thread that hangs in the kernel keeps the process in the table until what it hangs on is over: such a one has
        no code yet.
        """
        began = time.monotonic()
        self.signal(signal.SIGTERM)
        try:
            wait_until(lambda: self.has_ended or self.is_leaving, "the end", timeout_s=within_s)
        except TimedOutError as error:
            raise TimedOutError(f"{error}; status {self.status!r}") from None
        ended = self._process.poll()
        assert ended in (code, None), f"exit {ended}, not {code}\n{self.log}"
        return time.monotonic() - began

    def wait_end(self, *, timeout_s: float = START_S) -> int:
        """Wait until it has ended by itself, and return its exit code."""
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """Kill -9."""
        self._process.kill()
        self._process.wait()

    def _wait(self, is_so: Callable[[], bool], what: str, timeout_s: float) -> None:
        def is_so_or_dead() -> bool:
            if is_so():
                return True
            assert not self.has_ended, f"{what}: the service ended with {self._process.returncode}\n{self.log}"
            return False

        try:
            wait_until(is_so_or_dead, what, timeout_s=timeout_s, every_s=0.02)
        except TimedOutError as error:
            raise TimedOutError(f"{error}; status {self.status!r}") from None

    def _read(self) -> None:
        while datagram := self._socket.recv(65_536):
            with self._lock:
                self._messages += [line for line in datagram.decode(errors="replace").split("\n") if line]

    def _end(self) -> None:
        """Kill it unless it has ended; an empty message ends the thread that listens."""
        if self._process.poll() is None:
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel: it goes with what it hangs on
            self._process.wait(STOP_S)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", self._socket.getsockname())
        self._reader.join()
        self._socket.close()
