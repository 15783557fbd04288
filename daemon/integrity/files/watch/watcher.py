"""
Watch roots for changes, and know what is not seen.

Events are hints, scans are the truth: a path that is told is one to look at soon, and what was missed is said, so that
a scan makes up for it. Nothing that is read causes an event. Excluded folders and, unless asked for, other file systems
mounted inside a root get no watch.

Invariants:
    I1  A change to a name of a watched root is told, unless ``blindness`` says that changes are not seen, or
        ``went_blind`` said so since. For what the kernel tells: stores through a mapping are told when the file is
        closed, and writes through other mounts of a server or by other machines never.
    I2  ``went_blind`` is called after the new watches exist, so that a scan that it starts misses nothing.
    I3  No descriptor of a root stays open: a root can be unmounted while it is watched.
    I4  Memory grows with the number of watched folders alone, not with that of events.

A queue of events and a thread for each root: a burst in one does not blind the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from integrity.files.mounts import find_mounts
from integrity.files.watch.records import Blindness, BlindReason, WatchedRoot, WatchSink
from integrity.files.watch.root import RootWatch

__all__ = ["BlindReason", "Blindness", "WatchSink", "WatchedRoot", "Watcher"]


class Watcher:
    """
    Watch some roots and tell a sink.

    ``watch``, ``tend`` and ``close`` may be called by several threads, which take turns; ``blindness`` and
    ``folder_count`` never wait for them.

    Args:
        sink: who is told.
        monotonic: the clock, in seconds.
        renew_interval_s: the least time between two renewals of a root after overflows, and between two tries of what
            was refused.
    """

    def __init__(
        self, sink: WatchSink, *, monotonic: Callable[[], float] = time.monotonic, renew_interval_s: float = 300.0
    ) -> None:
        self._sink = sink
        self._monotonic = monotonic
        self._renew_interval_s = renew_interval_s
        self._turn = threading.Lock()
        self._lives: dict[bytes, RootWatch] = {}  # replaced, never changed: read without a lock

    def watch(self, roots: Sequence[WatchedRoot]) -> None:
        """
        Begin, or replace what is watched; returns when the watches are made.

        A root that is given again as it was stays watched without a gap. One with other settings is watched anew, and
        told as touched as a whole.
        """
        with self._turn:
            old = self._lives
            kept = {root.path: old[root.path] for root in roots if root.path in old and old[root.path].root == root}
            for path, life in old.items():
                if path not in kept:
                    life.stop()
            self._lives = kept
            for root in roots:
                if root.path not in self._lives:
                    life = RootWatch(root, self._sink, self._renew_interval_s)
                    self._lives = {**self._lives, root.path: life}
                    life.start(self._monotonic())
                    if root.path in old:
                        self._sink.touched(root.path, b"")

    def tend(self) -> None:
        """
        Mend what has happened; to be called about once a minute.

        Watches a root anew after events were lost (at most once in ``renew_interval_s``), or when another folder
        stands at its path, follows mounts, tries again what was refused, and frees watches of folders that left.
        """
        with self._turn:
            mounts = find_mounts()
            for life in self._lives.values():
                life.tend(self._monotonic(), mounts)

    def blindness(self, root: bytes) -> tuple[Blindness, ...]:
        """
        List what of a root is not seen right now; nothing if all is.

        Of unreadable folders the first hundred are named.
        """
        return self._lives[root].find_blindness()

    def is_watching(self, root: bytes) -> bool:
        """Say whether a root is in care, however well it is seen."""
        return root in self._lives

    def folder_count(self, root: bytes | None = None) -> int:
        """Count the folders that are watched, in one root or in all."""
        return sum(life.count_folders() for path, life in self._lives.items() if root in (None, path))

    def close(self) -> None:
        """Stop watching. Nothing is told any more once it has returned; may be called twice."""
        with self._turn:
            lives, self._lives = self._lives, {}
            for life in lives.values():
                life.stop()
