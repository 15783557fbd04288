"""
Runs of the program that need not start an interpreter: most of what a short command costs is importing modules.

A process that has imported them (``support.warmserver``) forks for each run. What it forks is a process of its own with
the environment, folder, umask and standard streams that it is given. Runs that ask for anything more (another
library loaded first, a namespace, another user) start as users start the program.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from support import AnyPath

_SERVER = Path(__file__).with_name("warmserver.py")
_CHUNK_BYTES = _PIPE_BYTES = 1 << 16
# What a service imports when it starts, and most other runs never; servers of the tests.
_OF_SERVICES = ("integrity.service.", "integrity.copies.", "support.faultserver", "support.hub_pages")


class WarmProcess:
    """
    A run that was forked: ``subprocess.Popen`` as far as tests need it.

    Attributes:
        pid: its process id.
        returncode: None until its end was noticed.
    """

    def __init__(self, pid: int, reply: socket.socket) -> None:
        self.pid, self._reply = pid, reply
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit code if it has ended; negative if a signal ended it."""
        self._receive(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """
        Wait for its end, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: it goes on after ``timeout`` seconds.
        """
        self._receive(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("integrity", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has, and the news of it is on the way
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _receive(self, timeout_s: float | None) -> None:
        if self.returncode is not None:
            return
        with selectors.DefaultSelector() as selector:
            selector.register(self._reply, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                return
        self.returncode = int(self._reply.recv(64))  # one short line, which comes whole
        self._reply.close()


class WarmStart:
    """
    The forking process of this test process; see the module.

    Args:
        modules: of the tests, which it imports beside the program; with a dot behind it a package of the program, which
            it leaves out otherwise.
    """

    def __init__(self, *modules: str) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._owner = os.getpid()
        with theirs:
            # Pipes, as a run has them: what the interpreter found out of its streams at its start holds for all runs.
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_SERVER), str(theirs.fileno()), *modules],
                env={**os.environ, "PYTHONFAULTHANDLER": "1"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )

    def close(self) -> None:
        """End it."""
        self._control.close()
        if os.getpid() == self._owner:
            self._process.communicate()

    def run(
        self,
        args: Sequence[AnyPath],
        env: Mapping[str, str],
        cwd: AnyPath | None,
        timeout_s: float,
        *,
        stdin: bytes | None = None,
    ) -> tuple[int, bytes, bytes]:
        """
        Run the program to its end.

        Args:
            args: of the program.
            env: all of its environment.
            cwd: its working folder.
            timeout_s: how long it may take.
            stdin: what a pipe gives it, at most 64 KiB; None: nothing.

        Returns:
            its exit code (negative if a signal ended it), and what it printed on stdout and stderr.

        Raises:
            TimeoutError: it took too long, and was killed; with what it printed.
        """
        with ExitStack() as stack:
            (out, its_out), (err, its_err) = os.pipe(), os.pipe()
            for fd in (out, err):
                stack.callback(os.close, fd)
            with ExitStack() as given:
                for fd in (its_out, its_err):
                    given.callback(os.close, fd)
                its_in = _fill_pipe(stdin, given)
                process = self.start(args, env, its_out, its_err, cwd=cwd, stdin=its_in)
            printed = {out: bytearray(), err: bytearray()}
            deadline = time.monotonic() + timeout_s
            if not read_all(printed, deadline):
                process.kill()
                raise TimeoutError(f"{bytes(printed[out])!r} {bytes(printed[err])!r}")
            return process.wait(), bytes(printed[out]), bytes(printed[err])

    def start(
        self,
        args: Sequence[AnyPath],
        env: Mapping[str, str],
        stdout: int,
        stderr: int,
        *,
        cwd: AnyPath | None = None,
        stdin: int | None = None,
        is_leader: bool = False,
        module: str = "integrity",
    ) -> WarmProcess:
        """
        Start the program with descriptors for its output and, but for None, its input; the caller closes them.

        Args:
            args: of the program.
            env: all of its environment.
            stdout: where it prints.
            stderr: where it prints errors.
            cwd: its working folder.
            stdin: what it reads.
            is_leader: of a session of its own.
            module: what is run, as by ``python -m``.
        """
        message = {
            "args": [os.fsdecode(arg) for arg in args],
            "env": dict(env),
            "cwd": os.fsdecode(cwd or os.getcwd()),
            "umask": _get_umask(),
            "is_leader": is_leader,
            "module": module,
        }
        reply, its_reply = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_reply:
            fds = [stdout, stderr, its_reply.fileno(), *([] if stdin is None else [stdin])]
            socket.send_fds(self._control, [json.dumps(message).encode()], fds)
        first = reply.recv(64)
        assert first, f"{_SERVER.name} ended: {self._process.communicate()[1].decode(errors='replace')}"
        return WarmProcess(int(first), reply)


def _fill_pipe(data: bytes | None, stack: ExitStack) -> int | None:
    """Return the end of a pipe from which ``data`` can be read; the stack closes it."""
    if data is None:
        return None
    assert len(data) <= _PIPE_BYTES
    read_end, write_end = os.pipe()
    stack.callback(os.close, read_end)
    with open(write_end, "wb") as pipe:
        pipe.write(data)
    return read_end


def _get_umask() -> int:
    """Return this process's, without changing it for a moment under its threads."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


def read_all(printed: dict[int, bytearray], deadline: float) -> bool:
    """Read pipes to their ends; tell whether these came before the deadline."""
    with selectors.DefaultSelector() as selector:
        for fd in printed:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return False
            for key, _ in ready:
                data = os.read(key.fd, _CHUNK_BYTES)
                printed[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
    return True


@functools.cache
def get_warm_start(*, has_services: bool = False) -> WarmStart:
    """Return the one of this test process; with ``has_services`` the one that has imported services, too."""
    warm = WarmStart(*(_OF_SERVICES if has_services else ()))
    atexit.register(warm.close)
    return warm
