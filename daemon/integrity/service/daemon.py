"""
Run the service: connect watcher, scheduler, jobs, alerts and control socket, and keep them running.

Decides how the service reacts to failures: a bad configuration is refused and the old one stays in force; a catalog
that can't be written is reported, and the work retried; a thread that hangs in the kernel does not block the others,
and is abandoned at the end.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from integrity import __version__
from integrity.catalog import findings, runs
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.catalog.own_files import shared_lock
from integrity.catalog.root_meta import note_service_started, note_service_stopped
from integrity.errors import AppError, CatalogError, CatalogLocked, ConfigError, RecordSuperseded, show_path
from integrity.files.span import UNLIMITED, Pace
from integrity.files.system_load import read_boot_uuid
from integrity.hashing.engine import STALL_S
from integrity.jobs import messages
from integrity.jobs.admin.roots import follow_config
from integrity.jobs.pace.throttle import DevicePace, pace_device
from integrity.jobs.picture import load_picture
from integrity.jobs.picture_type import Picture
from integrity.jobs.report import Summary
from integrity.model import Finding, FindingKind, Job
from integrity.service.acts import ActRunner, WritePlan
from integrity.service.alert_thread import AlertThread
from integrity.service.control.requests import (
    Act,
    Answered,
    AskPicture,
    Done,
    JobRequest,
    Returned,
    Ticket,
    has_run,
)
from integrity.service.control.server import ControlServer
from integrity.service.control.wire import BusyRoot, DaemonState
from integrity.service.disk_thread import DiskThread
from integrity.service.dispatch import Dispatcher, ServiceContext
from integrity.service.inventory import (
    MonitoredCopy,
    MonitoredRoot,
    MountWatch,
    find_monitored_copies,
    find_monitored_roots,
)
from integrity.service.log_backoff import LogBackoff
from integrity.service.process import Notifier, SignalFlags, Watchdog
from integrity.service.report_thread import BoxWords, ReportThread
from integrity.service.schedule.timetable import Timetable
from integrity.service.shard_thread import ShardThread
from integrity.service.startup import MemoryTrimmer, make_folder, mark_clean_stop, prepare_catalog
from integrity.service.watch_thread import DirtyPaths, WatchThread

if TYPE_CHECKING:
    from integrity.config import Config
    from integrity.jobs.report import Report
    from integrity.reporting.protocol import JsonObject

_log = logging.getLogger(__name__)

TICK_S = 1.0
_PATIENCE_S = 180.0
_STUCK_S = STALL_S + 60.0
"""A job without progress for this long hangs in the kernel, but not in a read: stalled reads are given up earlier."""

_PICTURE_S = 30.0
"""Time limit for a copy to send a picture."""

_STOP_S = 4.0
"""Time limit for jobs and threads to end after a stop request; the unit allows 10 s (TimeoutStopSec)."""


class Daemon:
    """
    One run of the service.

    Args:
        read_config: reads the configuration; raises ConfigError.
        write_plan: writes the plan of a repair as the command shows it.
        write_finding: writes a finding of a shared tree for the hub.
    """

    def __init__(
        self,
        read_config: Callable[[], Config],
        catalog_path: bytes,
        socket_path: bytes,
        *,
        notifier: Notifier,
        hostname: str,
        write_plan: WritePlan,
        words: BoxWords,
        write_finding: Callable[[Finding], JsonObject],
    ) -> None:
        self._read_config = read_config
        self._config = read_config()
        self._catalog_path = catalog_path
        self._notifier = notifier
        self._signals = SignalFlags()
        self._service = ServiceContext(
            self._open_catalog, lambda: self._config, self._pace_of, os.fsdecode(socket_path)
        )
        self._started_at = int(self._service.clock())
        self._has_new_roots = False
        self._trimmer = MemoryTrimmer(self._service.monotonic)
        self._roots: list[MonitoredRoot] = []
        self._roots_backoff = LogBackoff(self._service.monotonic)
        self._copies: list[MonitoredCopy] = []
        self._idle_copies: set[str] = set()
        self._mounts = MountWatch()
        self._paces: dict[str, DevicePace] = {}
        self._status = ""
        self._trouble = ""  # the catalog's current error; work that needs it is retried
        self._stuck: set[bytes] = set()
        self._watchdog = Watchdog({"scheduler": _PATIENCE_S, "alerts": _PATIENCE_S}, notifier)
        self._dirty_paths = DirtyPaths(self._settle_s)
        self._dispatcher = Dispatcher(self._service, self._work_ended)
        self._acts = ActRunner(self._service, self._dispatcher, write_plan, self._acted)
        self._disks = DiskThread(self._service, self._has_news)
        self._alerts = AlertThread(
            self._service,
            lambda: self._watchdog.beat("alerts"),
            lambda: self._trouble,
            self._disks.refresh,
            hostname=hostname,
        )
        self._reports = ReportThread(self._service, words, self.state, hostname=hostname)
        self._shards = ShardThread(self._service, write_finding)
        self._timetable = Timetable(
            self._service,
            self._dispatcher,
            lambda: self._roots,
            lambda: self._copies,
            scan=self._scan,
            beat=self._scheduler_beats,
            has_news=self._has_news,
        )
        self._watch = WatchThread(self._dirty_paths, self._open_catalog, catalog_path, self._scan_unwatched)
        self._control = ControlServer(socket_path, self, catalog=catalog_path)

    def run(self) -> None:
        """
        Serve until a signal asks to stop.

        Raises:
            AppError: the service can't start.
        """
        with self._signals.handled():
            make_folder(self._catalog_path)
            self._control.start()  # first, so that no second service restores the catalog in use
            try:
                prepare_catalog(self._catalog_path, self._config, clock=self._service.clock)
                with shared_lock(self._catalog_path):  # a restore is refused while the service runs
                    self._begin()
                    while not self._signals.stop.wait(TICK_S):
                        self._tick()
                    self._note_stop()
            finally:
                self._end()

    def submit(self, request: JobRequest, report: Report, done: Done) -> Ticket:
        """Queue a request; see ``Handler``. What a scan met that is new or was touched is verified as after others."""

        def ended(result: Summary | AppError) -> None:
            done(result)
            if request.job is Job.SCAN and isinstance(result, Summary):
                for root in self._roots:
                    if not request.paths or root.path in request.paths:
                        self._timetable.verify_new(root, has_new=bool(result.counts.new))

        return self._dispatcher.submit(request, report, ended)

    def lend(self, paths: Sequence[bytes], lent: Callable[[], None], returned: Returned) -> Ticket:
        return self._dispatcher.lend(paths, lent, returned)

    def act(self, act: Act, answered: Answered) -> Ticket | None:
        return self._acts.act(act, answered)

    def find_picture(self, question: AskPicture) -> Picture:
        until = self._service.monotonic() + _PICTURE_S
        with self._open_catalog() as catalog:
            return load_picture(
                catalog,
                self._config,
                question.finding,
                question.side,
                has_data=question.has_data,
                must_stop=lambda: self._service.monotonic() > until,
            )

    def allows_actions(self) -> bool:
        return self._config.web.actions

    def state(self) -> DaemonState:
        return DaemonState(
            os.getpid(),
            self._started_at,
            __version__,
            self._dispatcher.busy(),
            self._dispatcher.queued(),
            self._timetable.next_runs(),
            self._watch.states(),
            self._timetable.waiting_copies(),
            self._trouble,
            self._reports.complete_at,
        )

    def roots(self) -> tuple[bytes, ...]:
        return tuple(root.path for root in self._roots)

    def _begin(self) -> None:
        with self._open_catalog() as catalog:
            self._find_roots(catalog)
            with catalog.transaction() as connection:
                now = int(self._service.clock())
                runs.ensure_boot(connection, read_boot_uuid(), now)
                note_service_started(connection, os.getpid(), now)
        self._mounts.take_remounted([root.path for root in self._roots])
        self._alerts.start()
        self._reports.start()
        self._shards.start()
        self._disks.start()
        self._timetable.start()
        self._notifier.ready()
        _log.info(
            "started version=%s roots=%d catalog=%s", __version__, len(self._roots), show_path(self._catalog_path)
        )
        self._watch.start(self._roots)

    def _note_stop(self) -> None:
        try:
            with self._open_catalog() as catalog, catalog.transaction() as connection:
                note_service_stopped(connection, int(self._service.clock()))
        except AppError as error:
            _log.warning("stop_not_recorded: %s", error)

    def _end(self) -> None:
        """Stop all threads, and wait for those that can end. Jobs save their own cursors."""
        deadline = self._service.monotonic() + _STOP_S
        self._notifier.stopping()
        self._timetable.stop()
        self._dispatcher.end()
        self._watch.end()
        self._alerts.end()
        self._reports.end()
        self._shards.end()
        self._disks.end()
        hanging = self._dispatcher.join(deadline)
        for name, thread in (
            ("watch", self._watch),
            ("alerts", self._alerts),
            ("reports", self._reports),
            ("shards", self._shards),
            ("disks", self._disks),
        ):
            if not thread.join(max(0.1, deadline - self._service.monotonic())):
                hanging.append(name)
        self._control.close()
        self._mounts.close()
        if hanging:
            _log.warning("stopped although these hang in the system: %s", ", ".join(hanging))
        elif self._signals.is_machine_ending:  # a machine with a hanging disk will hardly shut down cleanly
            mark_clean_stop(self._open_catalog, int(self._service.clock()))

    def _tick(self) -> None:
        if self._signals.wants_reload:
            self._signals.wants_reload = False
            self._reload()
        if self._has_new_roots:
            self._has_new_roots = False
            self._refresh_roots()
        for root in self._roots:
            names = self._dirty_paths.take(root.path)
            if names is not None:
                self._look(root, names)
        if self._mounts.has_changed():
            self._timetable.mounts_changed()
            self._watch.call()  # to watch what is mounted now
            # Whether a disk is still, or again, the recorded one: mails and `status` say what is so now.
            changed = frozenset(self._mounts.take_remounted([root.path for root in self._roots]))
            for root in self._roots:
                if root.path in changed:
                    self._scan(root, "its disk was mounted or unmounted")
        self._dispatcher.make_room()
        self._trimmer.trim(is_busy=bool(self._dispatcher.busy()))
        self._report_stuck()
        self._watchdog.feed()
        self._report_status()

    def _scan(self, root: MonitoredRoot, reason: str) -> None:
        """Queue a scan of a whole root. Mark the root as dirty again if the catalog can't record the result."""

        def ended(result: Summary | AppError) -> None:
            if isinstance(result, CatalogError):
                self._dirty_paths.add_whole(root.path)
            elif isinstance(result, Summary):
                self._timetable.verify_new(root, has_new=bool(result.counts.new))

        self._dispatcher.scan(root, reason, ended)

    def _scan_unwatched(self, root: MonitoredRoot) -> None:
        self._scan(root, "what happened while nobody watched")

    def _look(self, root: MonitoredRoot, names: tuple[bytes, ...]) -> None:
        def ended(result: Summary | AppError) -> None:
            if isinstance(result, AppError):
                self._dirty_paths.give_back(root.path, names)
            else:
                self._timetable.verify_new(root, has_new=bool(result.counts.new))

        if names:
            self._dispatcher.look(root, names, ended)
        else:
            self._scan(root, "something may have happened anywhere")

    def _scheduler_beats(self) -> None:
        self._watchdog.beat("scheduler")
        self._has_new_roots = True  # a command may have paused or added a root

    def _work_ended(self, result: Summary | AppError) -> None:
        """Record the catalog's state, and trigger alerts and a refresh of the roots."""
        self._trouble = find_trouble(self._trouble, result)
        self._has_new_roots = True
        self._trimmer.job_ended()
        self._has_news()

    def _acted(self) -> None:
        """Look at the roots again: one may have been paused or resumed."""
        self._has_new_roots = True
        self._has_news()

    def _has_news(self) -> None:
        self._alerts.call()
        self._reports.call()

    def _refresh_roots(self) -> None:
        try:
            with self._open_catalog() as catalog:
                before = self._roots
                self._find_roots(catalog)
        except AppError as error:
            if not self._roots_backoff.is_silent():
                _log.error("roots_not_read: %s", error)
            self._roots_backoff.record_failure()
            return
        self._roots_backoff.reset()
        if self._roots != before:
            self._watch.set_roots(self._roots)
            self._disks.call()

    def _find_roots(self, catalog: Catalog) -> None:
        follow_config(catalog, frozenset(root.path for root in self._config.own_roots))
        self._roots = find_monitored_roots(catalog, self._config, self._roots)
        self._find_copies()
        self._dispatcher.set_roots(self._roots)
        self._dirty_paths.keep_only(frozenset(root.path for root in self._roots))
        for root in self._roots:
            if root.lane not in self._paces:
                self._paces[root.lane] = pace_device(
                    root.device,
                    self._config.pace,
                    self._signals.stop,
                    needed_bytes_per_s=self._timetable.needs(root.lane),
                )

    def _find_copies(self) -> None:
        self._copies = find_monitored_copies(self._config, self._roots)
        idle = {copy.name for copy in self._config.copies} - {copy.name for copy in self._copies}
        for name in sorted(idle - self._idle_copies):
            _log.warning("copy_idle name=%s: it is a copy of nothing that is watched, so it is not compared", name)
        self._idle_copies = idle

    def _pace_of(self, lane: str) -> Pace:
        return self._paces.get(lane, UNLIMITED)

    def _settle_s(self, root: bytes) -> float:
        return self._config.settings_for(root).settle_s

    def _reload(self) -> None:
        self._notifier.reloading()
        try:
            config = self._read_config()
            if config.catalog != self._config.catalog:
                raise ConfigError("another catalog needs a restart of the service")
            self._config = config
            self._paces.clear()
            with self._open_catalog() as catalog:
                self._find_roots(catalog)
            self._timetable.reload()
            self._watch.set_roots(self._roots)
            self._has_news()
            self._shards.call()
            self._disks.call()
            _log.info("reloaded roots=%d", len(self._roots))
        except AppError as error:
            _log.error("reload_refused, the former configuration stays: %s", error)
        self._notifier.ready()

    def _report_stuck(self) -> None:
        """Open a finding for each root whose job hangs in the kernel. Stalled reads open their own findings."""
        stuck = {work.root for work in self._dispatcher.stuck(_STUCK_S)}
        for root in self._roots:
            if root.path in stuck - self._stuck and root.id is not None:
                _log.error("device_stalled root=%s", show_path(root.path))
                new = NewFinding(FindingKind.DEVICE_STALLED, root.id, None, None, messages.DEVICE_STALLED)
                try:
                    with self._open_catalog() as catalog, catalog.transaction() as connection:
                        findings.open_finding(connection, new, now=int(self._service.clock()), run_id=None)
                except AppError as error:
                    _log.error("device_stalled could not be written down: %s", error)
                self._has_news()
        self._stuck = stuck

    def _report_status(self) -> None:
        busy, queued = self._dispatcher.busy(), self._dispatcher.queued()
        text = "; ".join(_describe(one) for one in busy)
        text = text or f"idle; {len(self._roots)} roots"
        text += f"; {len(queued)} waiting" if queued else ""
        text += f"; {self._trouble}" if self._trouble else ""
        if text != self._status:
            self._status = text
            self._notifier.status(text)

    def _open_catalog(self) -> Catalog:
        return Catalog.open(self._catalog_path, writes=True)


def find_trouble(known: str, result: Summary | AppError) -> str:
    """
    Return the catalog's current error after a job; empty if there is none.

    Only a run that was recorded proves that the catalog can be written: a job that failed for another reason, waited
    for a lock, or had nothing to do leaves a known error in force.
    """
    if isinstance(result, Summary):
        return "" if has_run(result) else known
    is_of_catalog = isinstance(result, CatalogError) and not isinstance(result, (CatalogLocked, RecordSuperseded))
    return str(result) if is_of_catalog else known


def _describe(one: BusyRoot) -> str:
    copy = f" with {one.copy}" if one.copy else ""
    return f"{one.job} of {show_path(one.root)}{copy}: {one.files_done:,} files"
