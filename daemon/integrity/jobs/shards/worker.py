"""
A worker of a shared tree: ask the hub for a shard, work on it, bring it back.

I1  A worker keeps no state of its own: what it had done when it died is done again by another one.
I2  It reports to be alive only while its work makes progress, so a worker that hangs loses its shard.
I3  It stores nothing of a tree that is not mounted, or not the one that the others read (R5).
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from integrity.errors import AppError, HubAway, HubError, RootSuspended
from integrity.files.open_beneath import open_root
from integrity.files.span import UNLIMITED, Pace
from integrity.hashing.engine import STALL_S
from integrity.jobs.context import Context
from integrity.jobs.open_root import make_excludes
from integrity.jobs.report import Stop
from integrity.jobs.shards import local_copy
from integrity.jobs.shards.lease import Lease
from integrity.jobs.shards.local_copy import OtherTree, make_work_folder
from integrity.jobs.shards.messages import ShardTask, TreeRest, write_survey
from integrity.jobs.shards.survey import measure_tree, summarize
from integrity.jobs.shards.tree_calls import FindingWriter, TreeCalls, make_calls, read_seconds
from integrity.jobs.shards.visit import visit
from integrity.reporting.forms import read_form

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config, ConfiguredRoot

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 60.0
_QUIET_S = 2 * STALL_S
"""Without progress for this long a worker hangs: reads are given up after half of it."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """
    How a worker works.

    Args:
        folder: for local copies of catalogs; made if it is missing.
        jobs: number of threads; None for one per processor.
        pace: throttles the reads.
        quiet_s: without progress for this long, the worker does not report to be alive any more (I2).
    """

    folder: bytes
    jobs: int | None = None
    pace: Pace = UNLIMITED
    quiet_s: float = _QUIET_S


class WorkerPause(NamedTuple):
    """
    Why a worker has nothing to do.

    Attributes:
        wait_s: how many seconds later something may be due.
        done: parts that it read or listed since it began.
        rest: what is left of the tree; None: the worker was stopped, or the hub does not say.
    """

    wait_s: float
    done: int
    rest: TreeRest | None


class ShardWorker:
    """
    Works on one shared tree until it is stopped.

    Args:
        stop: set to end the work; what was done since the last stored version is stored.
    """

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
    """
    Return a worker for a shared root.

    Raises:
        ConfigError: no hub is configured.
    """
    return ShardWorker(make_calls(config, root, write_finding, stop.wait), settings, stop)
