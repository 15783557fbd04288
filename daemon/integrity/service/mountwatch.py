"""Notice that something was mounted or unmounted: the kernel says so to who asks, at no cost (proc(5))."""

from __future__ import annotations

import os
import select


class MountWatch:
    """Belongs to one thread."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLPRI)

    def has_changed(self) -> bool:
        """Say whether the mounts that this process sees have changed since it was last asked."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)
