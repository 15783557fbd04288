"""
Two programs on one disk, and how fast each of them is.

``with Load("rival", folder) as rival: rival.measure(2.0)``; a load runs in a process of its own until the block ends.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from support.diskreader import COUNTER
from support.faultfs import Rule
from support.waiting import wait_until

_START_S = 30.0

SLOW_DISK = Rule("read", rate_bytes_per_s=60e6, seek_s=0.01)
"""A disk of 60 MB/s with a seek time of 10 ms."""


def plant_load(folder: Path, size_mib: int = 24) -> None:
    """Write two files of ours and one of the rival's."""
    for name in ("rival", "ours1", "ours2"):
        with open(folder / name, "wb") as file:
            file.write(os.urandom(size_mib << 20))
            file.flush()
            os.fsync(file.fileno())


class Load:
    """
    A process that reads a disk.

    Args:
        kind: "rival" reads the file "rival", "scrub" our way all files whose names begin with "ours".
        folder: where they lie.
        group: the cgroup to put it in, if any.
        has_pressure: whether the pace hears of the kernel's pressure.
        has_blocks: whether it sees the disk's statistics.
        jobs: the scrub's threads.
        needed_bytes_per_s: what the promise needs.
        floor_bytes_per_s: of the pace.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        *,
        group: Path | None = None,
        has_pressure: bool = True,
        has_blocks: bool = True,
        jobs: int = 1,
        needed_bytes_per_s: int = 0,
        floor_bytes_per_s: int = 4 << 20,
    ) -> None:
        options = {"has_pressure": has_pressure, "has_blocks": has_blocks, "jobs": jobs}
        options |= {"needed_bytes_per_s": needed_bytes_per_s, "floor_bytes_per_s": floor_bytes_per_s}
        self._arguments = [str(folder), json.dumps(options)]
        self._kind, self._group = kind, group

    def __enter__(self) -> Load:
        self._counter = tempfile.NamedTemporaryFile(prefix="counter-")
        self._counter.truncate(COUNTER.size)
        self._shared = mmap.mmap(self._counter.fileno(), COUNTER.size)
        group = self._group
        command = [sys.executable, "-m", "support.diskreader", self._kind, self._counter.name, *self._arguments]
        if group is not None:  # before anything is read
            command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"), *command]
        path = os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])
        self._process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE)
        wait_until(self._has_begun, f"{self._kind} reads", timeout_s=_START_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._shared.close()
        self._counter.close()

    @property
    def bytes_read(self) -> int:
        """What it has read so far."""
        return self._read()[0]

    @property
    def rate_bytes_per_s(self) -> float:
        """What its pace allows now."""
        return self._read()[1]

    def measure(self, duration_s: float) -> float:
        """Return how many bytes a second it reads, over that many seconds from now."""
        return measure(duration_s, self)[0]

    def _read(self) -> tuple[int, float]:
        count, rate = COUNTER.unpack_from(self._shared)
        return count, rate

    def _has_begun(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"{self._kind} ended: {self._process.communicate()[1].decode(errors='replace')}")
        return self.bytes_read > 0


def measure(duration_s: float, *loads: Load) -> list[float]:
    """Return how many bytes a second each of some loads reads, over the same seconds from now."""
    began, before = time.monotonic(), [load.bytes_read for load in loads]
    end = began + duration_s
    wait_until(lambda: time.monotonic() >= end, "time to measure", timeout_s=2 * duration_s)
    took_s = time.monotonic() - began
    return [(load.bytes_read - first) / took_s for load, first in zip(loads, before, strict=True)]
