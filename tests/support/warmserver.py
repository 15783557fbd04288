"""
The process behind ``support.warmstart``: it has imported the program, and forks once for each run of it.

It is told by messages on the socket whose descriptor is its first argument: JSON with ``args``, ``env``, ``cwd``,
``umask``, ``is_leader`` and ``module``, and descriptors: the run's stdout and stderr, a socket for the pid and then the
exit code, and its stdin if it has one. It ends with the other end of the socket. Further arguments are what it imports
besides: modules of the tests, and packages of the program with a dot behind them.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import integrity

_MESSAGE_BYTES = 1 << 20
# What few runs import, and what is no library. A fork costs the more, the more memory there is.
_COLD = (
    "integrity.__main__",
    "integrity.migrations",
    "integrity.catalog.rebuild",
    "integrity.copies.",
    "integrity.service.",
)
_FIRST_FD, _LAST_FD = 3, 4096


def main() -> str:
    """Wait for runs; return in the child of a fork, with everything set up for the module that is to be run."""
    packages = {name for name in sys.argv[2:] if name.endswith(".")}
    cold = tuple(name for name in _COLD if name not in packages)
    for module in pkgutil.walk_packages(integrity.__path__, "integrity."):
        if not module.name.startswith(cold):
            importlib.import_module(module.name)
    _import_tests([name for name in sys.argv[2:] if name not in packages])
    gc.freeze()
    control = socket.socket(fileno=int(sys.argv[1]))
    poll = select.poll()
    poll.register(control, select.POLLIN)
    runs: dict[int, tuple[int, int]] = {}
    while True:
        for fd, _ in poll.poll():
            if fd in runs:
                pid, reply = runs.pop(fd)
                poll.unregister(fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with suppress(BrokenPipeError):  # it took too long: nobody waits any more
                    os.write(reply, b"%d\n" % code)
                os.close(fd)
                os.close(reply)
                continue
            message, fds, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 4)
            if not message:
                sys.exit()
            pid = os.fork()
            if pid == 0:
                control.detach()
                run = json.loads(message)
                become(run, *fds)
                return str(run["module"])
            reply = fds.pop(2)
            for given in fds:
                os.close(given)
            os.write(reply, b"%d\n" % pid)
            watched = os.pidfd_open(pid)
            runs[watched] = pid, reply
            poll.register(watched, select.POLLIN)


def _import_tests(names: list[str]) -> None:
    sys.path.append(str(Path(__file__).parents[1]))
    for name in names:
        with suppress(ImportError, OSError):  # a library is missing on this machine: a run would say so
            importlib.import_module(name)
    sys.path.pop()


def become(run: dict[str, Any], out: int, err: int, _: int, stdin: int = 0) -> None:
    """Make this process what one that was started with the run's arguments would be."""
    os.dup2(stdin, 0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    if run["is_leader"]:
        os.setsid()
    os.closerange(_FIRST_FD, _LAST_FD)
    os.environ.clear()
    os.environ.update(run["env"])
    tempfile.tempdir = None  # found out again from the environment
    time.tzset()
    os.umask(run["umask"])
    os.chdir(run["cwd"])
    sys.argv[1:] = run["args"]


def run_program(module: str) -> int:
    """Run a module as the interpreter does, and return its exit code."""
    if module.startswith("support."):
        sys.path.append(str(Path(__file__).parents[1]))
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 0


def leave_with(code: int) -> None:
    """End as an interpreter does, but without taking apart what a fork shares with the others: it would be copied."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    leave_with(run_program(main()))
