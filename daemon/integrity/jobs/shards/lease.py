"""
The lease of a job: renewed while the work makes progress, and over when the hub says so.

A worker that hangs must lose its shard, so its heartbeat depends on its progress and not only on its process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from integrity.errors import HubAway, HubError
from integrity.jobs.report import Note, NoteKind, Progress, Stop
from integrity.reporting.client import HubClient
from integrity.reporting.protocol import VERSION, encode

if TYPE_CHECKING:
    from integrity.model import Finding

_log = logging.getLogger(__name__)

_POLL_S = 0.2

T = TypeVar("T")


class Lease:
    """
    A job that this worker has. It is also the report of the work, whose progress keeps it alive.

    Args:
        client: for the thread that renews it.
        beat_s: seconds between two renewals.
        quiet_s: without progress for so long, it is not renewed.

    Attributes:
        stop: set when the work should end: the worker is stopped, a command waits, or the lease was lost.
        is_lost: another worker has the job.
        is_ending: the result is being sent. It ends the job, so a refused renewal means nothing any more.
    """

    def __init__(
        self,
        client: HubClient,
        worker: int,
        job: int,
        beat_s: float,
        quiet_s: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._worker = worker
        self._job = job
        self._beat_s = beat_s
        self._quiet_s = quiet_s
        self._monotonic = monotonic
        self._progress_at = monotonic()
        self._done_bytes = 0
        self._ended = threading.Event()
        self.stop = Stop()
        self.is_lost = False
        self.is_ending = False

    @contextmanager
    def held(self, stop: Stop) -> Iterator[None]:
        """Renew the lease during the block; pass a stop of the worker on to the work."""
        thread = threading.Thread(target=self._renew_until_end, args=(stop,), name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(_POLL_S)

    def is_over(self) -> bool:
        """Return whether the work should end."""
        return self.stop.is_set()

    def made_progress(self) -> None:
        """Record that the work goes on."""
        self._progress_at = self._monotonic()

    def watch(self, items: Iterable[T]) -> Iterator[T]:
        """Yield items as long as the lease holds; each counts as progress."""
        for item in items:
            if self.is_over():
                return
            self.made_progress()
            yield item

    def progress(self, progress: Progress) -> None:
        """Receive the progress of a job; see ``Report``."""
        self._done_bytes = progress.bytes_done
        self.made_progress()

    def finding(self, finding: Finding) -> None:  # noqa: ARG002 - see Report
        """Receive a finding: the hub gets all of them at the end."""
        self.made_progress()

    def note(self, note: Note) -> None:
        if note.kind is NoteKind.WARNING:
            _log.info("shard_note %s", note.message)

    def _renew_until_end(self, stop: Stop) -> None:
        next_at = self._monotonic() + self._beat_s
        while not self._ended.wait(_POLL_S):
            if stop.is_set():
                self.stop.set()
            now = self._monotonic()
            if now >= next_at and now - self._progress_at <= self._quiet_s:
                next_at = now + self._beat_s
                self._renew()
        self._client.close()

    def _renew(self) -> None:
        body = {"protocol": VERSION, "worker": self._worker, "job": self._job, "done_bytes": self._done_bytes}
        try:
            if self._client.call("shards/beat", encode(body)).get("is_wanted") is True:
                self.stop.set()  # a command waits for the shard; another visit goes on later
        except HubAway as error:
            _log.info("lease_not_renewed: %s", error)  # the next one may be in time
        except HubError as refusal:
            if self.is_ending:
                return
            _log.warning("lease_lost: %s", refusal)
            self.is_lost = True
            self.stop.set()
            self._ended.set()
