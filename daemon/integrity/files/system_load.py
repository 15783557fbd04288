"""
Which boot of the machine this is.

Give way to others: the lowest I/O class, and little of the processor.

Only a disk's scheduler knows I/O classes, and most disks have none by default ("none" and old mq-deadline ignore them):
this is a courtesy besides the pace, not instead of it.

Say how long others have waited for a disk.

Two measures of the kernel are put together. Pressure stall information counts the time in which some task waits for
I/O, but that of the whole machine, our own waiting included, and diluted by each processor that is busy with something
else. A block device's statistics count the time in which it had work, but know nothing of queues above it. What others
suffer is told only while we are silent: so ask at the beginning and at the end of a silence, and take the difference.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import platform
from collections.abc import Sequence
from typing import NamedTuple

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


def read_boot_uuid() -> str:
    """Read the kernel's random number of the running boot, see random(4)."""
    with open(_BOOT_ID, encoding="ascii") as file:
        return file.read().strip()


_LOG = logging.getLogger(__name__)

NICENESS = 10
"""Behind whoever somebody waits for, but not starved by a busy machine: the promise is to be kept there, too."""

# linux/ioprio.h
_WHO_PROCESS = 1
_CLASS_SHIFT = 13
_CLASS_IDLE = 3

# asm/unistd.h: ioprio_set, ioprio_get. The generic table serves all newer architectures.
_CALLS = {"x86_64": (251, 252), "i686": (289, 290), "armv7l": (314, 315), "ppc64le": (273, 274), "s390x": (282, 283)}
_GENERIC = frozenset({"aarch64", "riscv64", "loongarch64"})
_GENERIC_CALLS = (30, 31)


def be_idle() -> bool:
    """
    Have this thread, and all that it starts from now on, read only when nobody else does.

    To be called before threads are started: on Linux both belong to a thread and are inherited. It never fails: where
    the system refuses (a seccomp filter of the unit, say) that is logged, and the pace has to do.

    Returns:
        Whether all of it was granted.
    """
    return all([_be_nice(), _set_idle_class()])


def get_io_class() -> int | None:
    """Return the I/O class of the calling thread (0 none, 1 real time, 2 best effort, 3 idle); None: can't tell."""
    calls = _find_calls()
    if calls is None:
        return None
    priority = ctypes.CDLL(None, use_errno=True).syscall(calls[1], _WHO_PROCESS, 0)
    return None if priority < 0 else int(priority) >> _CLASS_SHIFT


def _be_nice() -> bool:
    try:
        if os.getpriority(os.PRIO_PROCESS, 0) < NICENESS:  # a unit may have said more
            os.setpriority(os.PRIO_PROCESS, 0, NICENESS)
    except OSError as error:
        _LOG.warning("niceness refused niceness=%d error=%s", NICENESS, error.strerror)
        return False
    return True


def _set_idle_class() -> bool:
    calls = _find_calls()
    if calls is None:
        _LOG.warning("io class unknown machine=%s", platform.machine())
        return False
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(calls[0], _WHO_PROCESS, 0, _CLASS_IDLE << _CLASS_SHIFT) == 0:
        return True
    number = ctypes.get_errno()
    _LOG.warning("io class refused class=idle error=%s", errno.errorcode.get(number, str(number)))
    return False


def _find_calls() -> tuple[int, int] | None:
    """Find the numbers of the calls; None where a process of another word size runs than the machine's."""
    machine = platform.machine()
    if ctypes.sizeof(ctypes.c_void_p) != 8 and machine not in ("i686", "armv7l"):
        return None
    return _GENERIC_CALLS if machine in _GENERIC else _CALLS.get(machine)


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
