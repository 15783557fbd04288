"""
What the hub does for workers of shared trees: the calls ``/hub/v1/shards/...``, and what each does in transactions.

Any thread may call it. Several processes may, too: all state is in the database and in the store. What every call of a
box passes first is in ``hub.api``. Catalogs arrive in parts of the size of other bodies, so neither memory nor the time
of a call grows with them.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from starlette.routing import Route

from integrity.config import HubServer
from integrity.errors import HubDatabaseError, ProtocolError, printable
from integrity.hub.admission import Refused
from integrity.hub.api import Answer, BoxCall, BoxGuard
from integrity.hub.database import HubDatabase
from integrity.hub.quota import WORKER_BYTES, BoxQuota
from integrity.hub.reported import PlainHeader, read_call
from integrity.hub.schema import shard
from integrity.hub.shards import tree_disks, tree_findings, visits, workers
from integrity.hub.shards.store import ShardStore, StoreFull, UploadRefused
from integrity.hub.shards.workers import ShardLimits, ShardRefused
from integrity.hub.work import MINUTE_S, HubDuty
from integrity.jobs.shards.messages import (
    MOST_PACKED_BYTES,
    ShardTask,
    Size,
    TreeOffer,
    VisitResult,
    to_path,
    write_message,
)
from integrity.reporting.forms import Number, read_form
from integrity.reporting.protocol import JsonObject, decode, decode_lines, encode

_LONGEST_NAME = 200
_LONGEST_SETTINGS = 1 << 20
_PART_BYTES = 1 << 20
"""Of a catalog, in an answer: 64 calls at once may wait for slow boxes."""

_BEATS = 4
"""A worker renews its lease so many times in the time of the lease."""

_IDLE_S = 30
_SURVEYING_S = 2
"""Until a tree is cut all its workers wait for one, and then there is work for all."""

_TROUBLE_S = 300
"""A shard that a worker could not work on waits this long, so that one that nobody can is not passed around all day."""


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A call about a job that a worker of a box says that it has."""

    box_id: int
    worker: int
    job: int

    @classmethod
    def read(cls, box_id: int, body: JsonObject) -> HeldJob:
        """
        Read it from the body of a call.

        Raises:
            ProtocolError: a number is missing.
        """
        return cls(box_id, read_number(body, "worker"), read_number(body, "job"))


def read_number(body: JsonObject, name: str) -> int:
    """
    Return a number of a call.

    Raises:
        ProtocolError: it is missing.
    """
    return read_form(dict[str, Number], {name: body.get(name)})[name]


