"""The time left, estimated over loads that are as uneven as real ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import pytest

from integrity.cli.console import TimeLeft, about
from support.clock import Clock

MB = 1_000_000
STEP_S = 0.25
WARM_UP_S = 20.0


class Disk(NamedTuple):
    """What a file and a byte cost."""

    file_s: float
    bytes_per_s: float


class Estimate(NamedTuple):
    """An estimate at one moment of a run."""

    at: float
    left_s: float


HDD, SSD, NVME, NETWORK = Disk(8e-3, 150 * MB), Disk(0.3e-3, 500 * MB), Disk(5e-5, 2000 * MB), Disk(5e-3, 40 * MB)


def small(count: int) -> list[int]:
    """Sizes of small files, 20 KB on the average."""
    rng = random.Random(1)
    return [int(rng.lognormvariate(9.5, 1)) for _ in range(count)]


def large(count: int) -> list[int]:
    """Sizes of large files, 2 GB on the average."""
    rng = random.Random(2)
    return [int(rng.uniform(0.5, 4) * 1e9) for _ in range(count)]


@cache
def run(name: str, *, noise: float = 0.2) -> tuple[list[Estimate], float]:
    """Read files one after the other and estimate on the way; return that and how long all of it took."""
    disk, find_sizes = LOADS[name]
    sizes = find_sizes()
    rng, clock = random.Random(3), Clock(0)
    left = TimeLeft(clock)
    total_bytes, bytes_done, estimates, shown_at = sum(sizes), 0.0, [], 0.0
    for number, size in enumerate(sizes):
        speed = 1 + rng.uniform(-noise, noise)
        clock.now += disk.file_s * speed
        unread = float(size)
        while True:
            piece = min(unread, disk.bytes_per_s * STEP_S)
            unread -= piece
            bytes_done += piece
            clock.now += piece / disk.bytes_per_s * speed
            if clock.now >= shown_at:
                shown_at = clock.now + STEP_S
                left.observe(number, int(bytes_done))
                estimate_s = left.estimate_s(len(sizes) - number, total_bytes - int(bytes_done))
                if estimate_s is not None:
                    estimates.append(Estimate(clock.now, estimate_s))
            if not unread:
                break
    return estimates, clock.now


def find_worst_swing(estimates: Sequence[Estimate], within_s: float) -> float:
    """Return by what factor two estimates differ at most that are so far from each other, elapsed time put aside."""
    worst, later = 1.0, 0
    for number, one in enumerate(estimates):
        later = max(later, number)
        while later + 1 < len(estimates) and estimates[later].at - one.at < within_s:
            later += 1
        elapsed = estimates[later].at - one.at
        ratio = (estimates[later].left_s + elapsed) / one.left_s
        worst = max(worst, ratio, 1 / ratio)
    return worst


LOADS: dict[str, tuple[Disk, Callable[[], list[int]]]] = {
    "HDD, small then large": (HDD, lambda: small(20_000) + large(60)),
    "SSD, small then large": (SSD, lambda: small(200_000) + large(60)),
    "NVMe, small then large": (NVME, lambda: small(300_000) + large(300)),
    "network, small then large": (NETWORK, lambda: small(20_000) + large(20)),
    "HDD, large then small": (HDD, lambda: large(60) + small(20_000)),
    "SSD, large then small": (SSD, lambda: large(100) + small(300_000)),
    "HDD, by turns": (HDD, lambda: (small(2000) + large(4)) * 20),
    "HDD, photos": (HDD, lambda: [4 * MB] * 20_000),
}


@pytest.mark.parametrize("name", LOADS)
def test_estimate_is_steady(name: str) -> None:
    """After a warm-up it never doubles or halves at once, and the whole swings by less than a factor of 4."""
    estimates = [one for one in run(name)[0] if one.at >= WARM_UP_S and one.left_s > 10]
    totals = [one.at + one.left_s for one in estimates]

    assert find_worst_swing(estimates, within_s=0.1) < 1.2
    assert find_worst_swing(estimates, within_s=10) < 2
    assert find_worst_swing(estimates, within_s=30) < 2.5
    assert max(totals) / min(totals) < 4


@pytest.mark.parametrize("name", LOADS)
def test_estimate_becomes_right(name: str) -> None:
    """In the second half of a run it is wrong by less than a factor of 3; where files are alike, by a tenth."""
    estimates, took_s = run(name)
    late = [one for one in estimates if took_s / 2 < one.at < took_s - 30]
    most = 1.1 if "photos" in name else 3.2

    assert late
    assert all(1 / most < one.left_s / (took_s - one.at) < most for one in late)


def test_there_is_no_estimate_without_a_basis() -> None:
    """Not at once, and not while nothing moves."""
    clock = Clock(0)
    left = TimeLeft(clock)
    seen = []
    for _ in range(30):
        left.observe(0, 0)
        seen.append(left.estimate_s(10, 10 * MB))
        clock.now += 1
    left.observe(5, 5 * MB)
    clock.now += 1
    left.observe(6, 6 * MB)

    assert {None} == set(seen)
    assert left.estimate_s(4, 4 * MB) is not None


def test_waiting_counts_as_time() -> None:
    """A disk that pauses makes the rest take longer: it pauses again."""
    clock = Clock(0)
    left = TimeLeft(clock)
    for number in range(100):
        left.observe(0, number // 2 * 100 * MB)  # half of the time nothing moves
        clock.now += 1

    assert left.estimate_s(0, 1000 * MB) == pytest.approx(20, rel=0.1)


def test_files_without_bytes_count() -> None:
    """A million empty files take their time, too."""
    clock = Clock(0)
    left = TimeLeft(clock)
    for number in range(100):
        left.observe(number * 10, 0)
        clock.now += 1

    assert left.estimate_s(100, 0) == pytest.approx(10, rel=0.1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "less than a minute"),
        (59, "less than a minute"),
        (61, "about 1 min"),
        (7.6 * 60, "about 8 min"),
        (17 * 60, "about 15 min"),
        (58 * 60, "about 1 h"),
        (84 * 60, "about 1 h 20 min"),
        (4.2 * 3600, "about 4 h"),
        (4.3 * 3600, "about 4 h 30 min"),
        (13.4 * 3600, "about 13 h"),
        (71 * 3600, "about 3 days"),
    ],
)
def test_time_is_rounded_to_what_is_believable(seconds: float, text: str) -> None:
    """No more digits than an estimate has."""
    assert text == about(seconds)
