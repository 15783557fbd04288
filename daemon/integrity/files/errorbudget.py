"""
Count what reading a sick disk has cost, so that it is left alone in time.

Every failing read makes a dying disk try again for seconds and brings its end nearer. After so many, or so much time,
the device is left for a person to look at (R4). What a file system refused because its checksum did not match costs
nothing: the disk has answered, and at once.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integrity.files.errorcounters import ErrorCounters


class ErrorBudget:
    """
    What one device may cost in failing reads. One per device; any thread may use it.

    Args:
        max_errors: failing reads.
        max_error_s: seconds spent in them.
        counters: of the file system, which tell refused data from reads that failed; None: it has none.
    """

    def __init__(
        self, max_errors: int = 100, max_error_s: float = 600.0, *, counters: ErrorCounters | None = None
    ) -> None:
        self._counters = counters
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

    def is_refusal(self) -> bool:
        """Say whether the read that just failed was refused by the file system; False if that can't be told."""
        return self._counters is not None and self._counters.show_refusals_only()

    def charge(self, duration_s: float) -> None:
        """Note one failing read and how long it took."""
        with self._lock:
            self._errors += 1
            self._error_s += duration_s
