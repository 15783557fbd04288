"""
What falls due: scans by the schedule, scrubs while a window is open, a look at the promises.

Decides when; how far a scrub goes is the night's to say (``nights``), who does it the dispatcher's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from integrity.catalog import schedules
from integrity.errors import AppError
from integrity.jobs.context import Context
from integrity.jobs.promise import check
from integrity.model import Job
from integrity.service.nights import Night
from integrity.service.requests import NextRun
from integrity.service.scheduler import Scheduler
from integrity.service.windows import Windows, parse_windows
from integrity.service.work import LogReport

if TYPE_CHECKING:
    from integrity.jobs.report import Summary
    from integrity.jobs.scrub import ScrubOptions
    from integrity.service.dispatch import Dispatcher, Grounds
    from integrity.service.rootset import KeptRoot

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
        scan: has all of a root scanned, for a reason.
        beat: takes the scheduler's signs of life.
        has_news: is told when there may be something to tell.
    """

    def __init__(
        self,
        grounds: Grounds,
        dispatcher: Dispatcher,
        roots: Callable[[], Sequence[KeptRoot]],
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
        self._night: Night | None = None
        self._put_off: list[KeptRoot] = []  # scans that wait until their disks are awake anyway

    def start(self) -> None:
        """
        Begin, and make up for what was missed.

        Raises:
            CatalogError: the catalog can't be read.
        """
        schedule, now = self._grounds.config().schedule, int(self._grounds.clock())
        with self._grounds.open_catalog() as catalog, catalog.read() as connection:
            last_scan, last_scrub = (schedules.last_started(connection, name) for name in ("scan", "scrub"))
        # Who has never scanned by the schedule is about to scan because the service begins, and what is recorded then
        # is not yet to be verified.
        self._scheduler.add("scan", schedule.scan, self._scan_all, last_started_at=last_scan or now)
        self._scheduler.add_window("scrub", self._windows(), self._open, self._close, last_opened_at=last_scrub or now)
        self._scheduler.every("heartbeat", _BEAT_S, self._turn)
        self._scheduler.every("promise", _PROMISE_S, self.check_promise)
        self._scheduler.start()

    def reload(self) -> None:
        """Follow the configuration of now."""
        self._scheduler.replace("scan", self._grounds.config().schedule.scan, self._scan_all)
        self._scheduler.add_window("scrub", self._windows(), self._open, self._close)

    def stop(self) -> None:
        """Begin nothing more."""
        self._scheduler.stop()

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
                check(Context(catalog, grounds.config(), LogReport(), clock=grounds.clock), self._windows())
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
        night = self._night
        if night is None:
            return
        for root in night.take_ready(self._roots()):
            self._scrub(night, root)
        if night.never_closes and self._grounds.clock() - night.began_at >= _DAY_S:
            self._close()
            self._open()

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
        night = self._night = Night(self._windows(), self._grounds.config(), self._grounds.clock())
        for root in self._roots():
            self._scrub(night, root)

    def _close(self) -> None:
        if self._night is not None:
            self._night.is_over = True
            self._night = None
        self._dispatcher.rest(Job.SCRUB)

    def _scrub(self, night: Night, root: KeptRoot) -> None:
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
                schedules.note_started(connection, name, None, due_at=now, now=now)
        except AppError as error:
            _log.error("schedule_not_noted name=%s: %s", name, error)  # after a restart it is done once more
