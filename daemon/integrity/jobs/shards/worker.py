"""
A worker of a shared tree: ask the hub for a shard, work on it while its lease is renewed, bring it back.

I1  A worker keeps no state of its own: what it had done when it died is done again by another one.
I2  It reports to be alive only while its work makes progress, so a worker that hangs loses its shard.
I3  It stores nothing of a tree that is not mounted, or not the one that the others read (R5).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from integrity.errors import AppError, HubAway, HubError, RootSuspended
from integrity.files.open_beneath import open_root
from integrity.files.span import UNLIMITED, Pace
from integrity.hashing.engine import STALL_S
from integrity.jobs.context import Context
from integrity.jobs.open_root import make_excludes
from integrity.jobs.report import Note, NoteKind, Progress, Stop
from integrity.jobs.shards import local_copy
from integrity.jobs.shards.local_copy import OtherTree, make_work_folder
from integrity.jobs.shards.messages import ShardTask, TreeRest, measure_tree, summarize, write_survey
from integrity.jobs.shards.tree_calls import FindingWriter, TreeCalls, make_calls, read_seconds
from integrity.jobs.shards.visit import visit
from integrity.reporting.client import HubClient
from integrity.reporting.forms import read_form
from integrity.reporting.protocol import VERSION, encode

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config, ConfiguredRoot
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
        return self.stop.is_set()

    def made_progress(self) -> None:
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


_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 60.0
_QUIET_S = 2 * STALL_S
"""Without progress for this long a worker hangs: reads are given up after half of it."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker works. ``folder``: for local copies; ``jobs``: threads, None: as processors; ``quiet_s``: see I2."""

    folder: bytes
    jobs: int | None = None
    pace: Pace = UNLIMITED
    quiet_s: float = _QUIET_S


class WorkerPause(NamedTuple):
    """Why a worker has nothing to do for so long, what it did, and what is left; ``rest``: None: it was stopped."""

    wait_s: float
    done: int
    rest: TreeRest | None


class ShardWorker:
    """Works on one shared tree until it is stopped: what was done since the last stored version is stored."""

    def __init__(self, calls: TreeCalls, settings: WorkerSettings, stop: Stop) -> None:
        self._calls = calls
        self._root = calls.root
        self._settings = settings
        self._stop = stop
        self._failed = 0  # jobs in a row that came to nothing
        self._done = 0

    def run(self) -> WorkerPause:
        """
        Work until nothing is due or the stop is set.

        Raises:
            HubError: the hub does not let this worker work on the tree; the message says why.
            RootSuspended: the tree is not mounted here.
        """
        with make_work_folder(self._settings.folder) as folder:
            while not self._stop.is_set():
                try:
                    pause = self._work_once(folder)
                except HubAway:
                    if self._stop.is_set():
                        break  # what it has done since the last stored version is done again by another worker
                    raise
                except HubError as refusal:
                    if refusal.code != "not_yours":
                        raise
                    self._calls.worker = 0  # the hub forgot this worker: come again
                    self._pause()
                    continue
                if pause is not None:
                    return pause
        return WorkerPause(0.0, self._done, None)

    def _work_once(self, folder: bytes) -> WorkerPause | None:
        """Take one job and do it; if there is none, return why."""
        self._calls.notice_other_disk()
        task, answer = self._calls.ask("take", {})
        if task is None:
            rest = answer.get("rest")
            known = read_form(TreeRest, rest) if isinstance(rest, dict) else None
            return WorkerPause(read_seconds(answer, "wait_s", 60.0), self._done, known)
        self._do(task, read_seconds(answer, "beat_s", 10.0), folder)
        return None

    def _pause(self) -> None:
        """Wait before the hub is asked again: one that gives and takes back is not asked without end."""
        self._failed += 1
        self._stop.wait(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failed - 1, 10)))

    def _do(self, task: ShardTask, beat_s: float, folder: bytes) -> None:
        """Do a job while renewing its lease; give it back if it can't be done."""
        lease = Lease(self._calls.client.hub.copy(), self._calls.worker, task.job, beat_s, self._settings.quiet_s)
        try:
            with lease.held(self._stop):
                if task.shard is None:
                    self._survey(task, lease, folder)
                else:
                    self._visit(task, lease, folder)
            if lease.is_lost:
                self._pause()
            else:
                self._failed = 0
                self._done += 1
        except HubAway:
            raise
        except HubError as refusal:
            _log.warning("shard_lost tree=%s shard=%s: %s", self._root.shared, task.shard, refusal)
            self._pause()
        except (AppError, OSError) as error:  # OSError: no space for the local copy, say
            _log.error("shard_failed tree=%s shard=%s: %s", self._root.shared, task.shard, error)
            why = (
                {"trouble": None, "other_disk": error.why} if isinstance(error, OtherTree) else {"trouble": str(error)}
            )
            with suppress(HubError):  # it lost the shard meanwhile
                self._calls.call("release", {"job": task.job, **why})
            if isinstance(error, RootSuspended):
                raise
            self._pause()

    def _survey(self, task: ShardTask, lease: Lease, folder: bytes) -> None:
        root = self._root
        excludes = make_excludes(root, root.path, self._calls.config.catalog)
        fd = open_root(root.path)
        try:
            measured = measure_tree(fd, excludes, cross_mounts=root.cross_mounts)
            folders = summarize(lease.watch(measured), task.limit)
        finally:
            os.close(fd)
        if not lease.is_over():
            digest = self._calls.store_lines(write_survey(folders), task, lease.made_progress, folder)
            lease.is_ending = True
            self._calls.call("survey", {"job": task.job, "digest": digest})

    def _visit(self, task: ShardTask, lease: Lease, folder: bytes) -> None:
        path = os.path.join(folder, b"shard-%d.db" % (task.shard or 0))
        try:
            with self._calls.open_copy(path, task, lease.made_progress) as catalog:
                context = self._make_context(catalog, task, lease)
                done = visit(context, self._root.path, task)
                local_copy.require_present(catalog)
                if lease.is_lost:
                    return
                digest = self._calls.store_catalog(catalog, task, lease.made_progress)
            survey = None
            if done.folders is not None:
                survey = self._calls.store_lines(write_survey(done.folders), task, lease.made_progress, folder)
            lease.is_ending = True
            self._calls.finish(task, done, digest, survey)
        finally:
            local_copy.remove(path)

    def _make_context(self, catalog: Catalog, task: ShardTask, lease: Lease) -> Context:
        return Context(
            catalog,
            self._calls.make_config(catalog),
            lease,
            jobs=self._settings.jobs,
            stop=lease.stop,
            pace=self._settings.pace,
            scope=None if task.scope.is_whole else task.scope,
            makes_backups=False,
        )


def find_work_folder(config: Config) -> bytes:
    """Return where local copies of catalogs are kept: beside the catalog of this machine."""
    return os.path.join(os.path.dirname(config.catalog), b"shards")


def make_worker(
    config: Config, root: ConfiguredRoot, settings: WorkerSettings, write_finding: FindingWriter, stop: Stop
) -> ShardWorker:
    """Return a worker for a shared root. ConfigError: no hub is configured."""
    return ShardWorker(make_calls(config, root, write_finding, stop.wait), settings, stop)
