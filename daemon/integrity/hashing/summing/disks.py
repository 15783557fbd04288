"""Whether a large file can be read beside others without its disk having to jump between them (R4)."""

from __future__ import annotations

import os
import threading

from integrity.files.devices import find_device
from integrity.files.residency import resident_bytes

_LITTLE = 16
"""So small a part of a file may be missing from memory: systems drop a few pages of what is in use, too."""


class Disks:
    """What is known of the disks that files lie on. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_rotational: dict[int, bool] = {}

    def can_jump(self, fd: int) -> bool:
        """Say whether an open file lies on a disk that does not turn, or in memory, all or nearly all of it."""
        status = os.fstat(fd)
        with self._lock:
            if status.st_dev not in self._is_rotational:
                self._is_rotational[status.st_dev] = find_device(fd).is_rotational
            is_rotational = self._is_rotational[status.st_dev]
        return not is_rotational or (resident_bytes(fd, status.st_size) or 0) >= status.st_size * (1 - 1 / _LITTLE)
