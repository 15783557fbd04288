"""A job can be asked to stop by a thread and by a signal, at any moment."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from integrity.jobs.report import Stop

_RACE = """
import random, signal
from integrity.jobs.report import Stop
for _ in range(3000):
    stop = Stop()
    signal.signal(signal.SIGALRM, lambda *_: stop.set())
    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 6e-5))
    while not stop.wait(5e-6):
        pass
"""


def test_waits_as_long_as_it_is_told() -> None:
    stop = Stop()
    before = time.monotonic()
    assert not stop.wait(0.02)
    assert time.monotonic() - before >= 0.02
    assert not stop.wait(0)
    assert not stop.wait(-1)
    assert not stop.is_set()


def test_set_ends_all_waiting() -> None:
    """Who waits already and who waits later both learn of it."""
    stop = Stop()
    told: list[bool] = []
    threads = [threading.Thread(target=lambda: told.append(stop.wait(60))) for _ in range(3)]
    for thread in threads:
        thread.start()
    stop.set()
    stop.set()
    for thread in threads:
        thread.join(10)
    assert [True] * 3 == told
    assert stop.wait()
    assert stop.is_set()


def test_signal_at_any_moment_of_the_waiting_ends_it() -> None:
    """The handler runs in the thread that waits, between any two of its instructions; a lock there is a deadlock."""
    done = subprocess.run([sys.executable, "-c", _RACE], capture_output=True, timeout=60, check=False)
    assert (0, b"") == (done.returncode, done.stderr)
