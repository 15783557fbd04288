"""What a job has used goes back to the system."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from weakref import WeakSet

import pytest

from integrity.service.startup import MemoryTrimmer
from support.clock import Clock

_PROGRAM = """
import threading
from integrity.service.startup import MemoryTrimmer, limit_memory_use

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4 // 1024

limit_memory_use()
trimmer = MemoryTrimmer()
before = resident()
kept = []
def work():
    rows = [bytes(600 + n % 50) for n in range(60_000)]
    kept.append(rows[::10_000])  # what stays here and there keeps a heap from shrinking by itself
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
trimmer.job_ended()
trimmer.trim(is_busy=False)
print(resident() - before)
"""


def test_memory_of_a_job_goes_back():
    """Some hundred megabytes in rows, of which next to nothing is left resident."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)

    assert int(done.stdout) < 25


class _Job:
    """Refers to itself, as jobs do through their callbacks."""

    def __init__(self) -> None:
        self.then = self.end

    def end(self) -> None:
        """Do nothing."""


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Have nobody else look for garbage."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leave_jobs(count: int) -> WeakSet[_Job]:
    """Forget some jobs, and return those of them that are still in memory."""
    return WeakSet(_Job() for _ in range(count))


@pytest.mark.usefixtures("uncollected")
def test_busy_service_gives_back_once_a_minute() -> None:
    """Not after each job, which would cost more than small jobs do."""
    clock = Clock()
    trimmer = MemoryTrimmer(clock)
    left = leave_jobs(20)
    trimmer.job_ended()
    clock.now += 30
    trimmer.trim(is_busy=True)
    assert 20 == len(left)

    clock.now += 31
    trimmer.trim(is_busy=True)
    assert 0 == len(left)


@pytest.mark.usefixtures("uncollected")
def test_idle_service_gives_back_at_once_and_once() -> None:
    """Nothing is done again until another job has ended."""
    clock = Clock()
    trimmer = MemoryTrimmer(clock)
    left = leave_jobs(3)
    trimmer.job_ended()
    trimmer.trim(is_busy=False)
    assert 0 == len(left)

    left = leave_jobs(3)
    clock.now += 3600
    trimmer.trim(is_busy=False)
    assert 3 == len(left)
