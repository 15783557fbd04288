"""
The program in a fork of this process, killed with SIGKILL right before its n-th call that changes something.

What a start of the program costs, imports above all, is paid once, by this process: it must have one thread only, and
should have run each command once (``run_here``). The kill is exact: see ``shims/killpoint.c``. x86-64 only.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import mmap
import os
import platform
import re
import select
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from support import AnyPath
from support.cli import Completed, complete
from support.programs import sh

_SOURCE = Path(__file__).parent / "shims" / "killpoint.c"
_HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
_ROOM = 1 << 16
_TIMEOUT_S = 120.0
_SERVICE_S = 2.0  # so long a service works at least


class Killed(NamedTuple):
    """
    How a run in a fork ended.

    Attributes:
        was_killed: it met its kill; else it ended by itself before.
        completed: what each of its commands left; of a killed run, what those left that had ended.
        calls: the names of the calls that change something, in order, up to its end.
    """

    was_killed: bool
    completed: list[Completed]
    calls: list[str]


def is_possible() -> bool:
    """Say whether this machine's calls can be caught."""
    return platform.machine() == "x86_64"


def run_forked(
    commands: Sequence[Sequence[AnyPath]],
    env: Mapping[str, str],
    *,
    kill_at: int = 0,
    errno: int = 0,
    is_done: Callable[[], bool] | None = None,
    timeout_s: float = _TIMEOUT_S,
) -> Killed:
    """
    Run commands one after the other in a fork of this process.

    Args:
        commands: the arguments of each.
        env: of the program, on top of this process's.
        kill_at: number (from 1) of the call before which it is killed, over all commands; 0: never.
        errno: with this that call and all later ones fail, and it is not killed; 0: it is.
        is_done: of a service, which is told to end as soon as this is true; commands hurry, a service does not.
        timeout_s: then it is killed, and the campaign ends.
    """
    library = _load()
    with mmap.mmap(-1, 8 + 4 * _ROOM) as shared, tempfile.TemporaryFile() as results:
        pid = os.fork()
        if pid == 0:
            _be_the_run(library, shared, results.fileno(), commands, env, kill_at, errno, hurries=is_done is None)
        status = _wait(pid, timeout_s, is_done)
        (count,) = struct.unpack_from("=Q", shared)
        numbers = struct.unpack_from(f"={min(count, _ROOM)}L", shared, 8)
        results.seek(0)
        completed = [
            complete(code, results.read(out), results.read(err), is_json="--json" in args)
            for args in commands
            if len(head := results.read(24)) == 24
            for code, out, err in [struct.unpack("=qQQ", head)]
        ]
    was_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert was_killed or status == 0, f"{commands}: wait status {status}; {completed}"
    return Killed(was_killed, completed, [_get_names().get(number, str(number)) for number in numbers])


def _wait(pid: int, timeout_s: float, is_done: Callable[[], bool] | None) -> int:
    """Wait for the end of a process; return its wait status."""
    fd = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    began = time.monotonic()
    try:
        while not poll.poll(50 if is_done else timeout_s * 1000):
            if is_done is not None and time.monotonic() - began < _SERVICE_S:
                continue  # it may be done by what was there before it
            if time.monotonic() - began > timeout_s:
                os.kill(pid, signal.SIGABRT)  # faulthandler tells where it was
                is_done = None
            elif is_done is not None and is_done():
                os.kill(pid, signal.SIGTERM)
                is_done = None
        return os.waitpid(pid, 0)[1]
    finally:
        os.close(fd)


def _be_the_run(
    library: ctypes.CDLL,
    shared: mmap.mmap,
    results: int,
    commands: Sequence[Sequence[AnyPath]],
    env: Mapping[str, str],
    kill_at: int,
    errno: int,
    *,
    hurries: bool,
) -> None:
    """Run the commands in this process, and end it."""
    code = 70
    try:
        address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(shared)))
        error = library.killpoint_arm(
            address, ctypes.c_uint64(_ROOM), ctypes.c_uint64(kill_at), hurries, errno, results
        )
        assert error == 0, os.strerror(error)
        os.environ.update(env)
        for args in commands:
            _run_one(results, args)
        code = 0
    except BaseException:  # noqa: BLE001 - this process must never get back into the campaign
        os.write(results, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _run_one(results: int, args: Sequence[AnyPath]) -> None:
    from integrity.cli import main

    for number, name in ((1, "stdout"), (2, "stderr")):  # truncating one would be a call that changes something
        fd = os.memfd_create(name)
        os.dup2(fd, number)
        os.close(fd)
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.argv[1:] = [os.fsdecode(arg) for arg in args]
    code = int(main())
    sys.stdout.flush()
    sys.stderr.flush()
    texts = [os.pread(fd, os.fstat(fd).st_size, 0) for fd in (1, 2)]
    os.write(results, struct.pack("=qQQ", code, *map(len, texts)) + b"".join(texts))


@functools.cache
def _load() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "killpoint.so"
        sh("cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", library, _SOURCE)
        gc.freeze()
        return ctypes.CDLL(str(library))


@functools.cache
def _get_names() -> dict[int, str]:
    """Return the names of the system calls by number."""
    lines = _HEADER.read_text(encoding="ascii") if _HEADER.exists() else ""
    return {int(number): name for name, number in re.findall(r"#define __NR_(\w+) (\d+)", lines)}


def sleep_into_next_second() -> None:
    """Wait until the clock shows another second: what the catalog notes later can then be told from before."""
    second = int(time.time())
    while int(time.time()) == second:
        time.sleep(0.01)
