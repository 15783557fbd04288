"""What counts as the begin of a failure, and in which words."""

from __future__ import annotations

import pytest

from integrity.disks.report import Count, DeviceKind, DeviceReport, DeviceTrouble, Quantity, follow
from integrity.disks.signs import RECENT_S, Remedy, describe_for_damage, find_remedy, find_signs

NOW = 1_764_000_000
DAY_S = 86_400


def make_disk(*, at: int = NOW, label: str = "WDC WD40, serial A", **counts: int) -> DeviceReport:
    """Make a report of a disk; counts by the names of their quantities."""
    found = {Quantity[name]: Count(value) for name, value in counts.items()}
    return DeviceReport("sda", DeviceKind.DISK, label, at, at, is_healthy=True, counts=found)


def signs_of(*reports: DeviceReport) -> list[str]:
    """Let readings follow each other, and return the signs in the last one."""
    known: DeviceReport | None = None
    for report in reports:
        known = follow(known, report)
    assert known is not None
    return [sign.words for sign in find_signs(known, reports[-1].tried_at)]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        ({"PENDING": 8}, "8 pending sectors"),
        ({"PENDING": 1}, "1 pending sector"),
        ({"UNCORRECTABLE": 2}, "2 uncorrectable sectors"),
        ({"CRITICAL": 0b1100}, "a critical warning (reliability degraded, read-only)"),
        ({"SPARE_SHORT_PERCENT": 3}, "spare capacity 3 % below its threshold"),
        ({"USED_PERCENT": 101}, "101 % of its rated life used"),
        ({"MISSING_DEVICES": 1}, "1 missing device"),
        ({"MISMATCHES": 128}, "128 mismatched sectors"),
        ({"DATA_ERRORS": 2}, "2 data errors"),
    ],
)  # fmt: skip
def test_counts_that_are_signs_by_themselves(count: dict[str, int], words: str) -> None:
    """One reading is enough."""
    assert [words] == signs_of(make_disk(**count))


@pytest.mark.parametrize("name", ["REALLOCATED", "ERRORS", "CRC", "TIMEOUTS", "DEVICE_ERRORS"])
def test_counts_for_life_are_signs_only_while_they_grow(name: str) -> None:
    """An old disk with a few of them is well; a counter that never goes back ends its sign by standing still."""
    old, grown = make_disk(**{name: 4}), make_disk(at=NOW + DAY_S, **{name: 7})

    assert [] == signs_of(old)
    assert 1 == len(signs_of(old, grown))
    assert "(4 until 2025-11-25)" in signs_of(old, grown)[0]
    assert 1 == len(signs_of(old, grown, make_disk(at=NOW + 5 * DAY_S, **{name: 7})))
    assert [] == signs_of(old, grown, make_disk(at=NOW + DAY_S + RECENT_S, **{name: 7}))


def test_another_disk_under_the_same_name_has_grown_nothing() -> None:
    """Names go round when disks are exchanged."""
    assert [] == signs_of(make_disk(CRC=4), make_disk(at=NOW + DAY_S, label="other", CRC=900))


def test_failed_reading_keeps_what_is_known() -> None:
    """A disk does not get well by not answering."""
    failed = DeviceReport("sda", DeviceKind.DISK, "", NOW + DAY_S, trouble=DeviceTrouble.NO_ANSWER)

    assert ["8 pending sectors"] == signs_of(make_disk(PENDING=8), failed)


def test_sentence_has_the_gravest_remedy() -> None:
    """What to do about the worst covers the rest."""
    report = follow(make_disk(CRC=1), make_disk(at=NOW + DAY_S, CRC=5, PENDING=8))

    assert [
        "The disk sda (WDC WD40, serial A) reports 8 pending sectors and 5 CRC errors of the link (1 until 2025-11-25):"
        f" {Remedy.REPLACE.value}."
    ] == describe_for_damage([report], NOW + DAY_S)


def test_cable_has_words_of_its_own() -> None:
    """A disk is not replaced for its cable."""
    report = follow(make_disk(CRC=1), make_disk(at=NOW + DAY_S, CRC=5))

    assert Remedy.CABLE is find_remedy(find_signs(report, NOW + DAY_S))


def test_disk_without_a_problem_points_at_cable_and_memory() -> None:
    """After damage, that the disk reports nothing is news as well; that nobody could ask it is none."""
    never = DeviceReport("sdb", DeviceKind.DISK, "", NOW, trouble=DeviceTrouble.NO_PROGRAM)

    assert [
        "The disk sda (WDC WD40, serial A) reports no problem: check its cable, and the memory (memtest86+)."
    ] == describe_for_damage([make_disk(PENDING=0), never], NOW)
