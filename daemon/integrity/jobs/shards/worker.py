"""
A worker of a shared tree: ask the hub for a shard, work on it, bring it back.

I1  A worker keeps no state of its own: what it had done when it died is done again by another one.
I2  It reports to be alive only while its work makes progress, so a worker that hangs loses its shard.
I3  It stores nothing of a tree that is not mounted, or not the one that the others read (R5).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog.connection import Catalog
from integrity.config import read_seal_key
from integrity.errors import AppError, ConfigError, HubAway, HubError, RootSuspended
from integrity.files.open_beneath import open_root
from integrity.files.span import UNLIMITED, Pace
from integrity.hashing.engine import STALL_S
from integrity.jobs.context import Context
from integrity.jobs.open_root import make_excludes
from integrity.jobs.report import Stop
from integrity.jobs.shards import local_copy
from integrity.jobs.shards.client import ShardClient
from integrity.jobs.shards.lease import Lease
from integrity.jobs.shards.messages import (
    MOST_FINDINGS,
    ShardTask,
    TreeOffer,
    VisitResult,
    read_message,
    to_text,
    write_message,
    write_survey,
)
from integrity.jobs.shards.packing import MOST_PACKED_BYTES, digest_file, pack_file, pack_lines, unpack_file
from integrity.jobs.shards.survey import measure_tree, summarize
from integrity.jobs.shards.visit import Visited, visit
from integrity.jobs.shards.work_folder import make_work_folder
from integrity.reporting.client import HubClient
from integrity.reporting.protocol import MOST_BODY_BYTES, VERSION, JsonObject, encode, encode_lines
from integrity.reporting.token import load_token

if TYPE_CHECKING:
    from integrity.config import Config, ConfiguredRoot
    from integrity.model import Finding

_log = logging.getLogger(__name__)

_SHORTEST_S, _LONGEST_S = 0.1, 86_400.0
"""Of a time that the hub names."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 60.0
_QUIET_S = 2 * STALL_S
"""Without progress for this long a worker hangs: reads are given up after half of it."""

_AGREED = (
    *("digests", "block_size_bytes", "policy", "exclude", "builtin_excludes", "rewrites_in_place", "cross_mounts"),
    *("mass_change_files", "mass_change_percent"),
)
"""Settings of a root that all workers of a tree must have in common: they decide what a catalog contains."""


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


