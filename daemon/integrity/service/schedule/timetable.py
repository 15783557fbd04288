"""
What falls due: scans and comparisons by the schedule, scrubs while a window is open, a look at the promises.

Decides when; how far a scrub goes is the night's to say (``nights``), whether a copy can be compared ``comparisons``',
who does it the dispatcher's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from integrity.catalog import runs
from integrity.errors import AppError
from integrity.jobs.compare.promise import check_copies
from integrity.jobs.context import Context
from integrity.jobs.scrub.promise import check
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
    from integrity.service.inventory import KeptCopy, KeptRoot

_log = logging.getLogger(__name__)

_DAY_S = 86_400
_PROMISE_S = 6 * 3600
_BEAT_S = 60.0


class Timetable:
    """
    Keep the schedule. Its callbacks come from the scheduler's thread and from the lanes.

    Args:
        grounds: of all work.
        dispatcher: has the work done.
        roots: gives the roots of now.
        copies: gives the copies of now.
        scan: has all of a root scanned, for a reason.
        beat: takes the scheduler's signs of life.
        has_news: is told when there may be something to tell.
    """

    def __init__(
        self,
        grounds: ServiceContext,
        dispatcher: Dispatcher,
        roots: Callable[[], Sequence[KeptRoot]],
        copies: Callable[[], Sequence[KeptCopy]],
        *,
        scan: Callable[[KeptRoot, str], None],
        beat: Callable[[], None],
        has_news: Callable[[], None],
    ) -> None:
        self._grounds = grounds
        self._dispatcher = dispatcher
        self._roots = roots
        self._scan_root = scan
        self._beat = beat
        self._has_news = has_news
        self._scheduler = Scheduler(clock=grounds.clock, monotonic=grounds.monotonic)
        self._night: ScrubWindow | None = None
        self._put_off: list[KeptRoot] = []  # scans that wait until their disks are awake anyway
        self._comparisons = Comparisons(grounds, dispatcher, copies, self.check_promise)
        self._compared: set[str] = set()  # names of the copies that have a schedule

    def start(self) -> None:
        """
        Begin, and make up for what was missed.

        Raises:
            CatalogError: the catalog can't be read.
        """
        schedule, now = self._grounds.config().schedule, int(self._grounds.clock())
        with self._grounds.open_catalog() as catalog, catalog.read() as connection:
            last_scan, last_scrub = (runs.last_started(connection, name) for name in ("scan", "scrub"))
        # Who has never scanned by the schedule is about to scan because the service begins, and what is recorded then
        # is not yet to be verified.
        self._scheduler.add("scan", schedule.scan, self._scan_all, last_started_at=last_scan or now)
        self._scheduler.add_window("scrub", self._windows(), self._open, self._close, last_opened_at=last_scrub or now)
        self._schedule_comparisons()
        self._scheduler.every("heartbeat", _BEAT_S, self._turn)
        self._scheduler.every("promise", _PROMISE_S, self.check_promise)
        self._scheduler.start()

    def reload(self) -> None:
        """
        Follow the configuration of now.

        Raises:
            CatalogError: the catalog can't be read.
        """
        self._scheduler.replace("scan", self._grounds.config().schedule.scan, self._scan_all)
        self._scheduler.add_window("scrub", self._windows(), self._open, self._close)
        self._schedule_comparisons()
        self._comparisons.try_again()
        self._scheduler.every("promise", _PROMISE_S, self.check_promise)  # once now: others may be promised

    def stop(self) -> None:
        """Begin nothing more."""
        self._comparisons.stop()
        self._scheduler.stop()

    def mounts_changed(self) -> None:
        """Learn that something was mounted or unmounted."""
        self._comparisons.mounts_changed()

    def waiting_copies(self) -> tuple[CopyWait, ...]:
        """Tell which copies are due and can't be compared now."""
        return self._comparisons.waits()

    def next_runs(self) -> tuple[NextRun, ...]:
        """Tell what comes next."""
        return tuple(NextRun(name, at) for name, at in self._scheduler.next_runs())

    def verify_new(self, root: KeptRoot) -> None:
        """Have new files read once more from the disk: a copy that is right only in memory is no copy."""
        night = self._night
        if night is not None:
            night.wants(root)
            self._scrub(night, root)

    def needs(self, lane: str) -> Callable[[], float]:
        """Make what tells how fast a lane's roots must be read while a window is open, bytes a second."""

        def needed() -> float:
            night = self._night
            return 0.0 if night is None else night.needed_bytes_per_s(lane)

        return needed

    def check_promise(self) -> None:
        """Say which promises are broken, and which are kept again."""
        grounds = self._grounds
        try:
            with grounds.open_catalog() as catalog:
                context = Context(catalog, grounds.config(), LogReport(), clock=grounds.clock)
                check(context, self._windows())
                check_copies(context)
        except AppError as error:
            _log.error("promise_not_checked: %s", error)
        self._has_news()

    def _windows(self) -> Windows:
        return parse_windows(self._grounds.config().schedule.scrub, self._scheduler.zone)

    def _turn(self) -> None:
        """Give a sign of life; where one window never closes, begin a new one every day: each has its share."""
        self._beat()
        if any(not root.is_asleep() for root in self._put_off):
            self._scan(self._put_off)
        self._comparisons.turn()
        night = self._night
        if night is None:
            return
        for root in night.take_ready(self._roots()):
            self._scrub(night, root)
        if night.never_closes and self._grounds.clock() - night.began_at >= _DAY_S:
            self._close()
            self._open()

    def _schedule_comparisons(self) -> None:
        """Have each copy compared by the schedule; one that never was, or not to its end, is due now."""
        schedule, names = self._grounds.config().schedule.compare, {copy.name for copy in self._grounds.config().copies}
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
        with self._grounds.open_catalog() as catalog, catalog.read() as connection:
            if runs.find_unfinished(connection, schedule_name(name)) is not None:
                return None
            return runs.last_started(connection, schedule_name(name))

    def _scan_all(self) -> None:
        self._note_started("scan")
        self._scan(self._roots())

    def _scan(self, roots: Sequence[KeptRoot]) -> None:
        """Scan roots; those whose disks sleep wait, as what happens in them is watched, and would wake them."""
        wakes = self._grounds.config().pace.wake
        self._put_off = [root for root in roots if root.is_asleep() and not wakes]
        for root in roots:
            if root not in self._put_off:
                self._scan_root(root, "the schedule")

    def _open(self) -> None:
        night = self._night = ScrubWindow(self._windows(), self._grounds.config(), self._grounds.clock())
        for root in self._roots():
            self._scrub(night, root)

    def _close(self) -> None:
        if self._night is not None:
            self._night.is_over = True
            self._night = None
        self._dispatcher.rest(Job.SCRUB)

    def _scrub(self, night: ScrubWindow, root: KeptRoot) -> None:
        def ended(result: Summary | AppError, has_rested: bool) -> None:
            if not isinstance(result, AppError) and night.take(root, result, has_rested=has_rested):
                self._scrub(night, root)
            else:
                self.check_promise()

        def plan(context: Context) -> ScrubOptions | None:
            options = night.plan(context, root)
            if options is not None and not night.has_begun:
                night.has_begun = True  # noted not before: a write would wake the catalog's disk for nothing
                self._note_started("scrub")
            return options

        self._dispatcher.scrub(root, "a window is open", plan, ended)

    def _note_started(self, name: str) -> None:
        now = int(self._grounds.clock())
        try:
            with self._grounds.open_catalog() as catalog, catalog.transaction() as connection:
                runs.note_started(connection, name, None, due_at=now, now=now)
        except AppError as error:
            _log.error("schedule_not_noted name=%s: %s", name, error)  # after a restart it is done once more
