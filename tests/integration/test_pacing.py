"""
Somebody else reads the same disk while we scrub it: both get what they were promised.

The disk is a slow one with one arm, which must seek whenever it is asked for something else. What counts are ratios of
speeds measured in one test, as the machine that runs it may do other things besides.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.diskload import SLOW_DISK, Load, measure, plant_load
from support.flakydisk import FlakyDisk
from support.waiting import wait_until

pytestmark = pytest.mark.root

MIB = 1 << 20
FLOOR_BYTES_PER_S = 2 * MIB
GOOD_SHARE = 0.6
"""Beside a scrub without a pace the rival keeps 0.1 of its speed, beside ours 0.9 where nothing else goes on. That it
is 0.8 or more is for tests/benchmarks/bench_pacing.py: a machine with other work to do takes from both."""

TRIES = 3


@pytest.fixture
def disk() -> Iterator[Path]:
    """Mount a disk of 60 MB/s with a seek time of 10 ms, with files of ours and one of the rival's."""
    with FlakyDisk("ext4") as disk:
        plant_load(disk.folder)
        disk.add(SLOW_DISK)
        yield disk.folder


def settle(scrub: Load) -> None:
    """Wait until the pace has backed off."""
    wait_until(lambda: scrub.measure(0.6) < 1.6 * FLOOR_BYTES_PER_S, "the floor")


@pytest.mark.parametrize("jobs", [1, 2])
def test_rival_keeps_its_speed_and_we_the_floor(disk: Path, jobs: int) -> None:
    """A second process reads almost as fast as undisturbed, and the scrub at its floor."""
    shares, paces = [], []
    for _ in range(TRIES):
        with Load("rival", disk) as rival:
            before = rival.measure(1.0)
            with Load("scrub", disk, jobs=jobs, floor_bytes_per_s=FLOOR_BYTES_PER_S) as scrub:
                settle(scrub)
                theirs, ours = measure(2.0, rival, scrub)
            shares.append(theirs / max(before, rival.measure(1.0)))
            paces.append(ours / FLOOR_BYTES_PER_S)
        if shares[-1] >= GOOD_SHARE and paces[-1] >= 0.9:
            return
    raise AssertionError(f"shares of the rival {shares}, of our floor {paces}")


@pytest.mark.parametrize("has_blocks", [True, False], ids=["statistics", "latency"])
def test_newcomer_is_given_way_without_pressure_information(disk: Path, has_blocks: bool) -> None:
    """Where the kernel hides it, the disk's statistics or the latency of our own reads tell of somebody who comes."""
    shares = []
    for _ in range(TRIES):
        with Load("rival", disk) as rival:
            before = rival.measure(1.0)
        options = {"has_pressure": False, "has_blocks": has_blocks}
        with Load("scrub", disk, **options, floor_bytes_per_s=FLOOR_BYTES_PER_S) as scrub:
            alone = scrub.measure(2.0)
            with Load("rival", disk) as rival:
                settle(scrub)
                theirs, ours = measure(2.0, rival, scrub)
        shares.append(theirs / before)
        assert alone > 3 * FLOOR_BYTES_PER_S
        assert ours > 0.5 * FLOOR_BYTES_PER_S
        if shares[-1] >= GOOD_SHARE:
            return
    raise AssertionError(f"shares of the rival {shares}")


def test_speed_comes_back_when_the_rival_has_gone(disk: Path) -> None:
    """The disk is not left idle."""
    with Load("scrub", disk, floor_bytes_per_s=FLOOR_BYTES_PER_S) as scrub:
        scrub.measure(1.0)
        with Load("rival", disk):
            settle(scrub)
        wait_until(lambda: scrub.rate_bytes_per_s > 5 * FLOOR_BYTES_PER_S, "speed")
        before = scrub.bytes_read
        wait_until(lambda: scrub.bytes_read > before, "a read")


def test_promise_stands_above_the_rival(disk: Path) -> None:
    """What is needed in the time that is left is read, whoever else reads."""
    needed = 8 * MIB
    with (
        Load("rival", disk) as rival,
        Load("scrub", disk, needed_bytes_per_s=needed, floor_bytes_per_s=FLOOR_BYTES_PER_S) as scrub,
    ):
        scrub.measure(1.5)
        theirs, ours = measure(3.0, rival, scrub)

    assert ours > 0.85 * needed
    assert theirs > 0
