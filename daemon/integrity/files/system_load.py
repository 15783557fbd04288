"""
Yield to other programs: low CPU and I/O priority, and a measure of how long others wait for a disk.

Only disk schedulers that know I/O classes honor them, and most disks use one that does not ("none", old mq-deadline):
the priority supplements the pace and does not replace it.

The load combines two kernel measures. Pressure stall information counts the time in which some task waits for I/O, but
machine-wide, our own waits included, and diluted by each busy processor. A block device's statistics count the time in
which it had work, but know nothing of queues above it. The pressure of others shows only while we read nothing: sample
at the beginning and the end of a pause, and take the difference.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import platform
from collections.abc import Sequence
from typing import NamedTuple

from integrity.files.syscalls import find_ioprio

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def read_boot_uuid() -> str:
    """Read the kernel's random id of the running boot, see random(4)."""
    with open(_BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


_LOG = logging.getLogger(__name__)

NICENESS = 10
"""Below interactive programs, but not starved on a busy machine: verification must stay on schedule there, too."""

# linux/ioprio.h
_WHO_PROCESS = 1
_CLASS_SHIFT = 13
_CLASS_IDLE = 3


def be_idle() -> bool:
    """
    Set idle I/O class and low CPU priority for this thread and all threads that it starts later.

    Call this before threads are started: on Linux both settings belong to a thread and are inherited. It never fails: a
    refusal (a seccomp filter of the unit, say) is logged, and only the pace limits reading.

    Returns:
        Whether both were granted.
    """
    return all([_be_nice(), _set_idle_class()])


def get_io_class() -> int | None:
    """Return the calling thread's I/O class (0 none, 1 real time, 2 best effort, 3 idle); None if unknown."""
    calls = find_ioprio()
    if calls is None:
        return None
    priority = ctypes.CDLL(None, use_errno=True).syscall(calls[1], _WHO_PROCESS, 0)
    return None if priority < 0 else int(priority) >> _CLASS_SHIFT


def _be_nice() -> bool:
    try:
        if os.getpriority(os.PRIO_PROCESS, 0) < NICENESS:  # the unit may have set a higher one
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    except OSError as error:
        _LOG.warning("niceness refused niceness=%d error=%s", NICENESS, error.strerror)
        return False
    return True


def _set_idle_class() -> bool:
    calls = find_ioprio()
    if calls is None:
        _LOG.warning("io class unknown machine=%s", platform.machine())
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(calls[0], _WHO_PROCESS, 0, _CLASS_IDLE << _CLASS_SHIFT) == 0:
        return True
    number = ctypes.get_errno()
    _LOG.warning("io class refused class=idle error=%s", errno.errorcode.get(number, str(number)))
    return False


_NO_PRESSURE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}
)
"""Older kernels, ``psi=0`` on the kernel command line, ``ProcSubset=pid`` in a unit."""

# Documentation/block/stat.rst, field indexes from 0.
_READS, _WRITES, _IN_FLIGHT, _BUSY_MS = 0, 4, 8, 9


class _Work(NamedTuple):
    """Counters of a block device."""

    requests: int
    in_flight: int
    busy_ms: int


class Pressure:
    """
    Count the seconds in which others waited for a device, or it worked for them. Used by one thread at a time.

    Time without any request to the device does not count: the tasks wait for another disk. Without pressure stall
    information only the device's busy time counts.

    Args:
        layers: sysfs names of the block devices that the files lie on; if empty, all waiting counts.
        pressure_file: the kernel's, or one in its format.
        blocks_folder: sysfs folder with a folder per block device.
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
        Return the seconds so far; the difference of two calls is the time between them.

        Returns:
            None if neither pressure nor device statistics are available.
        """
        stalled_us = read_stalled_us(self._pressure_file)
        is_touched, busy_s = self._sample_device()
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
        """Return whether the kernel provides pressure stall information."""
        return read_stalled_us(self._pressure_file) is not None

    def _sample_device(self) -> tuple[bool, float]:
        """Return whether the device had any request since the last call, and how many seconds it was busy."""
        before, self._work = self._work, {path: work for path in self._stats if (work := _read_work(path)) is not None}
        busy_ms, is_touched = 0, not self._work
        for path, work in self._work.items():
            last = before.get(path, work)
            is_touched = is_touched or work.requests != last.requests or work.in_flight > 0
            busy_ms = max(busy_ms, work.busy_ms - last.busy_ms)
        return is_touched, busy_ms / 1e3


def read_stalled_us(pressure_file: str = "/proc/pressure/io") -> int | None:
    """Read how long some task has waited for I/O since boot; None if the kernel does not report it."""
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
