"""
Say how long others have waited for a disk.

Two measures of the kernel are put together. Pressure stall information counts the time in which some task waits for
I/O, but that of the whole machine, our own waiting included, and diluted by each processor that is busy with something
else. A block device's statistics count the time in which it had work, but know nothing of queues above it. What others
suffer is told only while we are silent: so ask at the beginning and at the end of a silence, and take the difference.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import NamedTuple

_NO_PRESSURE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
)
"""Older kernels, ``psi=0`` on the kernel's command line, ``ProcSubset=pid`` in a unit."""

# Documentation/block/stat.rst, counted from 0.
_READS, _WRITES, _IN_FLIGHT, _BUSY_MS = 0, 4, 8, 9


class _Work(NamedTuple):
    """What a block device has done so far."""

    requests: int
    in_flight: int
    busy_ms: int


class Pressure:
    """
    Count the seconds in which others waited for a device, or it worked for them. Used by one thread at a time.

    Time in which the device had no request at all is no pressure on it: then it is another disk that is waited for.
    Without pressure stall information the device's own work remains.

    Args:
        layers: the block devices that the files lie on, by their names in sysfs; without any all waiting counts.
        pressure_file: the kernel's, or one like it.
        blocks_folder: in sysfs, with a folder for each block device.
    """

    def __init__(
        self,
        layers: Sequence[str] = (),
        *,
        pressure_file: str = "/proc/pressure/io",
        blocks_folder: str = "/sys/class/block",
    ) -> None:
        self._stats = [os.path.join(blocks_folder, layer, "stat") for layer in layers]
        self._pressure_file = pressure_file
        self._stalled_us = 0
        self._work: dict[str, _Work] = {}
        self._total_s = 0.0

    def __call__(self) -> float | None:
        """
        Return the seconds so far: the difference of two calls is what lay between them.

        Returns:
            None where nothing is known, neither of waiting nor of a device.
        """
        stalled_us = read_stalled_us(self._pressure_file)
        is_touched, busy_s = self._look_at_device()
        if stalled_us is None:
            if not self._work:
                return None
            self._total_s += busy_s
            return self._total_s
        stalled_s = (stalled_us - self._stalled_us) / 1e6
        self._stalled_us = stalled_us
        self._total_s += max(stalled_s, busy_s) if is_touched else 0.0
        return self._total_s

    @property
    def has_stalls(self) -> bool:
        """Say whether the kernel tells of waiting."""
        return read_stalled_us(self._pressure_file) is not None

    def _look_at_device(self) -> tuple[bool, float]:
        """Say whether the device had any request since the last call, and how long it was busy."""
        before, self._work = self._work, {path: work for path in self._stats if (work := _read_work(path)) is not None}
        busy_ms, is_touched = 0, not self._work
        for path, work in self._work.items():
            last = before.get(path, work)
            is_touched = is_touched or work.requests != last.requests or work.in_flight > 0
            busy_ms = max(busy_ms, work.busy_ms - last.busy_ms)
        return is_touched, busy_ms / 1e3


def read_stalled_us(pressure_file: str = "/proc/pressure/io") -> int | None:
    """Read for how long some task has waited for I/O since the machine started; None where the kernel tells nobody."""
    try:
        with open(pressure_file, encoding="ascii") as lines:
            some = lines.readline()
    except OSError as error:
        if error.errno in _NO_PRESSURE:
            return None
        raise
    return int(some.rpartition("total=")[2]) if some.startswith("some ") else None


def _read_work(path: str) -> _Work | None:
    try:
        with open(path, encoding="ascii") as file:
            fields = [int(field) for field in file.read().split()]
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.EACCES):
            return None  # pulled out, or hidden from us
        raise
    return _Work(fields[_READS] + fields[_WRITES], fields[_IN_FLIGHT], fields[_BUSY_MS])
