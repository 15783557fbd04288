"""A device's pace gives way to others, keeps its floor and what the promise needs, and comes back afterwards."""

from __future__ import annotations

import math
import threading
import time

import pytest

from integrity.config.definition import PaceConfig as PaceSettings
from integrity.jobs.pace.throttle import BURST_S, PIECE_BYTES, DevicePace
from integrity.jobs.report import Stop

MIB = 1 << 20
FULL = 100 * MIB
"""So many bytes a second the disk gives."""
NEEDED = {"floor_bytes_per_s": MIB, "needed_bytes_per_s": 30 * MIB}


class Box:
    """A clock that only waiting and reading move, a disk, and others who wait for it for a share of the time."""

    def __init__(
        self, *, has_pressure: bool = True, is_sure: bool = True, needed_bytes_per_s: float = 0.0, **settings: int
    ) -> None:
        self.now_s = 1000.0
        self.stalled_s = 0.0
        self.share = 0.0
        self.slowness = 1.0
        self.needed_bytes_per_s = needed_bytes_per_s
        self.has_pressure = has_pressure
        self.pace = DevicePace(
            PaceSettings(**settings),
            Stop(),
            needed_bytes_per_s=lambda: self.needed_bytes_per_s,
            pressure=lambda: self.stalled_s if self.has_pressure else None,
            is_sure=is_sure,
            monotonic=lambda: self.now_s,
            wait=self.wait,
        )

    def wait(self, duration_s: float) -> bool:
        self.stalled_s += duration_s * self.share
        self.now_s += duration_s
        return False

    def read(self, duration_s: float) -> float:
        """Read for so long; return the bytes a second that were reached."""
        began_s, total = self.now_s, 0
        while self.now_s < began_s + duration_s:
            size = min(8 * MIB, self.pace.piece_bytes())
            self.pace.take(size)
            took_s = self.slowness * size / FULL
            self.now_s += took_s
            self.stalled_s += took_s  # we wait, too: it must not be taken for somebody else
            self.pace.took(size, took_s)
            total += size
        return total / (self.now_s - began_s)


@pytest.mark.parametrize(
    ("settings", "share", "least", "most"),
    [
        pytest.param({}, 0.0, 0.94 * FULL, FULL, id="a quiet disk: listening costs some percent"),
        pytest.param({"floor_bytes_per_s": 4 * MIB}, 1.0, 0, 4.3 * MIB, id="who was there first is noticed at once"),
        pytest.param({"pressure_percent": 20}, 0.15, 0.94 * FULL, FULL, id="pressure that the setting allows"),
        pytest.param({"rate_bytes_per_s": 10 * MIB}, 0.0, 9.8 * MIB, 10.01 * MIB, id="a ceiling holds when alone"),
        pytest.param({"rate_bytes_per_s": MIB}, 0.0, 0, 1.01 * MIB, id="a ceiling stands above the floor"),
        pytest.param(NEEDED, 1.0, 29 * MIB, 31 * MIB, id="the promise is not starved by others"),
        pytest.param(NEEDED | {"rate_bytes_per_s": 10 * MIB}, 1.0, 29 * MIB, 31 * MIB, id="nor by the ceiling"),
        pytest.param({"needed_bytes_per_s": 2 * FULL}, 0.0, 0.99 * FULL, FULL, id="nobody listens if all is needed"),
    ],
)
def test_rate_that_is_reached(settings: dict[str, int], share: float, least: float, most: float) -> None:
    """From the first byte on; our own waiting is not taken for that of others."""
    box = Box(**settings)  # type: ignore[arg-type] # numbers of any field
    box.share = share

    assert least <= box.read(60) <= most


def test_others_have_the_disk_but_for_the_floor():
    """While somebody waits all the time the floor is read, no more and no less."""
    box = Box(floor_bytes_per_s=4 * MIB)
    box.read(10)
    box.share = 1.0
    box.read(5)

    assert 4 * MIB == pytest.approx(box.read(60), rel=0.02)
    assert 4 * MIB == box.pace.rate_bytes_per_s


def test_newcomer_is_noticed_within_three_seconds():
    """From full speed to the floor it takes not longer than that."""
    box = Box(floor_bytes_per_s=4 * MIB)
    assert 4 * MIB == box.pace.rate_bytes_per_s  # a number, before anything was read
    box.read(10)
    box.share = 1.0
    box.read(3)

    assert 4 * MIB == box.pace.rate_bytes_per_s


