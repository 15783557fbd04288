"""
Check files by what their formats state of themselves, each in a child process without rights.

I1  A file that crashes, hangs or exhausts the child costs its own result and nothing else: the next file gets a new
    child.
I2  A file that changed while it was checked has no result.
"""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable

from integrity.errors import ReadInterrupted, Unreadable, Unstable, Vanished, show_path
from integrity.files.span import UNLIMITED, Pace
from integrity.files.stamps import witness_of
from integrity.inspect.formats import HEAD_BYTES, Format, find_damaged_beginning, find_format
from integrity.inspect.outcome import CheckResult, OwnCheck

_CPU_S = 30.0
_CPU_S_PER_BYTE = 1 / (512 << 10)
"""Computing time for a file: the slowest check, bzip2's, does some MiB a second on a small machine."""

_WAITS_PER_CPU_S = 4
"""How much longer it may take by the clock: a disk may be slow, a machine busy."""

_GAVE_UP = "its check takes too long or too much memory, or crashes"
_POLL_S = 0.5
_REPLY_BYTES = 4 << 20
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Inspector:
    """
    Check files, one at a time. To be used as a context manager.

    Args:
        must_stop: asked again and again while a file is checked.
        pace: of reading.
        cpu_s: computing time that every file gets, however small.
    """

    def __init__(
        self, must_stop: Callable[[], bool] = lambda: False, pace: Pace = UNLIMITED, *, cpu_s: float = _CPU_S
    ) -> None:
        self._must_stop, self._pace, self._cpu_s = must_stop, pace, cpu_s
        self._children: dict[str, _Child] = {}

    def __enter__(self) -> Inspector:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the children."""
        for child in self._children.values():
            child.end()
        self._children = {}

    def inspect_path(self, path: bytes) -> OwnCheck:
        """
        Check the file with a path.

        Raises:
            ReadError: it can't be read, is no regular file, or changed meanwhile.
        """
        try:
            fd = os.open(path, _OPEN)
        except OSError as error:
            raise Unreadable(f"{show_path(path)}: {error.strerror}", errno=error.errno or 0) from error
        try:
            return self.inspect(fd, path)
        finally:
            os.close(fd)

    def inspect(self, fd: int, path: bytes) -> OwnCheck:
        """
        Check an open file.

        Args:
            fd: stays the caller's.
            path: for its suffix, and for messages.

        Raises:
            ReadError: see ``inspect_path``.
        """
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise Vanished(f"{show_path(path)}: is no regular file")
        try:
            head = os.pread(fd, HEAD_BYTES, 0)
        except OSError as error:
            raise Unreadable(f"{show_path(path)}: {error.strerror}", errno=error.errno or 0) from error
        one = find_format(head, path)
        if one is None:
            return _judge_beginning(find_damaged_beginning(head, path))
        if not one.is_here:
            return OwnCheck(CheckResult.NO_LIBRARY, one.name, one.has_checksum)
        if one.name == "SQLite" and any(_has_bytes(path + end) for end in (b"-wal", b"-journal")):
            return OwnCheck(CheckResult.UNTESTABLE, one.name, reason="a program has it open, or left its log behind")
        self._pace.take(before.st_size)
        began_at = time.monotonic()
        found = self._ask(one, fd, self._cpu_s + before.st_size * _CPU_S_PER_BYTE)
        self._pace.took(before.st_size, time.monotonic() - began_at)
        if witness_of(os.fstat(fd)).stamps != witness_of(before).stamps:
            raise Unstable(f"{show_path(path)}: changed while it was checked; try again")
        return found

    def _ask(self, one: Format, fd: int, cpu_s: float) -> OwnCheck:
        child = self._children.get(one.module)
        if child is None:
            child = self._children[one.module] = _Child(one.module)
        reply = child.ask([one.name, cpu_s], fd, cpu_s * _WAITS_PER_CPU_S, self._must_stop)
        if reply is None:
            self._children.pop(one.module).end()
            if self._must_stop():
                raise ReadInterrupted("the check was interrupted")
            return OwnCheck(CheckResult.UNTESTABLE, one.name, one.has_checksum, _GAVE_UP)
        result, name, has_checksum, reason, uncovered = json.loads(reply)
        ranges = None if uncovered is None else tuple((begin, end) for begin, end in uncovered)
        return OwnCheck(CheckResult(result), name, has_checksum, reason, ranges)


def _has_bytes(path: bytes) -> bool:
    try:
        return os.lstat(path).st_size > 0
    except OSError:
        return False


def _judge_beginning(one: Format | None) -> OwnCheck:
    if one is None:
        return OwnCheck(CheckResult.UNKNOWN)
    return OwnCheck(CheckResult.FAILS, one.name, one.has_checksum, f"its beginning is not that of {one.name}")


class _Child:
    """A process that checks files with one library."""

    def __init__(self, module: str) -> None:
        self._channel, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "integrity.inspect.child", str(theirs.fileno()), module]
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": os.defpath, "OPENBLAS_NUM_THREADS": "1"} | _find_python_environment(),
            )

    def ask(self, request: list[object], fd: int, wait_s: float, must_stop: Callable[[], bool]) -> bytes | None:
        """Return the answer; None: the process ended, did not answer in time, or must not be waited for."""
        reply, until = b"", time.monotonic() + wait_s
        try:
            socket.send_fds(self._channel, [json.dumps(request).encode()], [fd])
            while not reply.endswith(b"\n"):
                if time.monotonic() > until or must_stop() or len(reply) > _REPLY_BYTES:
                    return None
                if select.select([self._channel], [], [], _POLL_S)[0]:
                    part = self._channel.recv(1 << 16)
                    if not part:
                        return None
                    reply += part
        except OSError:
            return None
        return reply

    def end(self) -> None:
        """End the process."""
        self._channel.close()
        self._process.kill()
        self._process.wait()


def _find_python_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
