"""Files for a root, as many as are wanted, whose paths and contents follow from their numbers."""

from __future__ import annotations

import time
from pathlib import Path

from support.waiting import wait_until

_GRANULE_S = 2.1


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
    Wait until the times of files lie outside of the coarsest granule (2 s), so that nothing about them is racy (R1).

    ctime can't be set; where a test is about something else, racy files would be read twice.
    """
    youngest = max(path.stat().st_ctime for path in paths)
    wait_until(lambda: time.time() - youngest > _GRANULE_S, "times that are not racy", every_s=0.05)