def test_speed_comes_back_when_others_have_gone():
    """Half a minute later the disk is read as before."""
    box = Box()
    box.read(10)
    box.share = 1.0
    box.read(60)
    box.share = 0.0
    box.read(30)

    assert box.read(30) > 0.94 * FULL


def test_pace_quickens_as_the_deadline_nears():
    """What is needed is asked for again and again, not only at the beginning."""
    box = Box(floor_bytes_per_s=MIB)
    box.share = 1.0
    slow = box.read(30)
    box.needed_bytes_per_s = 20 * MIB
    box.read(2)

    assert slow < 1.1 * MIB
    assert 20 * MIB == pytest.approx(box.read(30), rel=0.03)


def test_floor_of_nothing_still_moves():
    """A job that never moves would hold its root for ever."""
    box = Box(floor_bytes_per_s=0)
    box.share = 1.0
    box.read(60)

    assert box.pace.rate_bytes_per_s > 0
    assert math.isfinite(box.pace.duration_s(8 * MIB))


class TestLatency:
    """Where the kernel tells no pressure, how long our own reads take has to do."""

    def test_slow_reads_mean_somebody_else(self) -> None:
        """Twice as long as usual: back to the floor, and up again afterwards."""
        box = Box(has_pressure=False, floor_bytes_per_s=4 * MIB)
        assert box.read(20) > 0.99 * FULL
        box.slowness = 2.0
        box.read(10)
        assert 4 * MIB == pytest.approx(box.read(60), rel=0.02)
        box.slowness = 1.0
        box.read(30)
        assert box.read(30) > 0.99 * FULL

    def test_disk_that_slows_down_by_and_by_is_not_others(self) -> None:
        """Inner tracks are slower: over hours what is usual changes."""
        box = Box(has_pressure=False, floor_bytes_per_s=4 * MIB)
        for step in range(60):
            box.slowness = 1 + step / 60
            box.read(150)

        assert box.read(60) > 0.9 * FULL / 2

    def test_it_helps_out_where_pressure_is_not_sure(self) -> None:
        """A disk's statistics know nothing of queues above it."""
        box = Box(is_sure=False, floor_bytes_per_s=4 * MIB)
        box.read(20)
        box.slowness = 2.0
        box.read(10)

        assert 4 * MIB == pytest.approx(box.read(60), rel=0.02)

    def test_it_is_not_asked_where_pressure_is_sure(self) -> None:
        """Slow reads of a disk that nobody else waits for are just slow."""
        box = Box(floor_bytes_per_s=4 * MIB)
        box.read(20)
        box.slowness = 2.0

        assert box.read(60) > 0.9 * FULL / 2


def test_pieces_are_small_while_others_wait():
    """Nobody waits for more than one piece of ours; alone, long ones are read."""
    box = Box()
    box.read(10)
    assert 4 * MIB <= box.pace.piece_bytes()
    box.share = 1.0
    box.read(10)
    assert PIECE_BYTES == box.pace.piece_bytes()


def test_one_stop_ends_all_waiting():
    """A request to stop is not kept waiting by the rate."""
    stop = Stop()
    pace = DevicePace(
        PaceSettings(floor_bytes_per_s=1, rate_bytes_per_s=1),
        stop,
        needed_bytes_per_s=lambda: 0.0,
        pressure=lambda: 0.0,
    )
    thread = threading.Thread(target=pace.take, args=(MIB,))
    thread.start()
    stop.set()
    thread.join(10)

    assert not thread.is_alive()


def test_readers_of_one_device_share_its_rate():
    """Four threads together stay below the ceiling: 5 MiB at 10 MiB a second take half a second."""
    pace = DevicePace(
        PaceSettings(rate_bytes_per_s=10 * MIB), Stop(), needed_bytes_per_s=lambda: 0.0, pressure=lambda: 0.0
    )

    def read() -> None:
        for _ in range(20):
            pace.take(64 << 10)
            pace.took(64 << 10, 0.0)

    threads = [threading.Thread(target=read) for _ in range(4)]
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert time.monotonic() - began_s >= 0.5 - BURST_S
