"""
Limit how fast a job reads.

``Throttle`` keeps a rate over any stretch longer than a second; a command's ``--rate`` needs no more. ``DevicePace`` is
for the daemon: it raises and lowers such a rate so that other users of the disk are not disturbed and ``verify_every``
is still kept. ``contention`` detects other users, ``rate`` decides the rate.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from integrity.config.definition import PaceConfig as PaceSettings
from integrity.files.block_devices import Device
from integrity.files.span import Pace
from integrity.files.system_load import Pressure
from integrity.jobs.pace.contention import IdlePeriods, Latency
from integrity.jobs.pace.rate import Rate
from integrity.jobs.report import Stop

BURST_S = 0.25
"""The burst, as seconds of the allowed rate; unused allowance is not saved beyond it."""

PIECE_BYTES = 1 << 20
"""Bytes per read on a disk that others use: on a slow disk others wait 10 ms for it, not 100 ms."""

_PIECE_S = 0.05  # the longest read: longer ones would make idle periods too expensive

_ADJUST_EVERY_S = 0.25
"""Minimum time between two judgements: one read of another program may take as long on a busy disk."""

_FORCE_IDLE_EVERY_S = 1.0
_FORCED_IDLE_S = 0.04
"""Length of a forced idle period, where full speed leaves none: 4 % of the speed, to notice whom we disturb."""

_MOST_READ_S = 1.0  # longest time a forced idle period waits for reads in flight

_SLOWER_PERCENT = 33
"""Latency varies by itself: only if a third of the time exceeds the usual does it indicate other users."""


class Throttle(Pace):
    """
    Make readers wait so that together they stay below a rate. Thread-safe.

    Args:
        rate_bytes_per_s: the ceiling; may be infinite.
        stop: ends all waiting at once.
        monotonic: the clock, in seconds.
        wait: replaces ``stop.wait``; returns True if the job was asked to stop meanwhile.
    """

    def __init__(
        self,
        rate_bytes_per_s: float,
        stop: Stop,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self.rate_bytes_per_s = rate_bytes_per_s
        self._wait = wait or stop.wait
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._paid_until = monotonic()

    def duration_s(self, size_bytes: int) -> float:
        """Return how long these bytes take at this rate."""
        return size_bytes / self.rate_bytes_per_s

    def share_bytes(self, duration_s: float) -> float:
        """Return how many bytes may be read in this time."""
        return self.rate_bytes_per_s * duration_s

    def take(self, size_bytes: int) -> None:
        """Wait until ``size_bytes`` more may be read. The wait comes before the read, also for the first one."""
        delay = self.claim(size_bytes)
        if delay > 0:
            self._wait(delay)

    def claim(self, size_bytes: int) -> float:
        """Reserve ``size_bytes`` and return the seconds to wait for them."""
        with self._lock:
            now = self._monotonic()
            self._paid_until = max(self._paid_until, now - BURST_S) + size_bytes / self.rate_bytes_per_s
            return self._paid_until - now


class DevicePace(Pace):
    """
    Read a device as fast as other users allow. One per device, shared by all roots on it. Thread-safe.

    Args:
        settings: ceiling, floor, and the tolerated pressure.
        stop: ends all waiting at once.
        needed_bytes_per_s: the rate that ``verify_every`` requires from this device; called from any thread.
        pressure: total seconds that others have waited for the device (``files.system_load.Pressure``), called at the
            beginning and the end of idle periods; None where unknown.
        is_sure: ``pressure`` covers all waiting; otherwise the latency of our own reads is used as well.
        monotonic: the clock, in seconds.
        wait: replaces ``stop.wait``; returns True if the job was asked to stop meanwhile.
    """

    def __init__(
        self,
        settings: PaceSettings,
        stop: Stop,
        *,
        needed_bytes_per_s: Callable[[], float],
        pressure: Callable[[], float | None],
        is_sure: bool = True,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        self._most_percent = settings.pressure_percent
        self._most_slower_percent = max(settings.pressure_percent, _SLOWER_PERCENT)
        self._wait = wait or stop.wait
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._rate = Rate(settings, needed_bytes_per_s)
        self._throttle = Throttle(self._rate.allowed, stop, monotonic=monotonic, wait=wait)
        self._idle = IdlePeriods(pressure)
        self._latency = Latency(monotonic)
        self._adjusted_at = monotonic()
        self._fetched_bytes = 0
        self._force_idle_at = self._idle_until = monotonic()
        self._read_s = 0.0  # recent duration of our reads
        self._is_sure = is_sure
        self._is_contended = False

    @property
    def rate_bytes_per_s(self) -> float:
        """The allowed rate, at most the best measured one."""
        with self._lock:
            return min(self._rate.allowed, max(self._rate.best, self._rate.lowest))

    def duration_s(self, size_bytes: int) -> float:
        """Return how long these bytes take in the worst case."""
        return size_bytes / self._rate.floor + _FORCED_IDLE_S + _MOST_READ_S

    def piece_bytes(self) -> int:
        """Return the bytes per read: small on slow disks, while others use the disk, or to compare latencies."""
        if self._is_contended or self._uses_latency:
            return PIECE_BYTES
        with self._lock:
            pieces = int(min(self._rate.allowed, self._rate.best) * _PIECE_S) // PIECE_BYTES
        return max(pieces, 1) * PIECE_BYTES

    def share_bytes(self, duration_s: float) -> float:
        """Return how many bytes may be read in this time; before the first measurement, at the allowed rate."""
        with self._lock:
            return min(self._rate.allowed, self._rate.best or math.inf) * duration_s

    def take(self, size_bytes: int) -> None:
        """Wait until ``size_bytes`` more may be read, then update the rate."""
        with self._lock:
            now = self._monotonic()
            self._force_idle(now)
            delay = max(self._throttle.claim(size_bytes), self._idle_until - now)
            if delay > 0:
                self._idle.begin_wait(now)
        if delay > 0:
            self._wait(delay)
        with self._lock:
            now = self._monotonic()
            self._idle.begin_read(now, has_waited=delay > 0)
            self._adjust(now)

    def took(self, size_bytes: int, duration_s: float, reads: int = 1) -> None:
        """Record a finished read and its duration."""
        with self._lock:
            self._idle.end_read(self._monotonic())
            self._fetched_bytes += size_bytes
            self._read_s = max(self._read_s * 0.9, min(duration_s, _MOST_READ_S))
            if self._uses_latency and size_bytes:
                self._latency.note(size_bytes // reads, duration_s / reads)

    @property
    def _uses_latency(self) -> bool:
        return self._idle.is_unknown or not self._is_sure

    def _force_idle(self, now: float) -> None:
        """Force an idle period of all readers if there was none for a while."""
        if now < self._force_idle_at or self._idle.is_unknown:
            return
        self._force_idle_at = now + _FORCE_IDLE_EVERY_S
        if self._rate.is_adjustable:
            self._idle_until = now + _FORCED_IDLE_S + (self._read_s if self._idle.is_reading else 0.0)

    def _adjust(self, now: float) -> None:
        """Lower or raise the rate once enough was measured."""
        elapsed_s = now - self._adjusted_at
        if elapsed_s < _ADJUST_EVERY_S and self._fetched_bytes:
            return
        if not (self._idle.has_enough and (self._latency.has_enough or not self._uses_latency)):
            return
        percent = self._idle.take_percent()
        slower_percent = self._latency.take_percent() if self._uses_latency else 0.0
        reached = self._fetched_bytes / elapsed_s
        self._rate.note_speed(reached)
        self._is_contended = percent > self._most_percent or slower_percent > self._most_slower_percent
        if self._is_contended:
            self._rate.fall(reached)
        else:
            self._rate.rise()
        self._throttle.rate_bytes_per_s = self._rate.allowed
        self._adjusted_at, self._fetched_bytes = now, 0
        self._force_idle_at = now + _FORCE_IDLE_EVERY_S


def pace_device(
    device: Device, settings: PaceSettings, stop: Stop, *, needed_bytes_per_s: Callable[[], float]
) -> DevicePace:
    """Return the pace of a device of this machine, to be shared by all roots on it."""
    pressure = Pressure(device.layers)
    return DevicePace(
        settings, stop, needed_bytes_per_s=needed_bytes_per_s, pressure=pressure, is_sure=pressure.has_stalls
    )
