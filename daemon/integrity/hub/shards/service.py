"""
What the hub does for workers of shared trees: the calls ``/hub/v1/shards/...``, and what each does in transactions.

Any thread may call it. Several processes may, too: all state is in the database and in the store. What every call of a
box passes first is in ``hub.api``. Catalogs arrive in parts of the size of other bodies, so neither memory nor the time
of a call grows with them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import sqlalchemy as sa
from starlette.routing import Route

from integrity.config import HubServer
from integrity.errors import CallRefused, HubDatabaseError, ProtocolError, printable
from integrity.hub.api import BoxCall, BoxGuard
from integrity.hub.database import HubDatabase
from integrity.hub.quota import WORKER_BYTES, BoxQuota
from integrity.hub.reported import PlainHeader, read_call
from integrity.hub.schema import shard, shared_tree
from integrity.hub.shards import tree_disks, tree_findings, visits, workers
from integrity.hub.shards.store import ShardStore
from integrity.hub.shards.workers import HeldShard, ShardLimits, WorkerRow
from integrity.hub.work import MINUTE_S, HubDuty
from integrity.jobs.shards.messages import (
    MOST_PACKED_BYTES,
    PackedDigest,
    ShardTask,
    Size,
    TreeOffer,
    VisitResult,
    to_path,
    write_message,
)
from integrity.reporting.forms import Number, read_form
from integrity.reporting.protocol import JsonObject, decode, decode_lines, encode

_CALLS = "join", "take", "look", "beat", "fetch", "survey", "release", "store", "finish"
_LONGEST_NAME = 200
_LONGEST_SETTINGS = 1 << 20
_LONGEST_TROUBLE = 2000
_PART_BYTES = 1 << 20
"""Of a catalog, in an answer: 64 calls at once may wait for slow boxes."""

_BEATS = 4
"""A worker renews its lease so many times in the time of the lease."""

_IDLE_S = 30
_SURVEYING_S = 2
"""Until a tree is cut all its workers wait for one, and then there is work for all."""

_TROUBLE_S = 300
"""A shard that a worker could not work on waits this long, so that one that nobody can is not passed around all day."""


class WorkerCall(PlainHeader, frozen=True):
    """What a worker of a box asks."""

    worker: Number


class TakeCall(WorkerCall, frozen=True):
    """A question for work, or (a command) for the shard of a folder."""

    folder: str | None = None


class LookCall(WorkerCall, frozen=True):
    """A question for the shard of a folder."""

    folder: str


class FetchCall(WorkerCall, frozen=True):
    """A question for a part of a stored catalog."""

    digest: PackedDigest
    offset: Number


class JobCall(WorkerCall, frozen=True):
    """What is said of a job that a worker has."""

    job: Number


class BeatCall(JobCall, frozen=True):
    """The worker is alive, and has read so much."""

    done_bytes: Number


class SurveyCall(JobCall, frozen=True):
    """The survey is stored."""

    digest: PackedDigest


class StoreCall(SurveyCall, frozen=True):
    """The place of a part of a file, which follows."""

    offset: Number
    size: Number


class ReleaseCall(JobCall, frozen=True):
    """
    The worker gives a job back.

    Attributes:
        trouble: why the shard can't be read by anybody.
        other_disk: what the worker found in place of the tree; others may read the shard at once.
    """

    trouble: str | None = None
    other_disk: str | None = None


class ShardHub:
    """
    The shared trees of a hub: what their workers ask. Each call is a method of its name.

    Args:
        database: PostgreSQL: many workers take shards at once.
        limits: how trees are cut and read.

    Raises:
        HubDatabaseError: the database is SQLite.
    """

    def __init__(
        self,
        database: HubDatabase,
        store: ShardStore,
        limits: ShardLimits,
        quota: BoxQuota,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not database.is_postgres:
            raise HubDatabaseError(
                "shared trees need PostgreSQL: set [hub_server] database, then: integrity hub migrate"
            )
        self._database = database
        self._store = store
        self._limits = limits
        self._quota = quota
        self._monotonic = monotonic
        self._retries_from = monotonic() + limits.lease_s

    def join(self, call: BoxCall) -> JsonObject:
        """Add a worker; see ``workers.join``."""
        offer = read_call(TreeOffer, decode(call.body))
        self._quota.charge(call.reporter.box_id, WORKER_BYTES)
        if not 0 < len(offer.tree) <= _LONGEST_NAME or not offer.tree.isprintable():
            raise ProtocolError("tree is no name")
        if not offer.verify_every_s or len(encode(offer.settings)) > _LONGEST_SETTINGS:
            raise ProtocolError("verify_every_s is 0, or the settings are too long")
        with self._database.transaction() as c:
            joined = workers.join(c, call.reporter.box_id, offer, limits=self._limits, now=call.now)
        if isinstance(joined, CallRefused):
            raise joined  # after the finding about it was stored
        worker, trust = joined
        return {"worker": worker, "trust": trust.value}

    def take(self, call: BoxCall) -> JsonObject:
        """Give a worker its next job, or the shard of the folder that it names; see ``workers.take``."""
        asked, beat_s = read_call(TakeCall, decode(call.body)), self._limits.lease_s / _BEATS
        folder, may_retry = asked.folder, self._monotonic() >= self._retries_from
        with self._database.transaction() as c:
            worker = workers.get_worker(c, call.reporter.box_id, asked.worker)
            place = None if folder is None else to_path(folder)
            found = workers.take(c, worker, place, limits=self._limits, may_retry=may_retry, now=call.now)
            if not isinstance(found, ShardTask):
                rest = workers.count_parts(c, worker, limits=self._limits, now=call.now)
        if isinstance(found, ShardTask):
            self._store.clear(found.job)  # what another worker sent for it, or this one before it began again
            return {"task": write_message(found), "beat_s": beat_s}
        wait_s = min(_IDLE_S, beat_s) if rest.is_surveyed else _SURVEYING_S
        return {"task": None, "held_by": found, "wait_s": wait_s, "beat_s": beat_s, "rest": write_message(rest)}

    def look(self, call: BoxCall) -> JsonObject:
        """Return the shard of a folder; see ``workers.look_at_folder``."""
        asked = read_call(LookCall, decode(call.body))
        with self._database.read() as c:
            worker = workers.get_worker(c, call.reporter.box_id, asked.worker)
            found = workers.look_at_folder(c, worker, to_path(asked.folder), limits=self._limits, now=call.now)
        return {"task": write_message(found)}

    def beat(self, call: BoxCall) -> JsonObject:
        """Renew a lease; say whether a command waits for the shard, so that the visit should end."""
        asked = read_call(BeatCall, decode(call.body))
        with self._database.transaction() as c:
            worker, held = _get_held(c, call, asked)
            workers.renew(c, worker, asked.done_bytes, call.now)
        return {"is_wanted": held.wanted_until > call.now}

    def fetch(self, call: BoxCall) -> bytes:
        """Return a part of a stored catalog of the tree of a worker; an empty one is behind its end."""
        asked = read_call(FetchCall, decode(call.body))
        with self._database.read() as c:
            mine = shard.c.tree_id == workers.get_worker(c, call.reporter.box_id, asked.worker).tree_id
            is_known = _is_named(c, asked.digest, mine)
        if not is_known or not self._store.has(asked.digest):
            raise CallRefused(409, "no_catalog", "the store of the hub has no such catalog (any more)")
        with open(self._store.path_of(asked.digest), "rb") as file:
            file.seek(asked.offset)
            return file.read(_PART_BYTES)

    def store(self, call: BoxCall) -> JsonObject:
        """Receive a part of a file: a line with its place, then the data; see ``ShardStore.receive``."""
        line, _, data = call.body.partition(b"\n")
        asked = read_call(StoreCall, decode(line))
        with self._database.read() as c:
            _, held = _get_held(c, call, asked)  # else anybody with a token could fill the disk
        most_bytes = workers.find_most_packed(held, self._limits)
        self._store.receive(asked.job, asked.digest, asked.offset, asked.size, data, most_bytes=most_bytes)
        return {}

    def survey(self, call: BoxCall) -> JsonObject:
        """Cut a tree; see ``visits.accept_survey``."""
        asked = read_call(SurveyCall, decode(call.body))
        with self._database.read() as c:
            worker = workers.get_worker(c, call.reporter.box_id, asked.worker)
            if workers.is_surveyed(c, worker.tree_id):
                return {}  # V3
        folders = list(visits.read_survey(self._find_stored(asked.job, asked.digest)))
        with self._database.transaction() as c:
            visits.accept_survey(c, worker, asked.job, folders, limits=self._limits, now=call.now)
        self._store.clear(asked.job)
        return {}

    def finish(self, call: BoxCall) -> JsonObject:
        """Take over the new version of a shard; see ``visits.accept_visit``."""
        header, *findings = [*decode_lines(call.body)] or [{}]
        asked, result = read_call(JobCall, header), read_form(VisitResult, header)
        job, box_id, now = asked.job, call.reporter.box_id, call.now
        with self._database.read() as c:
            worker = workers.get_worker(c, box_id, asked.worker)
            if visits.was_accepted(c, worker, job, result):
                return {}  # V3
        self._find_stored(job, result.digest)
        survey = None
        if result.survey is not None:
            survey = list(visits.read_survey(self._find_stored(job, result.survey)))
        with self._database.transaction() as c:
            tree_findings.lock(c, worker.tree_id)
            former = c.execute(sa.select(shard.c.former_digest).where(shard.c.id == job)).scalar()
            visits.accept_visit(c, worker, job, result, findings, survey, limits=self._limits, now=now)
            tree_findings.follow(c, worker.tree_id, now)
            if result.disk is not None:
                tree_disks.learn_disk(c, worker.tree_id, box_id, result.disk, now)
            tree_findings.check_promises(c, self._limits, now, shared_tree.c.id == worker.tree_id)
            self._store.commit(job, result.digest)
        self._store.clear(job)
        if former is not None:  # it was replaced twice: removed at once, for a worker may bring many within a day
            with self._database.read() as c:
                is_needed = _is_named(c, former)
            if not is_needed:
                self._store.remove(former)
        return {}

    def release(self, call: BoxCall) -> JsonObject:
        """Take a job back; see ``workers.release``."""
        asked = read_call(ReleaseCall, decode(call.body))
        texts = asked.trouble, asked.other_disk
        trouble, other_disk = (None if one is None else printable(one[:_LONGEST_TROUBLE]) for one in texts)
        with self._database.transaction() as c:
            worker = workers.get_worker(c, call.reporter.box_id, asked.worker)
            workers.release(c, worker, asked.job, trouble, now=call.now, retry_s=_TROUBLE_S)
            if other_disk is not None:
                tree_disks.note_other_disk(c, worker.tree_id, worker.box_id, other_disk, call.now)
        self._store.clear(asked.job)
        return {}

    def check(self, _: HubDatabase, now: int) -> None:
        """Check the promise of all trees, and tidy the store."""
        with self._database.transaction() as c:
            tree_findings.check_promises(c, self._limits, now)
        with self._database.read() as c:
            rows = c.execute(sa.select(shard.c.digest, shard.c.former_digest)).all()
        self._store.prune({digest for row in rows for digest in row if digest is not None})

    def _find_stored(self, job: int, digest: str) -> bytes:
        path = self._store.find(job, digest)
        if path is None:
            raise CallRefused(409, "no_file", "the file of this digest has not arrived; send it first")
        return path


def _get_held(c: sa.Connection, call: BoxCall, asked: JobCall) -> tuple[WorkerRow, HeldShard]:
    worker = workers.get_worker(c, call.reporter.box_id, asked.worker)
    return worker, workers.get_held(c, worker, asked.job)


def _is_named(c: sa.Connection, digest: str, *where: sa.ColumnElement[bool]) -> bool:
    names = sa.select(shard.c.id).where(sa.or_(shard.c.digest == digest, shard.c.former_digest == digest), *where)
    return c.execute(names.limit(1)).first() is not None


def make_shard_hub(settings: HubServer, database: HubDatabase, folder: bytes, quota: BoxQuota) -> ShardHub | None:
    """
    Return the shared trees of a hub; None if its database is SQLite.

    Args:
        folder: of the hub's files; the store is in it, unless the settings name another place.

    Raises:
        HubDatabaseError: the store can't be made.
    """
    if not database.is_postgres:
        return None
    store = ShardStore(settings.store or os.path.join(folder, b"hub-shards"), MOST_PACKED_BYTES)
    store.prepare()
    size = Size(settings.shard_files, settings.shard_size_bytes)
    return ShardHub(database, store, ShardLimits(size, settings.shard_lease_s, settings.shard_visit_s), quota)


def find_shard_duties(hub: ShardHub | None) -> list[HubDuty]:
    unless = "shared trees were not checked"
    return [] if hub is None else [HubDuty("check_shared_trees", MINUTE_S, hub.check, unless=unless)]


def find_shard_routes(hub: ShardHub | None, guard: BoxGuard) -> list[Route]:
    """Return the calls of workers; without shared trees each says why there are none."""
    return [guard.route(f"/shards/{name}", _refuse if hub is None else getattr(hub, name)) for name in _CALLS]


def _refuse(_: BoxCall) -> JsonObject:
    raise CallRefused(
        409,
        "no_shards",
        "this hub has no shared trees, which need PostgreSQL: set [hub_server] database to its URL there, then run:"
        " integrity hub migrate",
    )
