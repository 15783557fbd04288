"""
Report to the hub from a thread of its own, whatever the jobs do.

A report is due every ``report_every``, and at once when the queue has something. Failures are retried with growing,
random pauses, so that many boxes that lost power together do not come back together.
"""

from __future__ import annotations

import logging
import math
import random
import secrets
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from integrity.catalog import report_queue
from integrity.config import Config, Hub
from integrity.errors import AppError, HubError, ReadInterrupted
from integrity.files.excludes import BUILTIN, Excludes
from integrity.jobs.status import RootStatus, Status, find_status
from integrity.reporting.protocol import STREAM_BYTES
from integrity.reporting.reporter import BoxFacts, Reporter, ReportWords, RootFacts, load_token
from integrity.threads import RoundThread

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.reporting.client import HubClient
    from integrity.service.control.wire import DaemonState
    from integrity.service.dispatch import ServiceContext

_log = logging.getLogger(__name__)

_LOOK_S = 30.0
"""How often the queue is looked at, while a job runs that may find something."""

_FIRST_S = 60.0
_SHORTEST_RETRY_S = 30.0
_LONGEST_RETRY_S = 900.0
_STATUS_PAUSE = 20
"""The status is not read again before so many times the processor time of the last reading: 1 s for a million files."""


class BoxWords(ReportWords, Protocol):
    """Writes what is reported to a hub."""

    def sum_up(self, status: Status, state: DaemonState) -> tuple[str, str]:
        """Return the sentence that says how everything is, and how bad it is: ok, problem or gap."""