class ShardWorker:
    """
    Works on one shared tree until it is stopped.

    Args:
        client: calls the hub.
        config: with the root.
        root: the shared tree, as mounted here.
        write_finding: writes a finding as the object of ``findings --json``.
        stop: set to end the work; what was done since the last stored version is stored.
    """

    def __init__(
        self,
        client: ShardClient,
        config: Config,
        root: ConfiguredRoot,
        settings: WorkerSettings,
        write_finding: Callable[[Finding], JsonObject],
        stop: Stop,
    ) -> None:
        self._client = client
        self._config = config
        self._root = root
        self._settings = settings
        self._write_finding = write_finding
        self._stop = stop
        self._worker = 0
        self._failed = 0  # jobs in a row that came to nothing

    def run(self) -> float:
        """
        Work until nothing is due or the stop is set; return how many seconds later something may be due.

        Raises:
            HubError: the hub does not let this worker work on the tree; the message says why.
            RootSuspended: the tree is not mounted here.
        """
        with make_work_folder(self._settings.folder) as folder:
            while not self._stop.is_set():
                try:
                    wait_s = self._work_once(folder)
                except HubAway:
                    if self._stop.is_set():
                        break  # what it has done since the last stored version is done again by another worker
                    raise
                except HubError as refusal:
                    if refusal.code != "not_yours":
                        raise
                    self._worker = 0  # the hub forgot this worker: come again
                    self._pause()
                    continue
                if wait_s:
                    return wait_s
        return 0.0

    def _work_once(self, folder: bytes) -> float:
        """Take one job and do it; return how long to wait before the next one."""
        if not self._worker:
            self._join()
        answer = self._call("take", {})
        task = answer.get("task")
        if not isinstance(task, dict):
            return read_seconds(answer, "wait_s", 60.0)
        self._do(read_message(ShardTask, task), read_seconds(answer, "beat_s", 10.0), folder)
        return 0.0

    def _pause(self) -> None:
        """Wait before the hub is asked again: one that gives and takes back is not asked without end."""
        self._failed += 1
        self._stop.wait(min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(self._failed - 1, 10)))

    def _join(self) -> None:
        seen = local_copy.see_tree(self._root.path)
        settings = {name: _spell(getattr(self._root, name)) for name in _AGREED}
        offer = TreeOffer(self._root.shared, seen.folder_inode, self._root.verify_every_s, settings)
        answer = self._client.call("join", encode({"protocol": VERSION, **write_message(offer)}))
        worker = answer.get("worker")
        self._worker = worker if isinstance(worker, int) else 0

    def _call(self, path: str, body: JsonObject) -> JsonObject:
        return self._client.call(path, encode({"protocol": VERSION, "worker": self._worker, **body}))

    def _do(self, task: ShardTask, beat_s: float, folder: bytes) -> None:
        """Do a job while renewing its lease; give it back if it can't be done."""
        lease = Lease(self._client.hub.copy(), self._worker, task.job, beat_s, self._settings.quiet_s)
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
        except HubAway:
            raise
        except HubError as refusal:
            _log.warning("shard_lost tree=%s shard=%s: %s", self._root.shared, task.shard, refusal)
            self._pause()
        except (AppError, OSError) as error:  # OSError: no space for the local copy, say
            _log.error("shard_failed tree=%s shard=%s: %s", self._root.shared, task.shard, error)
            with suppress(HubError):  # it lost the shard meanwhile
                self._call("release", {"job": task.job, "trouble": str(error)})
            if isinstance(error, RootSuspended):
                raise
            self._pause()

    def _survey(self, task: ShardTask, lease: Lease, folder: bytes) -> None:
        root = self._root
        excludes = make_excludes(root, root.path, self._config.catalog)
        fd = open_root(root.path)
        try:
            measured = measure_tree(fd, excludes, cross_mounts=root.cross_mounts)
            folders = summarize(lease.watch(measured), task.limit)
        finally:
            os.close(fd)
        if not lease.is_over():
            digest = self._store_lines(write_survey(folders), task, lease, folder)
            lease.is_ending = True
            self._call("survey", {"job": task.job, "digest": digest})

    def _visit(self, task: ShardTask, lease: Lease, folder: bytes) -> None:
        path = os.path.join(folder, b"shard-%d.db" % (task.shard or 0))
        try:
            with self._open_copy(path, task, lease) as catalog:
                context = self._make_context(catalog, task, lease)
                local_copy.narrow(catalog, task.scope)
                done = visit(context, self._root.path, task)
                local_copy.require_present(catalog)
                if lease.is_lost:
                    return
                local_copy.export(catalog, path + b".out", context.boot_uuid, context.now())
            lease.made_progress()
            digest = self._store(pack_file(path + b".out"), task, lease)
            survey = None
            if done.folders is not None:
                survey = self._store_lines(write_survey(done.folders), task, lease, folder)
            lease.is_ending = True
            self._finish(task, done, digest, survey)
        finally:
            local_copy.remove(path)

    @contextmanager
    def _open_copy(self, path: bytes, task: ShardTask, lease: Lease) -> Iterator[Catalog]:
        key = read_seal_key(self._config)
        if task.digest is None:
            with Catalog.create(path, seal_key=key) as catalog:
                yield catalog
            return
        with open(path + b".in", "w+b") as file:
            body: JsonObject = {"protocol": VERSION, "worker": self._worker, "job": task.job}
            self._client.receive_file("fetch", body, file, lease.made_progress, most_bytes=MOST_PACKED_BYTES)
            unpack_file(file, path, task.digest)
        with local_copy.open_copy(path, key) as catalog:
            local_copy.bind(catalog, self._root.path)
            yield catalog

    def _make_context(self, catalog: Catalog, task: ShardTask, lease: Lease) -> Context:
        return Context(
            catalog,
            replace(self._config, catalog=catalog.path, roots=(replace(self._root, shared=""),)),
            lease,
            jobs=self._settings.jobs,
            stop=lease.stop,
            pace=self._settings.pace,
            scope=None if task.scope.is_whole else task.scope,
            makes_backups=False,
        )

    def _store(self, packed: bytes, task: ShardTask, lease: Lease) -> str:
        """Send a packed file to the hub's store; return its digest."""
        with open(packed, "rb") as file:
            digest = digest_file(file)
            header = {"protocol": VERSION, "worker": self._worker, "job": task.job, "digest": digest}
            self._client.send_file("store", header, file, lease.made_progress)
        return digest

    def _store_lines(self, lines: Iterator[bytes], task: ShardTask, lease: Lease, folder: bytes) -> str:
        path = pack_lines(lines, os.path.join(folder, b"survey"))
        try:
            return self._store(path, task, lease)
        finally:
            os.unlink(path)

    def _finish(self, task: ShardTask, done: Visited, digest: str, survey: str | None) -> None:
        known = done.coverage
        result = VisitResult(
            version=task.version,
            digest=digest,
            is_complete=done.is_complete,
            files=known.files,
            bytes=known.bytes,
            oldest_at=known.oldest_at,
            apart_bytes=known.uncovered_bytes,
            read_bytes=done.read_bytes,
            read_ms=int(done.duration_s * 1000),
            findings_total=len(done.findings),
            survey=survey,
        )
        header = {"protocol": VERSION, "worker": self._worker, "job": task.job, **write_message(result)}
        lines = encode_lines([header, *map(self._describe, done.findings[:MOST_FINDINGS])])
        self._client.call("finish", lines[: lines.rindex(b"\n", 0, MOST_BODY_BYTES) + 1], is_lines=True)

    def _describe(self, finding: Finding) -> JsonObject:
        return {
            "number": finding.id,
            "path": to_text(finding.path or b""),
            "kind": finding.kind.value,
            "opened_at": finding.opened_at,
            "body": self._write_finding(finding),
        }


def find_work_folder(config: Config) -> bytes:
    """Return where local copies of catalogs are kept: beside the catalog of this machine."""
    return os.path.join(os.path.dirname(config.catalog), b"shards")


def make_worker(
    config: Config,
    root: ConfiguredRoot,
    settings: WorkerSettings,
    write_finding: Callable[[Finding], JsonObject],
    stop: Stop,
) -> ShardWorker:
    """
    Return a worker for a shared root.

    Raises:
        ConfigError: no hub is configured.
    """
    if not config.hub.url:
        raise ConfigError(f"no hub is configured, which shares the work; run: {program.command('hub join URL')}")
    token = load_token(config.hub.token_file)
    client = ShardClient(HubClient(config.hub.url, token, certificate=config.hub.certificate), stop.wait)
    return ShardWorker(client, config, root, settings, write_finding, stop)


def read_seconds(answer: JsonObject, name: str, default: float) -> float:
    """Return a time of an answer; what is none, too short or too long is the default."""
    value = answer.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not _SHORTEST_S <= value <= _LONGEST_S:
        return default
    return float(value)


def _spell(value: object) -> object:
    """Return the value of a setting as JSON has it."""
    return list(value) if isinstance(value, tuple) else value
