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

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence

from integrity.errors import show_path
from integrity.files.mounts import Mount, find_mounts
from integrity.files.watch.inotify import advise_instances, advise_queue, advise_watches, get_watch_limit
from integrity.files.watch.tree import Blindness, BlindReason, TreeWatch, WatchCoverage, WatchedRoot, WatchSink, look

# Most unreadable folders that are named; scans name them all.
_MOST_NAMED = 100

# If the watch limit was not raised, check this much less often whether others freed watches.
_PATIENCE = 12

_NO_INSTANCE = frozenset({errno.EMFILE, errno.ENFILE})
_REFUSED = frozenset({errno.EACCES, errno.EPERM})


_GONE = "the folder was removed, renamed or replaced: put it back"
_NEVER_THERE = "the folder is not there: mount its disk, or correct the path"


class RootWatch:
    """
    One root, watched or waiting to be watched again.

    One thread at a time calls ``start``, ``tend`` and ``stop``; any thread may call ``find_blindness``.
    """

    def __init__(self, root: WatchedRoot, sink: WatchSink, renew_interval_s: float) -> None:
        self.root = root
        self._sink = sink
        self._renew_interval_s = renew_interval_s
        self._tree: TreeWatch | None = None
        self._first: WatchCoverage | None = None  # the folder when watching began
        self._home: WatchCoverage | None = None  # the folder last watched
        self._renewed_at: float | None = None
        self._retried_at = 0.0
        self._limit = 0  # the watch limit when it was reached
        self._lock = threading.Lock()
        self._blind: dict[tuple[BlindReason, bytes], Blindness] = {}
        self._again: set[tuple[BlindReason, bytes]] = set()  # problems found since the current attempt began

    def start(self, now_s: float) -> None:
        """Begin to watch; report what cannot be watched."""
        self._retried_at = now_s
        if self.root.is_remote:
            where = show_path(self.root.path)
            message = f"{where}: is on a network file system, where others' changes are not told: scans will find them"
            self._blind[BlindReason.REMOTE, b""] = Blindness(BlindReason.REMOTE, b"", message)
        else:
            self._begin(find_mounts())

    def stop(self) -> None:
        """Free all watches; no report follows after it returns."""
        if self._tree is not None:
            self._tree.stop()
            self._tree = None

    def find_blindness(self) -> tuple[Blindness, ...]:
        with self._lock:
            return tuple(self._blind.values())

    def count_folders(self) -> int:
        tree = self._tree
        return 0 if tree is None else tree.folder_count

    def tend(self, now_s: float, mounts: Sequence[Mount]) -> None:
        """Check that the root is still the watched folder, and repair what can be repaired."""
        if self.root.is_remote:
            return
        coverage = self._check(mounts)
        tree, home = self._tree, self._home
        if coverage is None:
            self.stop()
        elif tree is None or home is None or tree.is_lost or not coverage.is_same_folder(home):
            self._renew(now_s, mounts, BlindReason.ROOT_GONE, "its folder came back, or another stands there")
        elif tree.has_overflowed or not tree.is_alive:
            if not tree.is_alive:
                self._note(BlindReason.OVERFLOW, b"", "the thread that reads its events has ended: see the log for why")
            if self._renewed_at is None or now_s - self._renewed_at >= self._renew_interval_s:
                self._renew(now_s, mounts, BlindReason.OVERFLOW, "events had been lost")
        else:
            self._follow_mounts(tree, home, coverage)
            self._retry(tree, now_s, mounts)
            tree.sweep()

    # Reports of TreeWatch, also from its thread.

    def touched(self, path: bytes) -> None:
        self._sink.touched(self.root.path, path)

    def overflowed(self) -> None:
        happened = "more changes came at once than the kernel keeps, some were not told; the root has to be scanned"
        self._note(BlindReason.OVERFLOW, b"", f"{happened}; {advise_queue()}")

    def unmounted(self, point: bytes) -> None:
        self._note(BlindReason.UNMOUNTED, point, "its file system was unmounted: mount it again")

    def lost(self) -> None:
        """Report that the root's folder went away, unless its unmount was reported."""
        with self._lock:
            is_known = (BlindReason.UNMOUNTED, b"") in self._blind
        if not is_known:
            self._note(BlindReason.ROOT_GONE, b"", _NEVER_THERE if self._first is None else _GONE)

    def unreadable(self, path: bytes, error: OSError) -> None:
        remedy = (
            "let the user that integrity runs as read and enter it, or exclude it"
            if error.errno in _REFUSED
            else "see the kernel's log for the cause"
        )
        self._note(BlindReason.UNREADABLE, path, f"can't be watched: {os.strerror(error.errno or 0)}; {remedy}")

    def exhausted(self, unwatched: int) -> None:
        """Report that the watch limit is reached; later increases of the number cause no further report."""
        self._limit = get_watch_limit().value
        what = f"up to {unwatched} of its folders are not watched"  # some may no longer exist
        self._note(BlindReason.WATCH_LIMIT, b"", f"{what}: {advise_watches(unwatched)}")

    # End of the reports.

    def _note(self, reason: BlindReason, path: bytes, what: str) -> None:
        """Record a blindness, and report it if it is new."""
        where = os.path.join(self.root.path, path) if path else self.root.path
        blindness = Blindness(reason, path, f"{show_path(where)}: {what}")
        key = (reason, path)
        with self._lock:
            self._again.add(key)
            is_news = key not in self._blind
            if is_news and reason is BlindReason.UNREADABLE and len(self._blind) >= _MOST_NAMED:
                return
            self._blind[key] = blindness
        if is_news:
            self._sink.went_blind(self.root.path, blindness)

    def _check(self, mounts: Sequence[Mount]) -> WatchCoverage | None:
        """Return the folder at the root's path; report and return None if it cannot be watched."""
        try:
            coverage = look(self.root.path, mounts)
        except OSError as error:
            if error.errno in _REFUSED:
                self.unreadable(b"", error)
            else:
                self.lost()
            return None
        if self._first is None or self._home is None:
            self._first = coverage
        elif not coverage.is_same_folder(self._first):
            point = self._home.mount_point
            # If something is mounted over it, that is the root now.
            if all(mount.mount_point != point for mount in mounts):
                self.unmounted(b"")
                return None
        return coverage

    def _begin(self, mounts: Sequence[Mount]) -> bool:
        """Watch the folder at the root's path; then forget every earlier blindness that did not recur."""
        with self._lock:
            self._again = set()
        coverage = self._check(mounts)
        if coverage is None:
            return False
        try:
            tree = TreeWatch(self.root, coverage, self)
        except OSError as error:
            if error.errno not in _NO_INSTANCE:
                raise
            self._note(BlindReason.INSTANCE_LIMIT, b"", f"can't be watched: {advise_instances()}")
            return False
        self._tree, self._home = tree, coverage
        tree.start()
        with self._lock:
            self._blind = {key: value for key, value in self._blind.items() if key in self._again}
        return True

    def _renew(self, now_s: float, mounts: Sequence[Mount], reason: BlindReason, why: str) -> None:
        """Make a new watch, and only then report that the root must be scanned: later changes are reported."""
        self.stop()
        if self._begin(mounts):
            self._renewed_at = now_s
            message = f"{show_path(self.root.path)}: {why}; it is watched again, and has to be scanned"
            self._sink.went_blind(self.root.path, Blindness(reason, b"", message))

    def _follow_mounts(self, tree: TreeWatch, home: WatchCoverage, coverage: WatchCoverage) -> None:
        """Re-check the places of new and removed mounts: no event reports what is visible there now."""
        with self._lock:
            gone = {path for reason, path in self._blind if path and reason is BlindReason.UNMOUNTED}
        points = gone | {point for _, point in home.beneath ^ coverage.beneath}
        if not points:
            return
        self._home = coverage
        tree.note_mounts(coverage)
        for point in sorted(points):
            is_ours = tree.refresh(point)
            with self._lock:
                self._blind.pop((BlindReason.UNMOUNTED, point), None)
            if is_ours:
                self.touched(point)

    def _retry(self, tree: TreeWatch, now_s: float, mounts: Sequence[Mount]) -> None:
        if tree.unwatched and self._has_room(tree, now_s):
            self._renew(
                now_s, mounts, BlindReason.WATCH_LIMIT, "there are watches for all its folders, or more of them"
            )
            return
        if now_s - self._retried_at < self._renew_interval_s:
            return
        self._retried_at = now_s
        with self._lock:
            refused = [path for reason, path in self._blind if reason is BlindReason.UNREADABLE]
            self._again = set()
        if b"" in refused:
            self._renew(now_s, mounts, BlindReason.UNREADABLE, "it can be read again")
            return
        for path in refused:
            tree.refresh(path)
            with self._lock:
                is_over = (BlindReason.UNREADABLE, path) not in self._again
                if is_over:
                    del self._blind[BlindReason.UNREADABLE, path]
            if is_over:
                self.touched(path)

    def _has_room(self, tree: TreeWatch, now_s: float) -> bool:
        if get_watch_limit().value > self._limit:
            return True
        is_due = self._renewed_at is None or now_s - self._renewed_at >= _PATIENCE * self._renew_interval_s
        return is_due and tree.has_room()


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
