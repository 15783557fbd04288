"""
Processes under test: what they cost, and killing them at chosen moments.

A kill -9 loses nothing that was written: it finds torn multi-step updates and stale locks. For lost writes there is
``crashdisk``.
"""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from support import AnyPath

_TIMEOUT_S = 120.0
_METER = Path(__file__).with_name("meter.py")


@dataclass(frozen=True, slots=True)
class Cost:
    """
    What a command printed and what it cost.

    Attributes:
        code: its exit code; negative if a signal ended it.
        stdout: as bytes.
        stderr: as bytes.
        read_bytes: fetched from storage for it (proc(5), /proc/pid/io): what the page cache had adds nothing, so a
            command that has read a disk of N bytes shows at least N.
        asked_bytes: what its read calls returned (rchar), from wherever.
        write_bytes: sent to storage.
        peak_rss_bytes: the most memory it held; not below some 10 MB, the size of the Python that started it.
        wall_s: from its start to its end.
        cpu_s: user and system time, with those of its children that it waited for.
    """

    code: int
    stdout: bytes
    stderr: bytes
    read_bytes: int
    asked_bytes: int
    write_bytes: int
    peak_rss_bytes: int
    wall_s: float
    cpu_s: float


def measure(
    command: Sequence[AnyPath],
    *,
    env: Mapping[str, str] | None = None,
    cwd: AnyPath | None = None,
    timeout: float = _TIMEOUT_S,
) -> Cost:
    """
    Run ``command`` and say what it cost; root only, as the I/O counters of a process that ended are root's.

    A small process of its own starts the command: a child's peak memory counts that of the process it was forked from,
    and a test run is large.
    """
    with tempfile.TemporaryDirectory() as home:
        report = Path(home) / "report"
        done = _run([sys.executable, "-I", "-S", _METER, report, *command], env=env, cwd=cwd, timeout=timeout)
        assert report.exists(), f"not started: {done.stderr.decode(errors='replace')}"
        numbers = json.loads(report.read_bytes())
    return Cost(stdout=done.stdout, stderr=done.stderr, **numbers)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int  # negative if a signal ended it
    stdout: bytes
    stderr: bytes

    @property
    def was_killed(self) -> bool:
        """Whether kill -9 ended it."""
        return self.code == -signal.SIGKILL


def count_descriptors() -> int:
    """Return how many descriptors this process has open, with the one that counts them, and no forgotten ones."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def signal_at(
    command: Sequence[AnyPath],
    call: str,
    nth: int,
    *,
    has_exchange: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: AnyPath | None = None,
    timeout: float = _TIMEOUT_S,
) -> Ended:
    """
    Run ``command`` and kill -9 it right before its ``nth`` (from 1) system call of this name; needs strace.

    Count up until ``was_killed`` is false, and every moment before such a call was tried. Several names are to be tried
    one after the other, for strace counts each by itself; threads count for themselves, too.
    "unlink,rename,fsync,fdatasync,pwrite64,ftruncate" covers what SQLite does to the disk. Without ``has_exchange``
    renameat2 fails as on a file system that has no exchange of names.
    """
    inject = ["-e", f"trace={call},renameat2", "-e", f"inject={call}:signal=KILL:when={nth}"]
    inject += [] if has_exchange else ["-e", "inject=renameat2:error=EINVAL"]
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", *inject]
    return _run([*strace, *command], env=env, cwd=cwd, timeout=timeout)


def count_calls(
    command: Sequence[AnyPath], calls: Sequence[str], *, has_exchange: bool = True, env: Mapping[str, str] | None = None
) -> dict[str, int]:
    """Run ``command`` to its end, and return up to which ``nth`` each of the calls that it makes can be its last."""
    with tempfile.NamedTemporaryFile("r") as log:
        inject = [] if has_exchange else ["-e", "inject=renameat2:error=EINVAL"]
        strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", log.name, "-e", f"trace={','.join(calls)},renameat2"]
        ended = _run([*strace, *inject, *command], env=env, cwd=None, timeout=_TIMEOUT_S)
        assert ended.code == 0, ended
        made = Counter(re.findall(r"^(\d+) +(\w+)\(", log.read(), re.MULTILINE))
    most: dict[str, int] = {}
    for (_, call), times in made.items():  # of each thread
        most[call] = max(times, most.get(call, 0))
    return most


def _run(
    command: Sequence[AnyPath],
    *,
    env: Mapping[str, str] | None,
    cwd: AnyPath | None,
    timeout: float,
) -> Ended:
    """Run a command in a process group of its own and leave none of the group behind."""
    process = subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _, err = process.communicate()
            raise AssertionError(f"{command!r} took more than {timeout} s; stderr: {err!r}") from None
    return Ended(process.returncode, out, err)
