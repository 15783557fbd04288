"""
Start jobs when they fall due: scans and comparisons by schedule, scrubs in windows, checks of promises.

Decides when. ``scrub_window`` decides how much a scrub reads, ``copy_schedule`` whether a copy can be compared, and
``dispatch`` which thread does it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from integrity.catalog import runs
from integrity.catalog.roots import find_roots
from integrity.catalog.worklist import has_prioritized
from integrity.errors import AppError
from integrity.jobs.compare.deadline import check_copies
from integrity.jobs.context import Context
from integrity.jobs.scrub.promise import check as check_scrub_promise
from integrity.model import Job
from integrity.service.device_queue import LogReport
from integrity.service.schedule.clock import Windows, parse_windows
from integrity.service.schedule.copy_schedule import Comparisons, schedule_name
from integrity.service.schedule.scheduler import Scheduler
from integrity.service.schedule.scrub_window import ScrubWindow
from integrity.service.states import CopyWait, NextRun

if TYPE_CHECKING:
    from integrity.jobs.options import ScrubOptions
    from integrity.jobs.report import Summary
    from integrity.service.dispatch import Dispatcher, ServiceContext
    from integrity.service.inventory import MonitoredCopy, MonitoredRoot

_log = logging.getLogger(__name__)

_DAY_S = 86_400
_PROMISE_S = 6 * 3600
_BEAT_S = 60.0


class Timetable:
    """
    Keep the schedule. Its callbacks come from the scheduler's thread and from the device threads.

    Args:
        roots: returns the current roots.
        copies: returns the current copies.
        scan: queues a scan of a whole root, with a reason.
        beat: called by the scheduler's thread, for the watchdog.
        has_news: called when there may be new alerts.
    """

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
        self._service = service
        self._dispatcher = dispatcher
        self._roots = roots
        self._scan_root = scan
        self._beat = beat
        self._has_news = has_news
        self._scheduler = Scheduler(clock=service.clock, monotonic=service.monotonic)
        self._is_over = False
        self._window: ScrubWindow | None = None
        self._put_off: list[MonitoredRoot] = []  # scans that wait until something else wakes their disks
        self._comparisons = Comparisons(service, dispatcher, copies, self.check_promise)
        self._compared: set[str] = set()  # names of the copies with a schedule

    def start(self) -> None:
        """
        Start, and make up for missed moments.

        Raises:
            CatalogError: the catalog can't be read.
        """
        schedule, now = self._service.config().schedule, int(self._service.clock())
        with self._service.open_catalog() as catalog, catalog.read() as connection:
            last_scan, last_scrub = (runs.last_started(connection, name) for name in ("scan", "scrub"))
        # Without an earlier scheduled scan, nothing is due now: the start of the service scans anyway, and what it
        # records needs no verification yet.
        self._scheduler.add("scan", schedule.scan, self._scan_all, last_started_at=last_scan or now)
        self._scheduler.add_window("scrub", self._windows(), self._open, self._close, last_opened_at=last_scrub or now)
        self._schedule_comparisons()
        self._scheduler.every("heartbeat", _BEAT_S, self._turn)
        self._scheduler.every("promise", _PROMISE_S, self.check_promise)
        self._scheduler.start()

    def reload(self) -> None:
        """
        Apply the current configuration.

        Raises:
            CatalogError: the catalog can't be read.
        """
        self._scheduler.replace("scan", self._service.config().schedule.scan, self._scan_all)
        self._scheduler.add_window("scrub", self._windows(), self._open, self._close)
        self._schedule_comparisons()
        self._comparisons.try_again()
        self._scheduler.every("promise", _PROMISE_S, self.check_promise)  # once now: promises may have changed

    def stop(self) -> None:
        """Start no more jobs."""
        self._is_over = True
        self._comparisons.stop()
        self._scheduler.stop()

    def mounts_changed(self) -> None:
        """Retry the comparisons that wait for a disk."""
        self._comparisons.mounts_changed()

    def waiting_copies(self) -> tuple[CopyWait, ...]:
        """Return the copies whose comparison is due but can't run now."""
        return self._comparisons.waits()

    def next_runs(self) -> tuple[NextRun, ...]:
        """Return what is scheduled next."""
        return tuple(NextRun(name, at) for name, at in self._scheduler.next_runs())

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
        return parse_windows(self._service.config().schedule.scrub, self._scheduler.zone)

    def _turn(self) -> None:
        """Beat, and retry what waits. If the window never closes, start a new one each day."""
        self._beat()
        if any(not root.is_asleep() for root in self._put_off):
            self._scan(self._put_off)
        self._comparisons.turn()
        window = self._window
        if window is None:
            return
        for root in window.take_ready(self._roots()):
            self._scrub(window, root)
        if window.never_closes and self._service.clock() - window.began_at >= _DAY_S:
            self._close()
            self._open()

    def _schedule_comparisons(self) -> None:
        """Schedule the comparison of each copy. A copy that was never compared, or not completely, is due now."""
        schedule, names = self._service.config().schedule.compare, {copy.name for copy in self._service.config().copies}
        for name in self._compared - names:
            self._scheduler.remove(schedule_name(name))
            self._comparisons.forget(name)
        for name in sorted(names):
            due = partial(self._comparisons.want, name)
            if name in self._compared:
                self._scheduler.replace(schedule_name(name), schedule, due)
            else:
                self._scheduler.add(schedule_name(name), schedule, due, last_started_at=self._last_compared(name))
        self._compared = names

    def _last_compared(self, name: str) -> int | None:
        with self._service.open_catalog() as catalog, catalog.read() as connection:
            if runs.find_unfinished(connection, schedule_name(name)) is not None:
                return None
            return runs.last_started(connection, schedule_name(name))

    def _scan_all(self) -> None:
        self._record_start("scan")
        self._scan(self._roots())

    def _scan(self, roots: Sequence[MonitoredRoot]) -> None:
        """Queue scans. Roots on sleeping disks wait: a scan would wake them, and the watcher reports changes."""
        wakes = self._service.config().pace.wake
        self._put_off = [root for root in roots if root.is_asleep() and not wakes]
        for root in roots:
            if root not in self._put_off:
                self._scan_root(root, "the schedule")

    def _open(self) -> None:
        window = self._window = ScrubWindow(self._windows(), self._service.config(), self._service.clock())
        for root in self._roots():
            self._scrub(window, root)

    def _close(self) -> None:
        if self._window is not None:
            self._window.is_over = True
            self._window = None
        self._dispatcher.rest(Job.SCRUB)

    def _scrub(self, window: ScrubWindow, root: MonitoredRoot) -> None:
        if self._is_over:
            return  # queues that have ended cancel work at once: a turn that queues the next one would never end

        def ended(result: Summary | AppError, is_paused: bool) -> None:
            if not isinstance(result, AppError) and window.record_turn(root, result, is_paused=is_paused):
                self._scrub(window, root)
            else:
                self.check_promise()

        def plan(context: Context) -> ScrubOptions | None:
            options = window.plan(context, root)
            if options is not None and not window.has_begun:
                window.has_begun = True  # not earlier: the write would wake the catalog's disk
                self._record_start("scrub")
            return options

        self._dispatcher.scrub(root, "a window is open", plan, ended)

    def _record_start(self, name: str) -> None:
        now = int(self._service.clock())
        try:
            with self._service.open_catalog() as catalog, catalog.transaction() as connection:
                runs.note_started(connection, name, None, due_at=now, now=now)
        except AppError as error:
            _log.error("schedule_not_noted name=%s: %s", name, error)  # after a restart it runs once more
