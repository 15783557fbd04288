"""
A daemon as small as can be: the real control socket before a queue whose one thread runs the real jobs.

Like ``catalogs`` this knows a part of the program.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from integrity.catalog.connection import Catalog
from integrity.catalog.roots import find_roots
from integrity.config import load_config
from integrity.errors import AppError, ConfigError
from integrity.jobs.picture_type import Picture
from integrity.jobs.report import Report, Stop, Summary
from integrity.jobs.runner import make_context
from integrity.model import Job
from integrity.service.control.requests import (
    Act,
    ActDone,
    Answered,
    AskPicture,
    Done,
    JobRequest,
    Returned,
    Ticket,
    interrupted,
    run_request,
)
from integrity.service.control.server import ControlServer
from integrity.service.control.wire import BusyRoot, DaemonState, JobAhead, QueuedJob
from integrity.service.device_queue import LogReport
from support.cli import Box

_TIMEOUT_S = 120.0


class Asked(NamedTuple):
    """A job, or a root to be lent, in the queue."""

    request: JobRequest
    report: Report
    done: Done
    stop: Stop
    lent: Callable[[], None] | None = None


class SmallDaemon:
    """
    ``with SmallDaemon(box): ...``; commands of the box are then handed over.

    Args:
        box: whose catalog is served; made if there is none.
        folder: for the socket; the box's runtime folder unless it is said.
        before: may tell something before each job, in its thread.
        patience_s: of the server.

    Attributes:
        asked: every request that came, in order.
        lent: every path that was to be lent, in order.
        acts: everything else that was to be done, in order.
        ended: how many jobs have ended.
        gate: jobs wait for it before they begin; open at first.
        path: of the socket.
        server: the control socket's.
    """

    def __init__(
        self,
        box: Box,
        *,
        folder: Path | None = None,
        before: Callable[[Report], None] = lambda report: None,
        patience_s: float = 30.0,
    ) -> None:
        self._box, self._before = box, before
        os.makedirs(box.environment["XDG_RUNTIME_DIR"], exist_ok=True)
        self.path = bytes((folder or box.home / "run") / "control.sock")
        self.asked: list[JobRequest] = []
        self.lent: list[bytes] = []
        self.acts: list[Act] = []
        self.ended = 0
        self.gate = threading.Event()
        self.gate.set()
        self.server = ControlServer(self.path, self, catalog=bytes(box.catalog), patience_s=patience_s)
        self._queue: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._busy: list[Asked] = []
        self._left: list[Asked] = []  # not ended
        self._stops: list[Stop] = []
        self._roots: tuple[bytes, ...] = ()
        self._thread = threading.Thread(target=self._work, name="jobs")

    def __enter__(self) -> SmallDaemon:
        if not self._box.catalog.exists():
            Catalog.create(bytes(self._box.catalog)).close()
        self._roots = self._find_roots()
        self.server.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for stop in self._stops:
            stop.set()
        self.gate.set()
        self._queue.put(None)
        self._thread.join(_TIMEOUT_S)
        self.server.close()

    def submit(self, request: JobRequest, report: Report, done: Done) -> Ticket:
        """Put a request into the queue."""
        self.asked.append(request)
        return self._queue_up(Asked(request, report, done, Stop()))

    def lend(self, paths: Sequence[bytes], lent: Callable[[], None], returned: Returned) -> Ticket:
        """Put paths that are to be lent into the queue."""
        self.lent.extend(paths)

        def done(result: Summary | AppError) -> None:
            returned(result if isinstance(result, AppError) else None)

        return self._queue_up(Asked(JobRequest(Job.COMPARE, tuple(paths)), LogReport(), done, Stop(), lent))

    def act(self, act: Act, answered: Answered) -> Ticket | None:
        """Answer at once: what becomes of it is no matter of the socket."""
        self.acts.append(act)
        answered(ActDone(act.verb.value))
        return None

    def find_picture(self, question: AskPicture) -> Picture:
        """Have no picture: what is shown is no matter of the socket."""
        raise ConfigError(f"finding {question.finding} has no two sides to be shown")

    def allows_actions(self) -> bool:
        """Let the page do what it may."""
        return True

    def _queue_up(self, asked: Asked) -> Ticket:
        self._left.append(asked)
        self._stops.append(asked.stop)
        self._queue.put(asked)
        return Ticket(asked.stop.set, lambda: self._find_ahead(asked))

    def state(self) -> DaemonState:
        """Tell what is worked on."""
        busy = tuple(
            BusyRoot(path, asked.request.job.value, "record", 1, 2, None, 3.5)
            for asked in list(self._busy)
            for path in asked.request.paths
        )
        queued = (QueuedJob(b"/odd\xff", "scrub", "asked for"),) if self._queue.qsize() else ()
        return DaemonState(os.getpid(), 1_763_700_000, "0", busy, queued)

    def roots(self) -> tuple[bytes, ...]:
        """Name the roots that were recorded when the last job ended."""
        return self._roots

    def _find_ahead(self, asked: Asked) -> tuple[JobAhead, ...]:
        left = list(self._left)
        ahead = [] if asked in self._busy or asked not in left else left[: left.index(asked)]
        return tuple(
            JobAhead(
                b"".join(one.request.paths[:1]), one.request.job.value, 1_763_700_000 if one in self._busy else None
            )
            for one in ahead
        )

    def _find_roots(self) -> tuple[bytes, ...]:
        with Catalog.open(bytes(self._box.catalog), writes=False) as catalog, catalog.read() as c:
            return tuple(root.path for root in find_roots(c))

    def is_stopped(self, index: int) -> bool:
        """Say whether a request, counted from the first, was asked to stop."""
        return len(self._stops) > index and self._stops[index].is_set()

    def _work(self) -> None:
        while (asked := self._queue.get()) is not None:
            self._busy.append(asked)
            self.gate.wait(_TIMEOUT_S)
            self._before(asked.report)
            result = self._run(asked)
            self._roots = self._find_roots()
            asked.done(result)
            self._busy.remove(asked)
            self._left.remove(asked)
            self.ended += 1

    def _run(self, asked: Asked) -> Summary | AppError:
        if asked.stop.is_set():
            return interrupted(asked.request.job, int(time.time()))
        if asked.lent is not None:
            asked.lent()
            asked.stop.wait()
            return interrupted(asked.request.job, int(time.time()))
        config = load_config(bytes(self._box.home / "integrity.toml"))
        try:
            with Catalog.open(bytes(self._box.catalog), writes=True) as catalog:
                context = make_context(catalog, config, asked.report, jobs=asked.request.jobs, stop=asked.stop)
                return run_request(context, asked.request)
        except AppError as error:
            return error
