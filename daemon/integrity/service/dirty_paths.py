"""
Collect the paths that the watcher reports until they are quiet and can be scanned.

Names are ready when nothing happened in their root for the settle time, so a file being copied is not read repeatedly,
and files whose times moved together are judged together. In a root that never becomes quiet, a name is ready when it is
quiet itself. If too many names of a root wait, or the watcher missed events, the whole root becomes dirty. Nothing is
stored: the service scans all roots when it starts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_NAMES = 2000
"""Looking up more names than this one by one costs more than walking many folders."""

_MOST_DELAYS = 10
"""A root that never becomes quiet is scanned after this many settle times."""


@dataclass(slots=True)
class _Waiting:
    """The dirty names of one root with the time of their last event, or the whole root."""

    since: float  # the first event
    names: dict[bytes, float] = field(default_factory=dict)
    is_whole: bool = False
    last_at: float = 0.0


class DirtyPaths:
    """
    Collect dirty names per root, and return those that are quiet. Any thread may use it.

    Args:
        settle_s: returns how long a root's names must be quiet.
        most_names: limit per root; beyond it, the whole root becomes dirty.
    """

    def __init__(
        self,
        settle_s: Callable[[bytes], float],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        most_names: int = MOST_NAMES,
    ) -> None:
        self._settle_s = settle_s
        self._monotonic = monotonic
        self._most_names = most_names
        self._lock = threading.Lock()
        self._waiting: dict[bytes, _Waiting] = {}

    def add(self, root: bytes, name: bytes) -> None:
        """Mark a name in a root as dirty. An empty name marks the whole root."""
        now = self._monotonic()
        with self._lock:
            waiting = self._waiting.setdefault(root, _Waiting(now))
            waiting.last_at = now
            if waiting.is_whole:
                return
            waiting.names[name] = now
            if not name or len(waiting.names) > self._most_names:
                self._widen(waiting)

    def add_whole(self, root: bytes) -> None:
        """Mark a whole root as dirty."""
        now = self._monotonic()
        with self._lock:
            waiting = self._waiting.setdefault(root, _Waiting(now))
            waiting.last_at = now
            self._widen(waiting)

    def take(self, root: bytes) -> tuple[bytes, ...] | None:
        """
        Remove and return what is quiet.

        Returns:
            Names; an empty tuple means the whole root. None if nothing is ready.
        """
        now, settle_s = self._monotonic(), self._settle_s(root)
        with self._lock:
            waiting = self._waiting.get(root)
            if waiting is None:
                return None
            if now - waiting.last_at < settle_s and now - waiting.since < settle_s * _MOST_DELAYS:
                return None
            del self._waiting[root]
            if waiting.is_whole:
                return ()
            settled = tuple(name for name, at in waiting.names.items() if now - at >= settle_s)
            left = {name: at for name, at in waiting.names.items() if now - at < settle_s}
            if left:
                self._waiting[root] = _Waiting(min(left.values()), left, last_at=waiting.last_at)
            return settled or None

    def give_back(self, root: bytes, names: tuple[bytes, ...]) -> None:
        """Mark names, or the root, as dirty again because their scan failed."""
        if not names:
            self.add_whole(root)
        for name in names:
            self.add(root, name)

    def keep_only(self, roots: frozenset[bytes]) -> None:
        """Drop the roots that are no longer watched."""
        with self._lock:
            for root in self._waiting.keys() - roots:
                del self._waiting[root]

    @staticmethod
    def _widen(waiting: _Waiting) -> None:
        waiting.names.clear()
        waiting.is_whole = True