class ShardHub:
    """
    The shared trees of a hub.

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
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not database.is_postgres:
            raise HubDatabaseError(
                "shared trees need PostgreSQL: set [hub_server] database, then: integrity hub migrate"
            )
        self._database = database
        self.store = store
        self._limits = limits
        self._clock = clock
        self._monotonic = monotonic
        self._retries_from = monotonic() + limits.lease_s

    def join(self, box_id: int, body: JsonObject) -> JsonObject:
        """
        Add a worker; see ``workers.join``.

        Raises:
            ShardRefused: it gets no work.
        """
        offer = read_form(TreeOffer, body)
        if not 0 < len(offer.tree) <= _LONGEST_NAME or not offer.tree.isprintable():
            raise ProtocolError("tree is no name")
        if not offer.verify_every_s or len(encode(offer.settings)) > _LONGEST_SETTINGS:
            raise ProtocolError("verify_every_s is 0, or the settings are too long")
        with self._database.transaction() as c:
            joined = workers.join(c, box_id, offer, limits=self._limits, now=self._now())
        if isinstance(joined, ShardRefused):
            raise joined  # after the finding about it was stored
        return {"worker": joined.worker, "trust": joined.trust.value}

    def take(self, box_id: int, body: JsonObject) -> JsonObject:
        """Give a worker its next job, or the shard of the ``folder`` that it names; see ``workers.take``."""
        may_retry, now = self._monotonic() >= self._retries_from, self._now()
        beat_s, folder = self._limits.lease_s / _BEATS, body.get("folder")
        with self._database.transaction() as c:
            worker = workers.get_worker(c, box_id, read_number(body, "worker"))
            found: ShardTask | str | None
            if isinstance(folder, str):
                place = to_path(folder)
                found = workers.take_folder(c, worker, place, limits=self._limits, may_retry=may_retry, now=now)
            else:
                found = workers.take(c, worker, limits=self._limits, may_retry=may_retry, now=now)
            if not isinstance(found, ShardTask):
                rest = workers.count_parts(c, worker, limits=self._limits, now=now)
        if isinstance(found, ShardTask):
            self.store.clear(found.job)  # what another worker sent for it, or this one before it began again
            return {"task": write_message(found), "beat_s": beat_s}
        wait_s = min(_IDLE_S, beat_s) if rest.is_surveyed else _SURVEYING_S
        return {"task": None, "held_by": found, "wait_s": wait_s, "beat_s": beat_s, "rest": write_message(rest)}

    def look(self, box_id: int, body: JsonObject) -> JsonObject:
        """Return the shard of a folder; see ``workers.look_at_folder``."""
        folder = body.get("folder")
        if not isinstance(folder, str):
            raise ProtocolError("folder is missing")
        with self._database.read() as c:
            worker = workers.get_worker(c, box_id, read_number(body, "worker"))
            found = workers.look_at_folder(c, worker, to_path(folder), limits=self._limits, now=self._now())
        return {"task": write_message(found)}

    def beat(self, call: HeldJob, done_bytes: int) -> JsonObject:
        """
        Renew a lease; return whether a command waits for the shard, so that the visit should end.

        Raises:
            ShardRefused: it was lost.
        """
        with self._database.transaction() as c:
            worker = workers.get_worker(c, call.box_id, call.worker)
            held, now = workers.get_held(c, worker, call.job), self._now()
            workers.renew(c, worker, done_bytes, now)
        return {"is_wanted": held.wanted_until > now}

    def read_catalog(self, box_id: int, worker: int, digest: str, offset: int) -> bytes:
        """
        Return a part of a stored catalog of the tree of a worker; an empty one is behind its end.

        Raises:
            ShardRefused: the tree has no such catalog, or not any more.
        """
        with self._database.read() as c:
            tree_id = workers.get_worker(c, box_id, worker).tree_id
            is_named = sa.or_(shard.c.digest == digest, shard.c.former_digest == digest)
            known = c.execute(sa.select(shard.c.id).where(shard.c.tree_id == tree_id, is_named)).first()
        if known is None or not self.store.has(digest):
            raise ShardRefused("no_catalog", "the store of the hub has no such catalog (any more)")
        with open(self.store.path_of(digest), "rb") as file:
            file.seek(offset)
            return file.read(_PART_BYTES)

    def receive(self, call: HeldJob, digest: str, offset: int, size: int, data: bytes) -> JsonObject:
        """
        Receive a part of a file; see ``ShardStore.receive``.

        Raises:
            ShardRefused: the worker does not have the job; anybody with a token could fill the disk.
            UploadRefused: the file is larger than the shard allows, or damaged.
            StoreFull: the disk is full.
        """
        with self._database.read() as c:
            held = workers.get_held(c, workers.get_worker(c, call.box_id, call.worker), call.job)
        most_bytes = workers.find_most_packed(held, self._limits)
        self.store.receive(call.job, digest, offset, size, data, most_bytes=most_bytes)
        return {}

    def accept_survey(self, call: HeldJob, digest: str) -> JsonObject:
        """Cut a tree; see ``visits.accept_survey``."""
        with self._database.read() as c:
            worker = workers.get_worker(c, call.box_id, call.worker)
            if workers.is_surveyed(c, worker.tree_id):
                return {}  # V3
        folders = list(visits.read_survey(self._find_stored(call.job, digest)))
        with self._database.transaction() as c:
            visits.accept_survey(c, worker, call.job, folders, limits=self._limits, now=self._now())
        self.store.clear(call.job)
        return {}

    def finish(self, call: HeldJob, result: VisitResult, findings: Sequence[JsonObject]) -> JsonObject:
        """Take over the new version of a shard; see ``visits.accept_visit``."""
        with self._database.read() as c:
            worker = workers.get_worker(c, call.box_id, call.worker)
            if visits.was_accepted(c, worker, call.job, result):
                return {}  # V3
        self._find_stored(call.job, result.digest)
        survey = None
        if result.survey is not None:
            survey = list(visits.read_survey(self._find_stored(call.job, result.survey)))
        now = self._now()
        with self._database.transaction() as c:
            tree_findings.lock(c, worker.tree_id)
            former = c.execute(sa.select(shard.c.former_digest).where(shard.c.id == call.job)).scalar()
            visits.accept_visit(c, worker, call.job, result, findings, survey, limits=self._limits, now=now)
            tree_findings.follow(c, worker.tree_id, now)
            if result.disk is not None:
                tree_disks.learn_disk(c, worker.tree_id, call.box_id, result.disk, now)
            tree_findings.check_promise(c, worker.tree_id, self._limits, now)
            self.store.commit(call.job, result.digest)
        self.store.clear(call.job)
        if former is not None:
            self._remove_unnamed(former)
        return {}

    def _remove_unnamed(self, digest: str) -> None:
        """Remove a catalog that was replaced twice, at once: a worker may bring many within a day."""
        with self._database.read() as c:
            names = sa.select(shard.c.id).where(sa.or_(shard.c.digest == digest, shard.c.former_digest == digest))
            is_named = c.execute(names.limit(1)).first() is not None
        if not is_named:
            self.store.remove(digest)

    def release(self, call: HeldJob, trouble: str | None, other_disk: str | None = None) -> JsonObject:
        """
        Take a job back; see ``workers.release``.

        Args:
            call: the job, and who has it.
            trouble: why the shard can't be read by anybody.
            other_disk: what the worker found in place of the tree; others may read the shard at once.
        """
        now = self._now()
        with self._database.transaction() as c:
            worker = workers.get_worker(c, call.box_id, call.worker)
            workers.release(c, worker, call.job, trouble, now=now, retry_s=_TROUBLE_S)
            if other_disk is not None:
                tree_disks.note_other_disk(c, worker.tree_id, call.box_id, other_disk, now)
        self.store.clear(call.job)
        return {}

    def check(self) -> None:
        """Check the promise of all trees, and tidy the store; called from time to time."""
        with self._database.transaction() as c:
            tree_findings.check_promises(c, self._limits, self._now())
            tree_disks.end_of_revoked(c, self._now())
        with self._database.read() as c:
            rows = c.execute(sa.select(shard.c.digest, shard.c.former_digest)).all()
        self.store.prune({digest for row in rows for digest in row if digest is not None})

    def _find_stored(self, job: int, digest: str) -> bytes:
        path = self.store.find(job, digest) if is_digest(digest) else None
        if path is None:
            raise ShardRefused("no_file", "the file of this digest has not arrived; send it first")
        return path

    def _now(self) -> int:
        return int(self._clock())


def make_shard_hub(settings: HubServer, database: HubDatabase, folder: bytes) -> ShardHub | None:
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
    return ShardHub(database, store, ShardLimits(size, settings.shard_lease_s, settings.shard_visit_s))


def find_shard_duties(hub: ShardHub | None) -> list[HubDuty]:
    """Return what is due again and again for shared trees."""
    if hub is None:
        return []
    unless = "shared trees were not checked"
    return [HubDuty("check_shared_trees", MINUTE_S, lambda *_: hub.check(), unless=unless)]


def is_digest(text: str) -> bool:
    """Return whether a text is a digest, and so the name of a file in the store."""
    return len(text) == 64 and all(char in "0123456789abcdef" for char in text)


_log = logging.getLogger(__name__)

ShardAnswer = Callable[[ShardHub, BoxCall], JsonObject | bytes]

_LONGEST_TROUBLE = 2000
_FULL_S = 60
_NO_SHARDS = (
    "this hub has no shared trees, which need PostgreSQL: set [hub_server] database to its URL there, then run:"
    " integrity hub migrate"
)


class ShardApi:
    """
    The calls of workers.

    Args:
        hub: does what they ask; None: this hub has no shared trees.
        guard: what each call passes first.
    """

    def __init__(self, hub: ShardHub | None, guard: BoxGuard, quota: BoxQuota) -> None:
        self._hub = hub
        self._guard = guard
        self._quota = quota

    def routes(self) -> list[Route]:
        calls: dict[str, ShardAnswer] = {
            "join": self._join,
            "take": lambda hub, call: hub.take(call.reporter.box_id, _read(call)),
            "look": lambda hub, call: hub.look(call.reporter.box_id, _read(call)),
            "beat": _beat,
            "fetch": _fetch,
            "survey": _survey,
            "release": _release,
            "store": _store,
            "finish": _finish,
        }
        return [self._guard.route(f"/shards/{name}", self._refusing(call)) for name, call in calls.items()]

    def _refusing(self, act: ShardAnswer) -> Answer:
        def answer(call: BoxCall) -> JsonObject | bytes:
            try:
                return act(self._require_hub(), call)
            except ShardRefused as error:
                raise Refused(409, error.code, str(error)) from error
            except UploadRefused as error:
                raise Refused(409, "bad_upload", str(error)) from error
            except StoreFull as error:
                _log.error("store_full: %s", error)
                raise Refused(503, "store_full", "the hub has no room for catalogs now", _FULL_S) from error

        return answer

    def _join(self, hub: ShardHub, call: BoxCall) -> JsonObject:
        body = _read(call)
        self._quota.charge(call.reporter.box_id, WORKER_BYTES)
        return hub.join(call.reporter.box_id, body)

    def _require_hub(self) -> ShardHub:
        if self._hub is None:
            raise Refused(409, "no_shards", _NO_SHARDS)
        return self._hub


def _read(call: BoxCall) -> JsonObject:
    value = decode(call.body)
    read_call(PlainHeader, value)
    return value


def _beat(hub: ShardHub, call: BoxCall) -> JsonObject:
    body = _read(call)
    return hub.beat(HeldJob.read(call.reporter.box_id, body), read_number(body, "done_bytes"))


def _fetch(hub: ShardHub, call: BoxCall) -> bytes:
    """Send a part of a stored catalog; an empty one is behind its end."""
    body = _read(call)
    worker, offset = read_number(body, "worker"), read_number(body, "offset")
    return hub.read_catalog(call.reporter.box_id, worker, _read_digest(body), offset)


def _survey(hub: ShardHub, call: BoxCall) -> JsonObject:
    body = _read(call)
    return hub.accept_survey(HeldJob.read(call.reporter.box_id, body), _read_digest(body))


def _release(hub: ShardHub, call: BoxCall) -> JsonObject:
    body = _read(call)
    texts = (body.get(name) for name in ("trouble", "other_disk"))
    trouble, other_disk = (printable(one[:_LONGEST_TROUBLE]) if isinstance(one, str) else None for one in texts)
    return hub.release(HeldJob.read(call.reporter.box_id, body), trouble, other_disk)


def _store(hub: ShardHub, call: BoxCall) -> JsonObject:
    """Receive a part of a file: a line with its place, then the data."""
    line, _, data = call.body.partition(b"\n")
    header = decode(line)
    read_call(PlainHeader, header)
    job = HeldJob.read(call.reporter.box_id, header)
    offset, size = read_number(header, "offset"), read_number(header, "size")
    return hub.receive(job, _read_digest(header), offset, size, data)


def _finish(hub: ShardHub, call: BoxCall) -> JsonObject:
    header, *findings = [*decode_lines(call.body)] or [{}]
    read_call(PlainHeader, header)
    job, result = HeldJob.read(call.reporter.box_id, header), read_form(VisitResult, header)
    return hub.finish(job, result, findings)


def _read_digest(body: JsonObject) -> str:
    value = body.get("digest")
    if not isinstance(value, str) or not is_digest(value):
        raise ProtocolError("digest is none: 64 hexadecimal digits")
    return value
