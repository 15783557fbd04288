"""
Run the watcher in a thread, collect what it reports until it can be scanned, and report what it can't watch.

Names are ready when nothing happened in their root for the settle time, so a file being copied is not read repeatedly,
and files whose times moved together are judged together. In a root that never becomes quiet, a name is ready when it is
quiet itself. If too many names of a root wait, or the watcher missed events, the whole root becomes dirty. Nothing is
stored: the service scans all roots when it starts.

Blind spots are shown in ``status`` as long as they exist. One that lasts becomes a finding, because it needs a person's
action. A server's changes can't be watched, which is not a fault: such roots are scanned by schedule.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from integrity.catalog import findings
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.errors import AppError, show_path
from integrity.files.watch.watcher import Blindness, BlindReason, WatchedRoot, Watcher
from integrity.jobs.open_root import make_excludes
from integrity.model import FindingKind
from integrity.service.control.wire import WatchState
from integrity.threads import RoundThread

if TYPE_CHECKING:
    from integrity.config import RootSettings
    from integrity.service.inventory import MonitoredRoot

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
        with self._lock:
            for root in self._waiting.keys() - roots:
                del self._waiting[root]

    @staticmethod
    def _widen(waiting: _Waiting) -> None:
        waiting.names.clear()
        waiting.is_whole = True


_log = logging.getLogger(__name__)

TEND_S = 60.0
LASTS_S = 900.0
"""After this time, a blind spot becomes a finding."""


class WatchThread(RoundThread):
    """
    Watch roots, and pass events to ``DirtyPaths``.

    Args:
        watched: called for each root when its watch begins or can't begin: earlier changes went unseen.
        clock: seconds UTC.
        lasts_s: how long a blind spot must last to become a finding.
    """

    def __init__(
        self,
        dirty_paths: DirtyPaths,
        open_catalog: Callable[[], Catalog],
        catalog_path: bytes,
        watched: Callable[[MonitoredRoot], None],
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        lasts_s: float = LASTS_S,
    ) -> None:
        super().__init__("watch")
        self._dirty_paths = dirty_paths
        self._open_catalog = open_catalog
        self._catalog_path = catalog_path
        self._watched = watched
        self._clock = clock
        self._monotonic = monotonic
        self._lasts_s = lasts_s
        self._watcher = Watcher(self, monotonic=monotonic)
        self._roots: tuple[MonitoredRoot, ...] = ()
        self._blind_since: dict[bytes, float] = {}
        self._described: dict[bytes, tuple[RootSettings, bool, WatchedRoot]] = {}
        self._begun: set[tuple[bytes, bool]] = set()
        self._reported: set[bytes] | None = None  # roots with a finding; None: not known yet
        self._handled: tuple[MonitoredRoot, ...] | None = None  # roots of the last round

    def start(self, roots: Sequence[MonitoredRoot] = ()) -> None:
        """Begin to watch roots. Returns at once: the watches of a large tree take seconds."""
        self._roots = tuple(roots)
        super().start()

    def set_roots(self, roots: Sequence[MonitoredRoot]) -> None:
        """Replace the watched roots. Returns at once."""
        self._roots = tuple(roots)
        self.call()

    def states(self) -> tuple[WatchState, ...]:
        """Return how completely each root is watched now."""
        return tuple(
            WatchState(
                root.path,
                self._watcher.folder_count(root.path),
                tuple(blindness.message for blindness in self._watcher.blindness(root.path)),
            )
            for root in self._roots
            if self._watcher.is_watching(root.path)
        )

    def touched(self, root: bytes, path: bytes) -> None:
        """Mark a path as dirty; see ``WatchSink``."""
        self._dirty_paths.add(root, path)

    def went_blind(self, root: bytes, blindness: Blindness) -> None:
        """Log a blind spot, and mark the whole root as dirty; see ``WatchSink``."""
        level = logging.INFO if blindness.reason is BlindReason.REMOTE else logging.WARNING
        _log.log(level, "watch_blind root=%s reason=%s: %s", show_path(root), blindness.reason, blindness.message)
        self._dirty_paths.add_whole(root)

    def _round(self) -> float:
        roots = self._roots
        if roots is not self._handled:
            self._handled = roots
            self._watch(roots)
        self._watcher.tend()
        try:
            self._update_findings(roots)
        except AppError as error:
            _log.error("watch_blind could not be written down: %s", error)
        return TEND_S

    def _finish(self) -> None:
        self._watcher.close()

    def _watch(self, roots: Sequence[MonitoredRoot]) -> None:
        # A hanging root would block this thread. When it answers, these are called again.
        self._watcher.watch([self._describe(root) for root in roots if not root.is_hanging])
        for root in roots:
            if (root.path, root.is_hanging) not in self._begun:
                self._watched(root)
        self._begun = {(root.path, root.is_hanging) for root in roots}

    def _describe(self, root: MonitoredRoot) -> WatchedRoot:
        """Return a root's description for the watcher; the same object if unchanged, to keep its watches."""
        settings, former = root.settings, self._described.get(root.path)
        if former is not None and former[:2] == (settings, root.is_remote):
            return former[2]
        excludes = make_excludes(settings, root.path, self._catalog_path)
        described = WatchedRoot(root.path, excludes, root.is_remote, settings.cross_mounts)
        self._described[root.path] = (settings, root.is_remote, described)
        return described

    def _update_findings(self, roots: Sequence[MonitoredRoot]) -> None:
        """Open a finding for each root that is blind for long and not told as away; resolve those that are over."""
        now = self._monotonic()
        watched = [root for root in roots if self._watcher.is_watching(root.path)]
        blind = {root.path: blindness for root in watched if (blindness := self._find_faults(root.path))}
        self._blind_since = {path: self._blind_since.get(path, now) for path in blind}
        lasting = {path for path, since in self._blind_since.items() if now - since >= self._lasts_s}
        if lasting == self._reported:
            return
        with self._open_catalog() as catalog, catalog.transaction() as connection:
            for root in roots:
                if root.id is None:
                    continue
                if root.path in lasting and findings.has_open(connection, root.id, FindingKind.ROOT_SUSPENDED):
                    lasting.remove(root.path)
                elif root.path in lasting:
                    new = NewFinding(FindingKind.WATCH_BLIND, root.id, None, None, _describe_all(blind[root.path]))
                    findings.open_finding(connection, new, now=int(self._clock()), run_id=None)
                elif root in watched and root.path not in blind:
                    findings.resolve_findings(
                        connection,
                        root_id=root.id,
                        kinds={FindingKind.WATCH_BLIND},
                        resolution="the whole folder is watched again",
                        now=int(self._clock()),
                    )
        self._reported = lasting

    def _find_faults(self, root: bytes) -> tuple[Blindness, ...]:
        return tuple(one for one in self._watcher.blindness(root) if one.reason is not BlindReason.REMOTE)


def _describe_all(blindness: Sequence[Blindness]) -> str:
    more = f" (and {len(blindness) - 1} more)" if len(blindness) > 1 else ""
    return f"changes are not noticed as they happen, only by the next scan: {blindness[0].message}{more}"
