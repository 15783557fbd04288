"""Files for a root, as many as are wanted, whose paths and contents follow from their numbers."""

from __future__ import annotations

import time
from pathlib import Path

from support.waiting import wait_until

_TICK_S, _SECONDS_S = 0.1, 2.1
"""Longer than a tick of the kernel's clock; than the two seconds of FAT, and the one of ext3."""


def plant(folder: Path, count: int, *, size_bytes: int = 0) -> Path:
    """Make ``count`` files in seven folders, each with a content of its own, and return the folder."""
    for number in range(count):
        path = plant_path(folder, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = b"content %d\n" % number
        path.write_bytes((text * (size_bytes // len(text) + 1))[: size_bytes or None])
    return folder


def plant_path(folder: Path, number: int) -> Path:
    """Name a file of ``plant``."""
    return folder / f"d{number % 7}" / f"{number}.txt"


def age(*paths: Path) -> None:
    """
    Wait until the times of files are older than what their file system may cut them to, so that none is racy (R1).

    ctime can't be set; where a test is about something else, racy files would be read twice.
    """
    times_ns = [path.stat().st_ctime_ns for path in paths]
    granule_s = _SECONDS_S if all(time_ns % 10**9 == 0 for time_ns in times_ns) else _TICK_S
    youngest = max(times_ns) / 1e9
    wait_until(lambda: time.time() - youngest > granule_s, "times that are not racy", every_s=0.01)
