"""
What the watcher saw, kept until it has settled: then it is time to look.

A name has settled when nothing happened to it for a while; a copy under way is not read over and over. When too many
names of a root wait, or the watcher missed some, the whole root is to be looked at. Hints are lost with the process:
whoever starts it looks at everything.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_NAMES = 2000
"""More names than these are looked up one by one at a higher cost than that of a walk of many folders."""

_MOST_DELAYS = 10
"""A root in which something happens all the time is looked at all the same, after so many quiet times."""


@dataclass(slots=True)
class _Waiting:
    """What waits in one root: names with when something last happened to them, or all of it."""

    names: dict[bytes, float] = field(default_factory=dict)
    whole_since: float | None = None
    last_at: float = 0.0


class DirtyPaths:
    """
    Collect names; hand them out when they have settled. Any thread may use it.

    Args:
        settle_s: tells how long a root's names must be quiet.
        monotonic: seconds.
        most_names: of one root; beyond, all of it is to be looked at.
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
        """Note that something happened to a name in a root."""
        now = self._monotonic()
        with self._lock:
            waiting = self._waiting.setdefault(root, _Waiting())
            waiting.last_at = now
            if waiting.whole_since is not None:
                return
            waiting.names[name] = now
            if not name or len(waiting.names) > self._most_names:
                self._widen(waiting, min(waiting.names.values()))

    def add_whole(self, root: bytes) -> None:
        """Note that something may have happened anywhere in a root."""
        now = self._monotonic()
        with self._lock:
            waiting = self._waiting.setdefault(root, _Waiting())
            waiting.last_at = now
            if waiting.whole_since is None:
                self._widen(waiting, now)

    def take(self, root: bytes) -> tuple[bytes, ...] | None:
        """
        Hand out what has settled.

        Returns:
            Names; none stand for all of the root. None if nothing has settled.
        """
        now, settle_s = self._monotonic(), self._settle_s(root)
        with self._lock:
            waiting = self._waiting.get(root)
            if waiting is None:
                return None
            if waiting.whole_since is not None:
                if now - waiting.last_at < settle_s and now - waiting.whole_since < settle_s * _MOST_DELAYS:
                    return None
                del self._waiting[root]
                return ()
            settled = tuple(name for name, at in waiting.names.items() if now - at >= settle_s)
            for name in settled:
                del waiting.names[name]
            if not waiting.names:
                del self._waiting[root]
            return settled or None

    def give_back(self, root: bytes, names: tuple[bytes, ...]) -> None:
        """Take back what was handed out and could not be looked at."""
        if not names:
            self.add_whole(root)
        for name in names:
            self.add(root, name)

    def keep_only(self, roots: frozenset[bytes]) -> None:
        """Forget the roots that are not watched any more."""
        with self._lock:
            for root in self._waiting.keys() - roots:
                del self._waiting[root]

    @staticmethod
    def _widen(waiting: _Waiting, since: float) -> None:
        waiting.names.clear()
        waiting.whole_since = since
