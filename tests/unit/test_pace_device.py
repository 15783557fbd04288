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
DISK_BYTES_PER_S = 100 * MIB


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
            took_s = self.slowness * size / DISK_BYTES_PER_S
            self.now_s += took_s
            self.stalled_s += took_s  # we wait, too: it must not be taken for somebody else
            self.pace.took(size, took_s)
            total += size
        return total / (self.now_s - began_s)


def test_quiet_disk_is_read_nearly_at_full_speed():
    """Listening costs some percent, our own waiting is not taken for that of others."""
    assert Box().read(60) > 0.94 * DISK_BYTES_PER_S


def test_others_have_the_disk_but_for_the_floor():
    """While somebody waits all the time the floor is read, no more and no less."""
    box = Box(floor_bytes_per_s=4 * MIB)
    box.read(10)
    box.share = 1.0
    box.read(5)

    assert 4 * MIB == pytest.approx(box.read(60), rel=0.02)
    assert 4 * MIB == box.pace.rate_bytes_per_s


def test_whoever_was_there_first_is_noticed_before_the_first_byte():
    """The first thing to do is to listen: nothing is read at full speed beside somebody else."""
    box = Box(floor_bytes_per_s=4 * MIB)
    box.share = 1.0

    assert box.read(5) < 4.3 * MIB


def test_newcomer_is_noticed_within_three_seconds():
    """From full speed to the floor it takes not longer than that."""
    box = Box(floor_bytes_per_s=4 * MIB)
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

    assert box.read(30) > 0.94 * DISK_BYTES_PER_S


def test_pressure_below_the_setting_changes_nothing():
    """What the setting allows is allowed."""
    box = Box(pressure_percent=20)
    box.share = 0.15

    assert box.read(60) > 0.94 * DISK_BYTES_PER_S


def test_ceiling_is_kept_when_nobody_is_there():
    """The ceiling holds from the first byte on."""
    box = Box(rate_bytes_per_s=10 * MIB)

    assert 9.8 * MIB < box.read(60) <= 10.01 * MIB


def test_ceiling_stands_above_the_floor():
    """A ceiling below the default floor was asked for."""
    assert Box(rate_bytes_per_s=MIB).read(60) <= 1.01 * MIB


@pytest.mark.parametrize("rate", [0, 10 * MIB])
def test_pace_does_not_starve_the_promise(rate: int) -> None:
    """What is needed in the time that is left is read, whoever waits and whatever the ceiling."""
    box = Box(rate_bytes_per_s=rate, floor_bytes_per_s=MIB, needed_bytes_per_s=30 * MIB)
    box.share = 1.0

    assert 30 * MIB == pytest.approx(box.read(60), rel=0.03)


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


def test_no_silence_is_made_when_the_promise_needs_all():
    """Where nothing depends on others nobody listens for them."""
    box = Box(needed_bytes_per_s=2.0 * DISK_BYTES_PER_S)
    box.read(5)

    assert box.read(30) > 0.999 * DISK_BYTES_PER_S


def test_rate_is_a_number_before_anything_was_read():
    """Whoever shows it need not know of infinity."""
    assert 4 * MIB == Box(floor_bytes_per_s=4 * MIB).pace.rate_bytes_per_s


class TestLatency:
    """Where the kernel tells no pressure, how long our own reads take has to do."""

    def test_slow_reads_mean_somebody_else(self) -> None:
        """Twice as long as usual: back to the floor, and up again afterwards."""
        box = Box(has_pressure=False, floor_bytes_per_s=4 * MIB)
        assert box.read(20) > 0.99 * DISK_BYTES_PER_S
        box.slowness = 2.0
        box.read(10)
        assert 4 * MIB == pytest.approx(box.read(60), rel=0.02)
        box.slowness = 1.0
        box.read(30)
        assert box.read(30) > 0.99 * DISK_BYTES_PER_S

    def test_disk_that_slows_down_by_and_by_is_not_others(self) -> None:
        """Inner tracks are slower: over hours what is usual changes."""
        box = Box(has_pressure=False, floor_bytes_per_s=4 * MIB)
        for step in range(60):
            box.slowness = 1 + step / 60
            box.read(600)

        assert box.read(60) > 0.9 * DISK_BYTES_PER_S / 2

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

        assert box.read(60) > 0.9 * DISK_BYTES_PER_S / 2


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
