"""
How fast a job may read.

``Throttle`` keeps a ceiling over any stretch longer than a second: that is all a command's ``--rate`` asks for.
``DevicePace`` is the daemon's: it moves such a ceiling up and down, so that nobody else on the disk is disturbed and
the promise is kept all the same. How it knows of others is in ``silence`` and ``latency``, how far it goes in ``rate``.
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
"""So much of a second's allowance may be read at once; what was not used up is not saved for longer."""

PIECE_BYTES = 1 << 20
"""What is read in one go from a disk that others use: on a slow one somebody waits 10 ms for it, not a tenth second."""

_PIECE_S = 0.05  # no piece is longer than what is read in that time, or silences would cost too much

_JUDGE_S = 0.25
"""No judgement comes sooner after another: a read of somebody else may take as long as that on a busy disk."""

_LISTEN_EVERY_S = 1.0
_LISTEN_S = 0.04
"""Where full speed leaves no silence by itself, one is made: 4 % of the speed for knowing whom we disturb."""

_MOST_READ_S = 1.0  # so long at most a made silence waits for the reads that are under way

_SLOWER_PERCENT = 33
"""Latency varies by itself: a third of the time must be more than usual before that means anybody."""


class Throttle(Pace):
    """
    Make readers wait so that together they keep below a rate. Thread-safe.

    Args:
        rate_bytes_per_s: the ceiling; may be infinite.
        stop: ends all waiting at once.
        monotonic: the clock, in seconds.
        wait: how to wait; True when the job was asked to stop meanwhile.
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
        """Tell how long so many bytes take at this rate."""
        return size_bytes / self.rate_bytes_per_s

    def share_bytes(self, duration_s: float) -> float:
        """Say how much may be read in so long."""
        return self.rate_bytes_per_s * duration_s

    def take(self, size_bytes: int) -> None:
        """Wait until ``size_bytes`` more may be read: what is read has been waited for, the first piece, too."""
        delay = self.claim(size_bytes)
        if delay > 0:
            self._wait(delay)

    def claim(self, size_bytes: int) -> float:
        """Take a place in the line; return how many seconds to wait for it."""
        with self._lock:
            now = self._monotonic()
            self._paid_until = max(self._paid_until, now - BURST_S) + size_bytes / self.rate_bytes_per_s
            return self._paid_until - now


class DevicePace(Pace):
    """
    Read a device as fast as others on it can bear. One per device, shared by all roots on it; thread-safe.

    Args:
        settings: ceiling, floor, and how much pressure is too much.
        stop: ends all waiting at once.
        needed_bytes_per_s: what the promise needs from this device in the time that is left; asked from any thread.
        pressure: the seconds for which others have waited for the device so far (``files.pressure.Pressure``), asked
            at the beginning and the end of silences; None where that can't be known.
        is_sure: that tells of all waiting; else the latency of our own reads is looked at as well.
        monotonic: the clock, in seconds.
        wait: how to wait; True when the job was asked to stop meanwhile.
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
        self._silence = IdlePeriods(pressure)
        self._latency = Latency(monotonic)
        self._judged_at = monotonic()
        self._fetched_bytes = 0
        self._listen_at = self._silent_until = monotonic()
        self._read_s = 0.0  # how long reads take at the moment
        self._is_sure = is_sure
        self._is_pressed = False

    @property
    def rate_bytes_per_s(self) -> float:
        """What is allowed now; where nothing limits it, what was measured."""
        with self._lock:
            return min(self._rate.allowed, max(self._rate.best, self._rate.lowest))

    def duration_s(self, size_bytes: int) -> float:
        """Tell how long so many bytes may take at worst."""
        return size_bytes / self._rate.floor + _LISTEN_S + _MOST_READ_S

    def piece_bytes(self) -> int:
        """Read small pieces where that is slow, while others use the disk, and where durations have to be compared."""
        if self._is_pressed or self._uses_latency:
            return PIECE_BYTES
        with self._lock:
            pieces = int(min(self._rate.allowed, self._rate.best) * _PIECE_S) // PIECE_BYTES
        return max(pieces, 1) * PIECE_BYTES

    def share_bytes(self, duration_s: float) -> float:
        """Say how much may be read in so long; before anything was measured, as fast as it is allowed."""
        with self._lock:
            return min(self._rate.allowed, self._rate.best or math.inf) * duration_s

    def take(self, size_bytes: int) -> None:
        """Wait until ``size_bytes`` more may be read, and judge what was heard meanwhile."""
        with self._lock:
            now = self._monotonic()
            self._make_silence(now)
            delay = max(self._throttle.claim(size_bytes), self._silent_until - now)
            if delay > 0:
                self._silence.begin_wait(now)
        if delay > 0:
            self._wait(delay)
        with self._lock:
            now = self._monotonic()
            self._silence.begin_read(now, has_waited=delay > 0)
            self._judge(now)

    def took(self, size_bytes: int, duration_s: float, reads: int = 1) -> None:
        """Count what was read, and how long it took."""
        with self._lock:
            self._silence.end_read(self._monotonic())
            self._fetched_bytes += size_bytes
            self._read_s = max(self._read_s * 0.9, min(duration_s, _MOST_READ_S))
            if self._uses_latency and size_bytes:
                self._latency.note(size_bytes // reads, duration_s / reads)

    @property
    def _uses_latency(self) -> bool:
        return self._silence.is_deaf or not self._is_sure

    def _make_silence(self, now: float) -> None:
        """Have all readers rest for a moment if there was no silence for a while."""
        if now < self._listen_at or self._silence.is_deaf:
            return
        self._listen_at = now + _LISTEN_EVERY_S
        if self._rate.is_choice:
            self._silent_until = now + _LISTEN_S + (self._read_s if self._silence.is_broken else 0.0)

    def _judge(self, now: float) -> None:
        """Go slower or faster, once enough was heard."""
        elapsed_s = now - self._judged_at
        if elapsed_s < _JUDGE_S and self._fetched_bytes:
            return
        if not (self._silence.has_enough and (self._latency.has_enough or not self._uses_latency)):
            return
        percent = self._silence.take_percent()
        slower_percent = self._latency.take_percent() if self._uses_latency else 0.0
        reached = self._fetched_bytes / elapsed_s
        self._rate.note_speed(reached)
        self._is_pressed = percent > self._most_percent or slower_percent > self._most_slower_percent
        if self._is_pressed:
            self._rate.fall(reached)
        else:
            self._rate.rise()
        self._throttle.rate_bytes_per_s = self._rate.allowed
        self._judged_at, self._fetched_bytes = now, 0
        self._listen_at = now + _LISTEN_EVERY_S


def pace_device(
    device: Device, settings: PaceSettings, stop: Stop, *, needed_bytes_per_s: Callable[[], float]
) -> DevicePace:
    """Make the pace of a device of this machine, to be shared by all roots on it; see ``DevicePace``."""
    pressure = Pressure(device.layers)
    return DevicePace(
        settings, stop, needed_bytes_per_s=needed_bytes_per_s, pressure=pressure, is_sure=pressure.has_stalls
    )
