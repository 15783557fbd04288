"""
Watch roots for changes, and report what is not seen.

Events are hints, scans are the truth: a reported path should be checked soon, and missed events are reported, so that a
scan makes up for them. Reading causes no events. Excluded folders and, unless requested, file systems mounted inside a
root get no watch. Each root has its own queue and thread, so a burst in one root does not blind the others.

Invariants:
    I1  A change to a name of a watched root is reported, unless ``blindness`` says that changes are not seen, or
        ``went_blind`` has been called since. Limited to what the kernel reports: stores through a mapping are reported
        when the file is closed, writes through other mounts of a server or by other machines never.
    I2  ``went_blind`` is called after the new watches exist, so that the scan it starts misses nothing.
    I3  No descriptor of a root stays open: a root can be unmounted while it is watched.
    I4  Memory grows with the number of watched folders, not with the number of events.
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
    Watch roots and report to a sink.

    Any thread may call ``watch``, ``tend`` and ``close``, which are serialized; ``blindness`` and ``folder_count``
    never wait for them.

    Args:
        renew_interval_s: minimum time between two renewals of a root after overflows, and between two retries of what
            was refused.
    """

    def __init__(
        self, sink: WatchSink, *, monotonic: Callable[[], float] = time.monotonic, renew_interval_s: float = 300.0
    ) -> None:
        self._sink = sink
        self._monotonic = monotonic
        self._renew_interval_s = renew_interval_s
        self._turn = threading.Lock()
        self._lives: dict[bytes, RootWatch] = {}  # replaced, never modified: read without a lock

    def watch(self, roots: Sequence[WatchedRoot]) -> None:
        """
        Set the roots to watch, replacing earlier ones; return when all watches exist.

        An unchanged root stays watched without a gap. A root with changed settings gets new watches and is reported as
        touched as a whole.
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
        Repair the watches; call this about once a minute.

        Renews a root's watch after events were lost (at most once per ``renew_interval_s``) or when another folder
        replaced it, follows mounts, retries what was refused, and frees watches of folders that left.
        """
        with self._turn:
            mounts = find_mounts()
            for life in self._lives.values():
                life.tend(self._monotonic(), mounts)

    def blindness(self, root: bytes) -> tuple[Blindness, ...]:
        """
        Return what of a root is currently not seen; empty if everything is.

        At most a hundred unreadable folders are named.
        """
        return self._lives[root].find_blindness()

    def is_watching(self, root: bytes) -> bool:
        """Return whether a root is managed here, however well it is seen."""
        return root in self._lives

    def folder_count(self, root: bytes | None = None) -> int:
        """Return the number of watched folders, in one root or in all."""
        return sum(life.count_folders() for path, life in self._lives.items() if root in (None, path))

    def close(self) -> None:
        """Stop watching; no report follows after it returns. May be called twice."""
        with self._turn:
            lives, self._lives = self._lives, {}
            for life in lives.values():
                life.stop()
