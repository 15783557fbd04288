"""What a job has used goes back to the system."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from integrity.jobs.report import Stop
from integrity.service.startup import MemoryTrimmer
from support.clock import Clock
from support.proc import count_descriptors

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
    """Refers to itself, as jobs do through their callbacks, and holds a descriptor."""

    def __init__(self) -> None:
        self.stop = Stop()
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


def leave_jobs(count: int) -> None:
    for _ in range(count):
        _Job()


@pytest.mark.usefixtures("uncollected")
def test_busy_service_gives_back_once_a_minute() -> None:
    """Not after each job, which would cost more than small jobs do."""
    clock = Clock()
    trimmer, before = MemoryTrimmer(clock), count_descriptors()
    leave_jobs(20)
    trimmer.job_ended()
    clock.now += 30
    trimmer.trim(is_busy=True)
    assert before + 20 == count_descriptors()

    clock.now += 31
    trimmer.trim(is_busy=True)
    assert before == count_descriptors()


@pytest.mark.usefixtures("uncollected")
def test_idle_service_gives_back_at_once_and_once() -> None:
    """Nothing is done again until another job has ended."""
    clock = Clock()
    trimmer, before = MemoryTrimmer(clock), count_descriptors()
    leave_jobs(3)
    trimmer.job_ended()
    trimmer.trim(is_busy=False)
    assert before == count_descriptors()

    leave_jobs(3)
    clock.now += 3600
    trimmer.trim(is_busy=False)
    assert before + 3 == count_descriptors()
