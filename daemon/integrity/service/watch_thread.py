"""
Run the watcher in a thread, and report what it can't watch.

Blind spots are shown in ``status`` as long as they exist. One that lasts becomes a finding, because it needs a person's
action. A server's changes can't be watched, which is not a fault: such roots are scanned by schedule.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from integrity.catalog import findings
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.errors import AppError, show_path
from integrity.files.watch.watcher import Blindness, BlindReason, WatchedRoot, Watcher
from integrity.jobs.open_root import make_excludes
from integrity.model import FindingKind
from integrity.service.states import WatchState
from integrity.threads import RoundThread

if TYPE_CHECKING:
    from integrity.config import RootSettings
    from integrity.service.dirty_paths import DirtyPaths
    from integrity.service.inventory import MonitoredRoot

_log = logging.getLogger(__name__)

TEND_S = 60.0
LASTS_S = 900.0
"""After this time, a blind spot becomes a finding."""


class WatchThread(RoundThread):
    """
    Watch roots, and pass events to ``DirtyPaths``.

    Args:
        dirty_paths: collects the events.
        open_catalog: opens the catalog, for this thread alone.
        catalog_path: its own files are not watched.
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
        """Open a finding for each root with a lasting blind spot, and resolve those that are over."""
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
                if root.path in lasting:
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
