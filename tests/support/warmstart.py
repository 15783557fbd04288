"""
Runs of the program that need not start an interpreter: most of what a short command costs is importing modules.

A process that has imported them (``support.warmserver``) forks for each run. What it forks is a process of its own with
the environment, folder, umask and standard streams that it is given. Runs that ask for anything more (another
environment, a namespace, another user, a library loaded first) start as users start the program.
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
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from support import AnyPath

_SERVER = Path(__file__).with_name("warmserver.py")
_CHUNK_BYTES = 1 << 16


class WarmStart:
    """
    The forking process of this test process; see the module.

    Args:
        modules: of the tests, which it imports beside the program.
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
        self, args: list[AnyPath], env: Mapping[str, str], cwd: AnyPath | None, timeout_s: float
    ) -> tuple[int, bytes, bytes]:
        """
        Run the program to its end.

        Returns:
            its exit code (negative if a signal ended it), and what it printed on stdout and stderr.

        Raises:
            TimeoutError: it took too long, and was killed; with what it printed.
        """
        message = {
            "args": [os.fsdecode(arg) for arg in args],
            "env": dict(env),
            "cwd": os.fsdecode(cwd or os.getcwd()),
            "umask": _get_umask(),
        }
        with ExitStack() as stack:
            reply, its_reply = socket.socketpair()
            (out, its_out), (err, its_err) = os.pipe(), os.pipe()
            for fd in (out, err):
                stack.callback(os.close, fd)
            stack.enter_context(reply)
            try:
                given = [its_out, its_err, its_reply.fileno()]
                socket.send_fds(self._control, [json.dumps(message).encode()], given)
            finally:
                its_reply.close()
                os.close(its_out)
                os.close(its_err)
            answers = stack.enter_context(reply.makefile("rb"))
            first = answers.readline()
            assert first, f"{_SERVER.name} ended: {self._process.communicate()[1].decode(errors='replace')}"
            pid = int(first)
            printed = {out: bytearray(), err: bytearray()}
            if not _read(printed, time.monotonic() + timeout_s):
                os.kill(pid, signal.SIGKILL)
                raise TimeoutError(f"{bytes(printed[out])!r} {bytes(printed[err])!r}")
            return int(answers.readline()), bytes(printed[out]), bytes(printed[err])


def _get_umask() -> int:
    """Return this process's, without changing it for a moment under its threads."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


def _read(printed: dict[int, bytearray], deadline: float) -> bool:
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
def get_warm_start() -> WarmStart:
    """Return the one of this test process."""
    warm = WarmStart()
    atexit.register(warm.close)
    return warm