class ReportThread(RoundThread):
    """
    Report until ``end`` is called.

    Args:
        uniform: returns a random number between two.
    """

    def __init__(
        self,
        service: ServiceContext,
        words: BoxWords,
        state: Callable[[], DaemonState],
        *,
        hostname: str,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        super().__init__("reports")
        self._service = service
        self._words = words
        self._state = state
        self._hostname = hostname
        self._uniform = uniform
        self._ended = threading.Event()
        self._catalog: Catalog | None = None
        self._reporter: Reporter | None = None
        self._facts: _FactsReader  # as soon as there is a reporter
        self._client: HubClient | None = None
        self._used: Config | None = None  # by the reporter
        self._tried: Config | None = None  # that the pauses are about
        self._next_at: float | None = None
        self._failures = 0
        self._noted = ""  # the failure that the catalog knows
        self._seen = -1  # version of the catalog when the queue was last looked at

    @property
    def complete_at(self) -> int | None:
        """Return when the hub last had everything, seconds UTC; None: not since the service started."""
        reporter = self._reporter
        return None if reporter is None else reporter.complete_at

    def end(self) -> None:
        """Ask the thread to end, whatever it waits for; returns at once."""
        self._ended.set()
        super().end()

    def _round(self) -> float:
        config = self._service.config()
        try:
            if not config.hub.url:
                return self._rest()
            return self._report_if_due(config)
        except ReadInterrupted:
            return 0.0
        except AppError as error:
            return self._failed(error, config.hub)
        except Exception as error:  # noqa: BLE001 - whatever it is, the box must not fall silent because of it
            _log.exception("report_failed for a reason that is a defect of this program")
            return self._failed(AppError(f"a defect of this program: {error!r}"), config.hub)

    def _finish(self) -> None:
        self._drop_reporter()
        if self._catalog is not None:
            self._catalog.close()
        self._catalog = None

    def _rest(self) -> float:
        """Remove what is left of reports to a hub that is not configured any more."""
        if self._used is None or self._used.hub.url:
            self._drop_reporter()
            with self._service.open_catalog() as catalog:
                with catalog.read() as c:
                    has_state = report_queue.load_state(c) is not None
                if has_state:
                    with catalog.transaction() as c:
                        report_queue.stop_reporting(c)
            self._finish()
        self._used, self._tried, self._failures = self._service.config(), None, 0
        return threading.TIMEOUT_MAX

    def _report_if_due(self, config: Config) -> float:
        now = time.monotonic()
        if self._next_at is None or config is not self._tried:
            self._next_at = now + self._uniform(0.0, min(_FIRST_S, config.hub.report_every_s))
            self._tried, self._failures = config, 0
        if now < self._next_at and self._failures:
            return self._next_at - now
        reporter = self._find_reporter(config)
        if now < self._next_at and not self._has_news():
            return min(self._next_at - now, _LOOK_S)
        has_news = reporter.report()
        if self._failures:
            _log.info("reports go to the hub again")
        self._failures, self._noted = 0, ""
        pause_s = config.hub.report_every_s * self._uniform(1.0, 1.1)
        if has_news:  # the heartbeat before it may have known nothing of that: say it again as soon as may be
            pause_s = min(pause_s, self._facts.pause_s)
        self._next_at = time.monotonic() + pause_s
        return min(pause_s, _LOOK_S)

    def _has_news(self) -> bool:
        """Return whether something waits in the queue. Reads the catalog only if it changed."""
        assert self._catalog is not None  # the reporter has it
        version = self._catalog.version()
        if version == self._seen:
            return False
        with self._catalog.read() as c:
            is_waiting = report_queue.count_waiting(c) > 0
        self._seen = version
        return is_waiting

    def _failed(self, error: AppError, hub: Hub) -> float:
        """Record a failure; return how long to wait."""
        if isinstance(error, HubError) and error.status == 413 and self._client is not None and self._client.shrink():
            self._next_at = time.monotonic()
            return 0.0
        if str(error) != self._noted:
            self._note(error, hub)  # first: who reads the log may ask status
            _log.warning("report_failed: %s", error)
        if not isinstance(error, HubError) or error.status == 401:
            self._finish()  # another catalog, or another token, may be there
        base = min(_SHORTEST_RETRY_S, hub.report_every_s) * 2.0 ** min(self._failures, 10)
        wait_s = min(_LONGEST_RETRY_S, base) * self._uniform(0.5, 1.0)
        asked_s = error.retry_after_s if isinstance(error, HubError) and error.retry_after_s else 0
        self._failures += 1
        self._next_at = time.monotonic() + max(wait_s, asked_s * self._uniform(1.0, 1.5))
        return self._next_at - time.monotonic()

    def _note(self, error: AppError, hub: Hub) -> None:
        if not hub.url:
            return
        now = int(self._service.clock())
        try:
            with self._service.open_catalog() as catalog, catalog.transaction() as c:
                if (state := report_queue.load_state(c)) is None or state.url != hub.url:
                    report_queue.start_stream(c, hub.url, secrets.token_bytes(STREAM_BYTES), now)
                report_queue.note_failure(c, str(error), now)
            self._noted = str(error)
        except AppError as other:
            _log.warning("report_failed, and that was not written down: %s", other)

    def _find_reporter(self, config: Config) -> Reporter:
        """Return the reporter. Make it on first use, and again when the configuration has changed."""
        if config is not self._used:
            self._drop_reporter()
        if self._reporter is None:
            from integrity.reporting.client import HubClient  # here, for TLS and HTTP take 2 MiB

            if self._catalog is None:
                self._catalog = self._service.open_catalog()
                self._seen = -1
            self._client = HubClient(
                config.hub.url,
                load_token(config.hub.token_file),
                certificate=config.hub.certificate,
                is_over=self._ended.is_set,
                pause=lambda wait_s: not self._ended.wait(wait_s),
            )
            facts = _FactsReader(self._catalog, config, self._words, self._state, self._service.clock, self._hostname)
            self._facts = facts
            self._reporter = Reporter(
                self._catalog,
                self._client,
                config.hub.url,
                facts.read,
                self._words,
                clock=self._service.clock,
                is_over=self._ended.is_set,
            )
            self._used = config
        return self._reporter

    def _drop_reporter(self) -> None:
        if self._reporter is not None:
            self._reporter.close()
        self._reporter = self._client = None


class _FactsReader:
    """Reads what heartbeats say, and reads it again only if it may have changed: when the catalog or a deadline did."""

    def __init__(
        self,
        catalog: Catalog,
        config: Config,
        words: BoxWords,
        state: Callable[[], DaemonState],
        clock: Callable[[], float],
        hostname: str,
    ) -> None:
        self._catalog = catalog
        self._config = config
        self._words = words
        self._state = state
        self._clock = clock
        self._hostname = hostname
        self._facts: BoxFacts | None = None
        self._version = -1
        self._next_at = 0.0
        self._until = 0.0  # a file becomes overdue then

    def read(self) -> BoxFacts:
        version = self._catalog.version()
        is_same = version == self._version and self._clock() < self._until
        if self._facts is not None and (is_same or time.monotonic() < self._next_at):
            return self._facts
        cost_s = -time.thread_time()
        status = find_status(self._catalog, self._config, [], clock=self._clock)
        self._facts = self._write(status)
        self._version = version
        due = [float(one.due_at) for one in status.roots if one.due_at is not None and one.due_at > status.at]
        self._until = min(due, default=math.inf)
        cost_s += time.thread_time()
        self._next_at = time.monotonic() + _STATUS_PAUSE * cost_s
        return self._facts

    @property
    def pause_s(self) -> float:
        """Return for how long what was read is not read again."""
        return max(0.0, self._next_at - time.monotonic())

    def _write(self, status: Status) -> BoxFacts:
        sentence, state = self._words.sum_up(status, self._state())
        return BoxFacts(self._hostname, sentence, state, tuple(self._describe(one) for one in status.roots))

    def _describe(self, one: RootStatus) -> RootFacts:
        settings, covered = one.settings, one.coverage
        replica_set, replica_url = self._config.replica_set_of(one.root.path)
        return RootFacts(
            id=one.root.id,
            path=one.root.path,
            replica_set=replica_set,
            replica_url=replica_url,
            patterns=(*(BUILTIN if settings.builtin_excludes else ()), *settings.exclude),
            excludes=Excludes(settings.exclude, builtin=settings.builtin_excludes),
            policy=settings.policy.value,
            verify_every_s=settings.verify_every_s,
            files=covered.files,
            bytes=covered.bytes,
            oldest_verified_at=covered.oldest_at if covered.is_oldest_known else None,
        )
