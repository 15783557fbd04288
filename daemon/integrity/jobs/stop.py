"""
The wish that a job ends, which a signal handler may set.

``threading.Event`` is no such thing: Python runs a handler in the main thread, between any two instructions; between
those where that thread holds the event's lock in ``wait`` the handler waits for itself, for ever.
"""

from __future__ import annotations

import os
import select
import weakref


class Stop:
    """Is set once, by any thread or by a signal handler, and can be waited for by any number of threads."""

    def __init__(self) -> None:
        self._is_set = False
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        weakref.finalize(self, os.close, self._fd)

    def is_set(self) -> bool:
        """Say whether the job is to end."""
        return self._is_set

    def set(self) -> None:
        """Have the job end; may be called again."""
        self._is_set = True
        os.eventfd_write(self._fd, 1)  # never read, so that all who wait see it

    def wait(self, duration_s: float | None = None) -> bool:
        """
        Wait until it is set, or for so long.

        Args:
            duration_s: seconds; None waits for ever.

        Returns:
            Whether it is set.
        """
        if not self._is_set:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            poll.poll(None if duration_s is None else max(duration_s, 0.0) * 1000)
        return self._is_set
