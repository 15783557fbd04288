"""
Compute how long it takes to verify data: bytes, divided by the rate of the disk, in the hours that are allowed.

The rate is measured by a short reading of some of the files, from the disk instead of from memory.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

from integrity.config.times import Cron, read_windows
from integrity.errors import ReadError
from integrity.files.buffers import Buffers
from integrity.files.open_beneath import open_root
from integrity.files.read import Reader
from integrity.files.span import ReadMode
from integrity.jobs.setup.contents import SampledFile
from integrity.model import Capability

_MEASURE_S = 1.0
_LEAST_BYTES = 4 << 20
_BUFFER_BYTES = 8 << 20
_LEAST_FILE_BYTES = 64 << 10

ASSUMED_BYTES_PER_S = 100 << 20
"""The rate of a disk that could not be measured: slow for a disk of today, fast for one behind USB 2."""

_DAY_S = 86_400
_DAYS = (30, 45, 60, 90, 120, 180, 365)
"""The intervals that are proposed: 30 days, or longer if the disks need it."""

_SPARE = 2
"""Share of the open hours that stays free: for new files, other programs, and disks that slow down."""


@dataclass(frozen=True, slots=True)
class Workload:
    """
    What has to be read from the same disks.

    Args:
        device_name: for people.
        size_bytes: of all files that are watched there, at most.
        rate_bytes_per_s: measured; None if there was too little to measure with.
    """

    device_name: str
    size_bytes: int
    rate_bytes_per_s: float | None

    @property
    def duration_s(self) -> float:
        """Return how long all of it takes without a pause."""
        return self.size_bytes / (self.rate_bytes_per_s or ASSUMED_BYTES_PER_S)

    def days_needed(self, windows: str) -> int | None:
        """Return on how many days the windows must open until all is read; None if they never close."""
        open_s = open_seconds_per_day(windows)
        return None if open_s is None else max(1, ceil(self.duration_s / open_s))


def open_seconds_per_day(windows: str) -> float | None:
    """Return how long windows are open on an average day; None if they are moments, after which work just ends."""
    times = read_windows(windows)
    if isinstance(times, Cron):
        return None
    return sum(len(span.days) * (span.end_min - span.start_min) for span in times) * 60 / 7


def propose_days(workloads: Iterable[Workload], windows: str) -> int:
    """Return the interval, in days, within which all disks can be verified with hours to spare."""
    open_s = open_seconds_per_day(windows)
    if open_s is None:
        return _DAYS[0]
    needed = max((load.duration_s for load in workloads), default=0.0) * _SPARE / open_s
    return next((days for days in _DAYS if days >= needed), ceil(needed))


def can_keep(load: Workload, windows: str, verify_every_s: int) -> bool:
    """Return whether a disk can be verified within an interval, if nothing else needs it."""
    open_s = open_seconds_per_day(windows)
    return open_s is None or load.duration_s <= open_s * verify_every_s / _DAY_S


def measure_rate(
    folder: bytes,
    capability: Capability,
    files: Sequence[SampledFile],
    *,
    limit_s: float = _MEASURE_S,
    monotonic: Callable[[], float] = time.monotonic,
) -> float | None:
    """
    Read large files of a folder from the disk for a moment; return bytes per second.

    Returns:
        None if there is too little to read, or nothing can be read.
    """
    largest = sorted(
        (file for file in files if file.size_bytes >= _LEAST_FILE_BYTES), key=lambda file: -file.size_bytes
    )
    try:
        root_fd = open_root(folder)
    except OSError:
        return None
    try:
        reader, began_at, total = Reader(root_fd, capability, mode=ReadMode.DISK), monotonic(), 0
        with Buffers(_BUFFER_BYTES, 1) as buffers:
            for file in largest:
                with suppress(ReadError):
                    total += _read(reader, file.path, buffers, lambda: monotonic() - began_at > limit_s)
                if monotonic() - began_at > limit_s:
                    break
        duration_s = monotonic() - began_at
        return total / duration_s if total >= _LEAST_BYTES and duration_s > 0 else None
    finally:
        os.close(root_fd)


def _read(reader: Reader, path: bytes, buffers: Buffers, is_over: Callable[[], bool]) -> int:
    size_bytes = 0
    with reader.open(path) as file:
        for segment in file.segments(buffers):
            size_bytes += 0 if segment.data is None else segment.length
            if is_over():
                break
    return size_bytes
