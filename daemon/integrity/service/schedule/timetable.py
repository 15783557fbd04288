"""
Start jobs when they fall due: scans and comparisons by schedule, scrubs in windows, checks of promises.

Decides when, and how much of a root each scrub reads: first what ``verify_every`` requires, then new and touched files.
A turn may pause; the next turn continues with the rest. ``copy_schedule`` decides whether a copy can be compared, and
``dispatch`` which thread does it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import runs
from integrity.catalog.coverage import has_prioritized
from integrity.catalog.roots import find_roots
from integrity.errors import AppError
from integrity.jobs.compare.deadline import check_copies
from integrity.jobs.context import Context
from integrity.jobs.options import ScrubOptions
from integrity.jobs.scrub.plan import make_plan, plan_window
from integrity.jobs.scrub.promise import check as check_scrub_promise
from integrity.jobs.scrub.promise import find_facts
from integrity.model import Job, RootState
from integrity.service.control.wire import CopyWait, NextRun
from integrity.service.device_queue import LogReport
from integrity.service.inventory import may_read
from integrity.service.schedule.clock import Openings, Recurrence, TriggerTimes, Windows, local_zone, parse_windows
from integrity.service.schedule.copy_schedule import Comparisons, schedule_name
from integrity.threads import RoundThread
from integrity.units import read_schedule

if TYPE_CHECKING:
    from integrity.config import Config
    from integrity.jobs.context import Context
    from integrity.jobs.options import ScrubOptions
    from integrity.jobs.report import Summary
    from integrity.service.dispatch import Dispatcher, ServiceContext
    from integrity.service.inventory import MonitoredCopy, MonitoredRoot
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


_log = logging.getLogger(__name__)

_PROMISE_S = 6 * 3600
_ROUND_S = 30.0
_SCAN, _SCRUB = Job.SCAN.value, Job.SCRUB.value  # names of schedules, beside those of copies


class Timetable(RoundThread):
    """Keep the schedule: look each half minute what is due. Results come from the device threads."""

    def __init__(
        self,
        service: ServiceContext,
        dispatcher: Dispatcher,
        roots: Callable[[], Sequence[MonitoredRoot]],
        copies: Callable[[], Sequence[MonitoredCopy]],
        *,
        scan: Callable[[MonitoredRoot, str], None],
        beat: Callable[[], None],
        has_news: Callable[[], None],
    ) -> None:
        super().__init__("schedule")
        self._service = service
        self._dispatcher = dispatcher
        self._roots = roots
        self._scan_root = scan
        self._beat = beat
        self._has_news = has_news
        self._zone = local_zone()
        self._is_over = False
        self._window: ScrubWindow | None = None
        self._put_off: list[MonitoredRoot] = []  # scans that wait until something else wakes their disks
        self._comparisons = Comparisons(service, dispatcher, copies, self.check_promise)
        self._promise_at = service.monotonic()
        self._lock = threading.Lock()  # guards the fields below
        self._schedules: dict[str, Recurrence] = {}
        self._openings = Openings(self._windows(), last_at=self._now(), now=self._now())

    def start(self) -> None:
        """Start, and make up for missed moments."""
        now = self._now()
        with self._service.open_catalog() as catalog, catalog.read() as connection:
            last_scan, last_scrub = (runs.last_started(connection, name) for name in (_SCAN, _SCRUB))
        # Without an earlier scheduled scan, nothing is due now: the start of the service scans anyway, and what it
        # records needs no verification yet.
        scans = self._moments(self._service.config().schedule.scan)
        with self._lock:
            self._schedules[_SCAN] = Recurrence(scans, last_at=last_scan or now, now=now)
            self._openings = Openings(self._windows(), last_at=last_scrub or now, now=now)
            self._schedule_comparisons(now)
        super().start()

    def reload(self) -> None:
        """Apply the current configuration. What is due stays due; earlier moments of the new schedules are past."""
        now = self._now()
        with self._lock:
            self._schedules[_SCAN].change(self._moments(self._service.config().schedule.scan), now)
            self._openings.change(self._windows(), now)
            self._schedule_comparisons(now)
        self._comparisons.try_again()
        self._promise_at = self._service.monotonic()  # promises may have changed
        self.call()

    def stop(self) -> None:
        """Start no more jobs, and wait for the round that goes on."""
        self._is_over = True
        self._comparisons.stop()
        self.end()
        self.join()

    def mounts_changed(self) -> None:
        """Retry the comparisons that wait for a disk."""
        self._comparisons.mounts_changed()

    def waiting_copies(self) -> tuple[CopyWait, ...]:
        """Return the copies whose comparison is due but can't run now."""
        return self._comparisons.waits()

    def next_runs(self) -> tuple[NextRun, ...]:
        now = self._now()
        with self._lock:
            runs = [NextRun(name, one.next_at(now)) for name, one in self._schedules.items()]
            opens_at = self._openings.next_at(now)
        if opens_at is not None:
            runs.append(NextRun(_SCRUB, opens_at))
        return tuple(sorted(runs, key=lambda run: (run.at, run.name)))

    def verify_new(self, root: MonitoredRoot, *, has_new: bool) -> None:
        """
        Scrub a root's new and touched files if a window is open: data that is right only in memory proves nothing.

        Args:
            has_new: it has new files; else it is looked up whether some were touched.
        """
        window = self._window
        if window is not None and (has_new or self._has_touched(root)):
            window.mark_new(root)
            self._scrub(window, root)

    def _has_touched(self, root: MonitoredRoot) -> bool:
        try:
            with self._service.open_catalog() as catalog, catalog.read() as connection:
                known = next((one for one in find_roots(connection) if one.path == root.path), None)
                return known is not None and has_prioritized(connection, known.id)
        except AppError as error:
            _log.error("touched_not_known: %s", error)
            return False

    def needs(self, lane: str) -> Callable[[], float]:
        """Return a function that gives the read rate a device's roots need in the open window, in bytes per second."""

        def needed() -> float:
            window = self._window
            return 0.0 if window is None else window.needed_bytes_per_s(lane)

        return needed

    def check_promise(self) -> None:
        """Check which promises are broken or kept again, and trigger alerts."""
        service = self._service
        try:
            with service.open_catalog() as catalog:
                context = Context(catalog, service.config(), LogReport(), clock=service.clock)
                check_scrub_promise(context, self._windows())
                check_copies(context)
        except AppError as error:
            _log.error("promise_not_checked: %s", error)
        self._has_news()

    def _windows(self) -> Windows:
        return parse_windows(self._service.config().schedule.scrub, self._zone)

    def _moments(self, schedule: str) -> TriggerTimes:
        return TriggerTimes(read_schedule(schedule), self._zone)

    def _now(self) -> int:
        return int(self._service.clock())

    def _round(self) -> float:
        self._beat()
        now = self._now()
        if self._is_due(_SCAN, now):
            self._record_start(_SCAN)
            self._scan(self._roots())
        self._follow_windows(now)
        for copy in self._service.config().copies:
            if self._is_due(schedule_name(copy.name), now):
                self._comparisons.want(copy.name)
        if any(not root.is_asleep() for root in self._put_off):
            self._scan(self._put_off)
        self._comparisons.turn()
        window = self._window
        if window is not None:
            for root in window.take_ready(self._roots()):
                self._scrub(window, root)
        if self._promise_at <= self._service.monotonic():
            self._promise_at = self._service.monotonic() + _PROMISE_S
            self.check_promise()
        return _ROUND_S

    def _is_due(self, name: str, now: int) -> bool:
        with self._lock:
            schedule = self._schedules.get(name)
            return schedule is not None and schedule.take(now)

    def _follow_windows(self, now: int) -> None:
        with self._lock:
            has_closed, has_opened = self._openings.look(now)
        if has_closed:
            self._close()
        if has_opened:
            self._open()

    def _schedule_comparisons(self, now: int) -> None:
        """Schedule the comparison of each copy. A copy that was never compared, or not completely, is due now."""
        config = self._service.config()
        moments = self._moments(config.schedule.compare)
        names = {schedule_name(copy.name) for copy in config.copies}
        for name in self._schedules.keys() - names - {_SCAN}:
            del self._schedules[name]
            self._comparisons.forget(name.removeprefix(schedule_name("")))
        for name in names:
            if name in self._schedules:
                self._schedules[name].change(moments, now)
            else:
                self._schedules[name] = Recurrence(moments, last_at=self._last_compared(name), now=now)

    def _last_compared(self, name: str) -> int | None:
        with self._service.open_catalog() as catalog, catalog.read() as connection:
            if runs.find_unfinished(connection, name) is not None:
                return None
            return runs.last_started(connection, name)

    def _scan(self, roots: Sequence[MonitoredRoot]) -> None:
        """Queue scans. Roots on sleeping disks wait: a scan would wake them, and the watcher reports changes."""
        wakes = self._service.config().pace.wake
        self._put_off = [root for root in roots if root.is_asleep() and not wakes]
        for root in roots:
            if root not in self._put_off:
                self._scan_root(root, "the schedule")

    def _open(self) -> None:
        window = self._window = ScrubWindow(self._windows(), self._service.config())
        for root in self._roots():
            self._scrub(window, root)

    def _close(self) -> None:
        if self._window is not None:
            self._window.is_over = True
            self._window = None
        self._dispatcher.rest(Job.SCRUB)
        self._dispatcher.rest(Job.PROTECT)

    def _scrub(self, window: ScrubWindow, root: MonitoredRoot) -> None:
        if self._is_over:
            return  # queues that have ended cancel work at once: a turn that queues the next one would never end

        def ended(result: Summary | AppError, is_paused: bool) -> None:
            if not isinstance(result, AppError) and window.record_turn(root, result, is_paused=is_paused):
                self._scrub(window, root)
            else:
                self.check_promise()
                self._protect(window, root)

        def plan(context: Context) -> ScrubOptions | None:
            options = window.plan(context, root)
            if options is not None and not window.has_begun:
                window.has_begun = True  # not earlier: the write would wake the catalog's disk
                self._record_start(_SCRUB)
            return options

        self._dispatcher.scrub(root, "a window is open", plan, ended)

    def _protect(self, window: ScrubWindow, root: MonitoredRoot) -> None:
        """Make the parity of a root whose scrub is done, once in a window."""
        if self._is_over or not root.settings.parity_percent or not window.begin_protecting(root):
            return

        def may_begin() -> bool:
            return not window.is_over and may_read(root.disks, self._service.config().pace, must=False)

        def ended(is_paused: bool) -> None:
            if is_paused and not window.is_over:
                window.stop_protecting(root)
                self._protect(window, root)

        self._dispatcher.protect(root, "a window is open", may_begin, ended)

    def _record_start(self, name: str) -> None:
        now = int(self._service.clock())
        try:
            with self._service.open_catalog() as catalog, catalog.transaction() as connection:
                runs.note_started(connection, name, None, due_at=now, now=now)
        except AppError as error:
            _log.error("schedule_not_noted name=%s: %s", name, error)  # after a restart it runs once more
