"""
Plan the scrubs in an open window: first what ``verify_every`` requires, then new and touched files.

Decides how much of a root each turn reads, and when the root is done for this window. A turn may pause; the next turn
continues with the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog.roots import find_roots
from integrity.jobs.options import ScrubOptions
from integrity.jobs.scrub.plan import make_plan, plan_window
from integrity.jobs.scrub.promise import find_facts
from integrity.model import RootState
from integrity.service.inventory import may_read

if TYPE_CHECKING:
    from integrity.config import Config
    from integrity.jobs.context import Context
    from integrity.jobs.report import Summary
    from integrity.service.inventory import MonitoredRoot
    from integrity.service.schedule.clock import Windows


@dataclass(slots=True)
class _Share:
    """What the turns of one root have read in the open window. ``left_bytes`` is None before the first turn."""

    left_bytes: int | None = None
    is_planned_done: bool = False
    has_new: bool = True


class ScrubWindow:
    """
    One open window. Any thread may use it; each root is planned by the thread of its device.

    Args:
        windows: define when it closes.
        config: when it opened.

    Attributes:
        has_begun: a root has been read.
        is_over: the window has closed; no turn may start.
    """

    def __init__(self, windows: Windows, config: Config) -> None:
        self._windows = windows
        self._config = config
        self._lock = threading.Lock()
        self._shares: dict[bytes, _Share] = {}
        self._needed: dict[str, dict[bytes, float]] = {}
        self._put_off: dict[bytes, bool] = {}  # by root: whether its scrub may wake its disks
        self._protected: set[bytes] = set()
        self.has_begun = False
        self.is_over = False

    def needed_bytes_per_s(self, lane: str) -> float:
        """Return how fast the roots of a device must be read to meet their ``verify_every``."""
        with self._lock:
            return sum(self._needed.get(lane, {}).values())

    def plan(self, context: Context, root: MonitoredRoot) -> ScrubOptions | None:
        """Return how much a root's turn reads; None if its disk must not be read now, or nothing is left to do."""
        now, windows = context.now(), self._windows
        if self.is_over:
            return None
        every_s = root.settings.verify_every_s
        with context.catalog.read() as connection:
            record = next((one for one in find_roots(connection) if one.path == root.path), None)
            if record is None or record.state is RootState.PAUSED:
                return None
            facts = find_facts(connection, record, verify_every_s=every_s, now=now)
        plan = make_plan(facts, windows, verify_every_s=every_s, now=now)
        must = plan.bytes_overdue + plan.bytes_due_soon > 0
        with self._lock:
            self._needed.setdefault(root.lane, {})[root.path] = plan.needed_bytes_per_s
        if not may_read(root.disks, self._config.pace, must=must):
            with self._lock:
                self._put_off[root.path] = must
            return None
        share = self._share_of(root)
        options = plan_window(facts, windows, verify_every_s=every_s, now=now)
        if share.is_planned_done:
            share.has_new = False
            return options._replace(new=True, due_within_s=0, at_least_bytes=None)
        if share.left_bytes is None:
            share.left_bytes = options.at_least_bytes or 0
        return options._replace(at_least_bytes=max(share.left_bytes, 0))

    def take_ready(self, roots: Sequence[MonitoredRoot]) -> list[MonitoredRoot]:
        """Remove and return the roots whose disks were asleep or hot at their turn, and no longer are."""
        with self._lock:
            ready = [
                root
                for root in roots
                if (must := self._put_off.get(root.path)) is not None
                and may_read(root.disks, self._config.pace, must=must)
            ]
            for root in ready:
                del self._put_off[root.path]
        return ready

    def begin_protecting(self, root: MonitoredRoot) -> bool:
        """Return whether parity of a root is to be made now, which is not asked for again in this window."""
        with self._lock:
            is_first = root.path not in self._protected
            self._protected.add(root.path)
            return is_first

    def stop_protecting(self, root: MonitoredRoot) -> None:
        """Record that the making of parity was interrupted."""
        with self._lock:
            self._protected.discard(root.path)

    def mark_new(self, root: MonitoredRoot) -> None:
        """Record that a root has new or touched files to verify in this window."""
        with self._lock:
            share = self._shares.get(root.path)
            if share is not None:
                share.has_new = True

    def record_turn(self, root: MonitoredRoot, summary: Summary, *, is_paused: bool) -> bool:
        """
        Record the result of a turn.

        Returns:
            Whether the root needs another turn in this window.
        """
        if self.is_over:
            return False
        share = self._share_of(root)
        if share.left_bytes is not None:
            share.left_bytes -= summary.counts.bytes_read
        if is_paused:
            return True
        if share.left_bytes is None:
            return False
        share.is_planned_done = True
        return share.has_new

    def _share_of(self, root: MonitoredRoot) -> _Share:
        with self._lock:
            return self._shares.setdefault(root.path, _Share())
