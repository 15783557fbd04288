"""Whether a large file can be read beside others without its disk having to jump between them (R4)."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext

from integrity.files.devices import find_device
from integrity.files.residency import lies_in_memory


class Disks:
    """What is known of the disks that files lie on. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spindles: dict[int, threading.Lock | None] = {}  # by st_dev; None: nothing turns

    def can_jump(self, fd: int) -> bool:
        """Say whether an open file lies on a disk that does not turn, or in memory, all or nearly all of it."""
        return self._find_spindle(fd) is None or lies_in_memory(fd)

    def turn(self, fd: int) -> AbstractContextManager[object]:
        """Give what to hold while an open file is read: a disk that turns is read by one thread at a time."""
        spindle = self._find_spindle(fd)
        return nullcontext() if spindle is None or lies_in_memory(fd) else spindle

    def _find_spindle(self, fd: int) -> threading.Lock | None:
        device = os.fstat(fd).st_dev
        with self._lock:
            if device not in self._spindles:
                self._spindles[device] = threading.Lock() if _is_rotational(fd) else None
            return self._spindles[device]


def _is_rotational(fd: int) -> bool:
    """Ask what is only to make reading faster: whether the file can be read is told when it is read."""
    try:
        return find_device(fd).is_rotational
    except OSError:
        return False
