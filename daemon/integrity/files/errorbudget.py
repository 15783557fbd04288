"""
Count what reading a sick disk has cost, so that it is left alone in time.

Every failing read makes a dying disk try again for seconds and brings its end nearer. After so many, or so much time,
the device is left for a person to look at (R4).
"""

from __future__ import annotations

import threading


class ErrorBudget:
    """What one device may cost in failing reads. One per device; any thread may use it."""

    def __init__(self, max_errors: int = 100, max_error_s: float = 600.0) -> None:
        self._max_errors = max_errors
        self._max_error_s = max_error_s
        self._errors = 0
        self._error_s = 0.0
        self._lock = threading.Lock()

    @property
    def errors(self) -> int:
        """Failing reads so far."""
        return self._errors

    @property
    def error_s(self) -> float:
        """Seconds spent in failing reads so far."""
        return self._error_s

    @property
    def is_spent(self) -> bool:
        """Say whether the device is to be left alone."""
        return self._errors >= self._max_errors or self._error_s >= self._max_error_s

    def charge(self, duration_s: float) -> None:
        """Note one failing read and how long it took."""
        with self._lock:
            self._errors += 1
            self._error_s += duration_s
