"""
Decide when copies are compared, and what happens if one can't be reached.

A comparison stays due until it is complete, also across restarts: if it pauses or is stopped, it resumes where it was.
An absent local copy waits for its disk silently until its ``verify_every`` has passed. A remote copy that does not
answer is reported at once, and retried.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import findings, runs
from integrity.catalog.findings import NewFinding
from integrity.errors import AppError, CatalogError, CatalogLocked
from integrity.jobs.compare.deadline import find_copy_facts
from integrity.jobs.options import CompareOptions
from integrity.model import FindingKind, Outcome
from integrity.service.control.wire import CopyWait
from integrity.service.dispatch import ComparePlan
from integrity.service.inventory import MonitoredCopy, PresenceProbe, find_disks, may_read

if TYPE_CHECKING:
    from integrity.jobs.context import Context
    from integrity.jobs.report import Summary
    from integrity.service.dispatch import Dispatcher, ServiceContext

_log = logging.getLogger(__name__)

_DAY_S = 86_400
_SOON_S = 60.0
_LOOK_AGAIN_S = 900.0
"""A mounted disk is noticed at once, but a folder that is filled is not."""

_TRY_AGAIN_S = 3600.0
_LONGEST_S = 86_400.0
_NETWORK_S = 300.0
"""After a boot the network may be down for this long, so no remote copy is reported as unreachable."""

_STEADY_S = 600.0
_LONGEST_STEADY_S = 4 * 3600.0


def schedule_name(copy: str) -> str:
    return f"compare:{copy}"


@dataclass(slots=True)
class _Wanted:
    """A comparison that is due."""

    is_queued: bool = False  # queued with the dispatcher
    has_begun: bool = False  # started in the current turn
    waits: str = ""  # why it has not started, for people
    is_away: bool = False  # waits for its disk to be attached
    disks: tuple[str, ...] = ()  # waits until these are awake and cool
    forced_at: float = 0.0  # from then on, disks are woken
    again_at: float = 0.0  # earliest retry, on the monotonic clock
    failures: int = 0
    turns: int = 0  # that ended because it paused
    probe: PresenceProbe | None = None


class Comparisons:
    """Start comparisons that are due. Any thread may use it."""

    def __init__(
        self,
        service: ServiceContext,
        dispatcher: Dispatcher,
        copies: Callable[[], Sequence[MonitoredCopy]],
        ended: Callable[[], None],
    ) -> None:
        self._service = service
        self._dispatcher = dispatcher
        self._copies = copies
        self._on_ended = ended
        self._lock = threading.Lock()
        self._wanted: dict[str, _Wanted] = {}
        self._is_over = False

    def want(self, name: str) -> None:
        """Mark a copy's comparison as due, and queue it."""
        with self._lock:
            self._wanted.setdefault(name, _Wanted())
        self._queue_current(name)

    def forget(self, name: str) -> None:
        """Drop a copy: it was compared, or is no longer configured."""
        with self._lock:
            self._wanted.pop(name, None)

    def stop(self) -> None:
        self._is_over = True

    def waits(self) -> tuple[CopyWait, ...]:
        """Return the copies whose comparison is due but could not start."""
        with self._lock:
            return tuple(CopyWait(name, one.waits) for name, one in self._wanted.items() if one.waits)

    def turn(self) -> None:
        """Retry waiting comparisons; call this every half minute."""
        now = self._service.monotonic()
        for copy in self._copies():
            one = self._wanted.get(copy.name)
            if one is None or one.is_queued or now < one.again_at or self._is_asleep(one):
                continue
            if one.is_away:
                one.again_at = now + _LOOK_AGAIN_S
                self._look(copy, one)
            else:
                self._queue(copy)

    def try_again(self) -> None:
        """Retry postponed comparisons at once, after a change of the configuration."""
        for one in list(self._wanted.values()):
            one.again_at = 0.0
        self.turn()

    def mounts_changed(self) -> None:
        """Check whether a disk that a copy waits for has been mounted."""
        for copy in self._copies():
            one = self._wanted.get(copy.name)
            if one is not None and one.is_away and not one.is_queued:
                self._look(copy, one)

    def _find(self, name: str) -> MonitoredCopy | None:
        return next((copy for copy in self._copies() if copy.name == name), None)

    def _is_another(self, copy: MonitoredCopy) -> bool:
        """Return whether a copy was removed or changed since its turn was queued."""
        present = self._find(copy.name)
        return present is None or (present.settings, present.root.lane) != (copy.settings, copy.root.lane)

    def _look(self, copy: MonitoredCopy, one: _Wanted) -> None:
        """Check in a separate thread whether a copy is present, and queue its comparison if so."""

        def seen(absence: str) -> None:
            if not absence:
                self._queue(copy)

        if copy.path is not None and (one.probe is None or one.probe.is_over):
            one.probe = PresenceProbe(copy.path, seen)

    def _is_asleep(self, one: _Wanted) -> bool:
        """Return whether it still waits for sleeping disks. Called often, so it touches no disk."""
        is_forced = self._service.clock() >= one.forced_at
        return bool(one.disks) and not may_read(one.disks, self._service.config().pace, must=is_forced)

    def _queue_current(self, name: str) -> None:
        copy = self._find(name)
        if copy is not None:
            self._queue(copy)

    def _queue(self, copy: MonitoredCopy) -> None:
        with self._lock:
            one = self._wanted.get(copy.name)
            if one is None or one.is_queued or self._is_over:
                return
            one.is_queued, one.has_begun = True, False
        self._dispatcher.compare(
            copy,
            "the schedule",
            lambda context: self._plan(context, copy, one),
            lambda result, is_paused: self._ended(copy, one, result, is_paused=is_paused),
        )

    def _plan(self, context: Context, copy: MonitoredCopy, one: _Wanted) -> ComparePlan | None:
        """Return how to compare in this turn; None if the comparison can't start, or the copy has changed."""
        if self._is_over or self._is_another(copy):
            return None
        with context.catalog.read() as connection:
            facts = find_copy_facts(connection, context.config, now=context.now(), name=copy.name)
        due_at = next((one.due_at for one in facts if one.due_at is not None), None)
        due_at = context.now() + copy.settings.verify_every_s if due_at is None else due_at
        one.forced_at = due_at - max(_DAY_S, copy.settings.verify_every_s / 10)
        disks = (*copy.root.disks, *(find_disks(copy.path) if copy.path is not None else ()))
        if not may_read(disks, context.config.pace, must=context.now() >= one.forced_at):
            one.waits, one.disks, one.is_away = "waits until its disks are awake, and not hot", disks, False
            return None
        one.disks = ()
        absence = PresenceProbe(copy.path).result() if copy.path is not None else ""
        one.waits, one.is_away = f"waits for its disk: {absence}" if absence else "", bool(absence)
        if absence:
            _log.info("copy_absent name=%s: %s", copy.name, absence)
            return None
        if copy.path is None and (up_s := time.clock_gettime(time.CLOCK_BOOTTIME)) < _NETWORK_S:
            one.waits = "waits for the network, as the machine has just started"
            one.again_at = self._service.monotonic() + _NETWORK_S - up_s
            return None
        one.has_begun = True
        after = self._begin(context, copy)
        share = copy.settings.read_percent or None
        options = CompareOptions(copy.name, read_percent=share, after=after, scan_first=after is None)
        return ComparePlan(options, min(_STEADY_S * 2**one.turns, _LONGEST_STEADY_S))

    def _begin(self, context: Context, copy: MonitoredCopy) -> int | None:
        """Record the start. When resuming, return the time after which compared files count; else None."""
        now, name = context.now(), schedule_name(copy.name)
        with context.catalog.read() as connection:
            unfinished = runs.find_unfinished(connection, name)
        if unfinished is not None:
            began_at = min(unfinished.started_at, now)  # never in the future: the clock may have been set back
            return max(began_at, now - copy.settings.verify_every_s // 2)
        with context.catalog.transaction() as connection:
            runs.note_started(connection, name, None, due_at=now, now=now)
        return None

    def _ended(self, copy: MonitoredCopy, one: _Wanted, result: Summary | AppError, *, is_paused: bool) -> None:
        one.is_queued = False
        if self._is_over:
            return
        now = self._service.monotonic()
        try:
            if isinstance(result, AppError):
                self._fail(copy, one, result)
            elif self._is_another(copy):
                self._queue_current(copy.name)
            elif not one.has_begun or result.compared is None:
                one.again_at = max(one.again_at, now + (0.0 if one.waits else _SOON_S))
            elif is_paused:
                one.turns += 1
                self._queue(copy)
            elif result.compared.is_unreachable:
                self._miss(copy, one)
            elif _is_nothing_compared(result):
                self._put_off(one, "its root could not be looked at")
            elif result.outcome is not Outcome.INTERRUPTED:
                self._finish(copy, result)
        except CatalogError as error:
            _log.error("comparison_not_noted copy=%s: %s", copy.name, error)
            one.again_at = now + _SOON_S
        self._on_ended()

    def _finish(self, copy: MonitoredCopy, result: Summary) -> None:
        now = int(self._service.clock())
        with self._service.open_catalog() as catalog, catalog.transaction() as connection:
            unfinished = runs.find_unfinished(connection, schedule_name(copy.name))
            if unfinished is not None:
                runs.note_finished(connection, unfinished.id, result.outcome.value, now=now)
        self.forget(copy.name)

    def _miss(self, copy: MonitoredCopy, one: _Wanted) -> None:
        """
        Handle an unreachable copy, which its comparison has reported.

        If its disk was removed, resolve that finding.
        """
        absence = PresenceProbe(copy.path).result() if copy.path is not None else ""
        if not absence:
            self._put_off(one, "could not be reached")
            return
        one.waits, one.is_away = f"waits for its disk: {absence}", True
        now, root_id = int(self._service.clock()), copy.root.id
        with self._service.open_catalog() as catalog, catalog.transaction() as connection:
            about = findings.find_findings(connection, root_id=root_id, copy=copy.name)
            ids = [each.id for each in about if each.kind is FindingKind.COPY_UNREADABLE and each.path is None]
            findings.resolve_ids(connection, ids, resolution="its disk was removed; waiting for it", now=now)

    def _fail(self, copy: MonitoredCopy, one: _Wanted, error: AppError) -> None:
        """Handle a comparison that ended in an error: postpone it, and open a finding if the copy can't be compared."""
        if isinstance(error, CatalogLocked):
            one.again_at = self._service.monotonic() + _SOON_S
            return
        self._put_off(one, str(error))
        if isinstance(error, CatalogError) or copy.root.id is None:
            return
        new = NewFinding(FindingKind.COPY_UNREADABLE, copy.root.id, None, None, str(error), copy=copy.name)
        with self._service.open_catalog() as catalog, catalog.transaction() as connection:
            findings.open_finding(connection, new, now=int(self._service.clock()), run_id=None)

    def _put_off(self, one: _Wanted, reason: str) -> None:
        wait_s = min(_TRY_AGAIN_S * 2**one.failures, _LONGEST_S)
        one.failures += 1
        one.again_at = self._service.monotonic() + wait_s
        one.waits, one.is_away = f"is tried again: {reason}", False


def _is_nothing_compared(result: Summary) -> bool:
    """Return whether no file was compared, because the root was not available."""
    counts = result.counts
    is_skipped = counts.known > 0 and counts.known == counts.skipped
    return result.is_incomplete and is_skipped and result.compared is not None and not result.compared.not_comparable
