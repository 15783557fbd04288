"""
Shared trees and their workers: who may work on a tree, and who has which job.

A worker that is silent for longer than the lease loses its job to the next one that asks. Nothing is retried before the
hub itself has run for that long: after its own outage every worker looks silent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from integrity.errors import AppError
from integrity.hub.shards.cutting import find_left_out
from integrity.hub.shards.queue import JobsInTransaction, ShardJob
from integrity.hub.shards.schema import shard, shard_folder, shard_worker, shared_tree
from integrity.jobs.shards.messages import ShardTask, TreeOffer, to_text
from integrity.jobs.shards.packing import MOST_PACKED_BYTES
from integrity.jobs.shards.survey import Size

_ROUNDS = 4
"""Rounds of reading in each promise, so that some may be late."""

_PACKED_BYTES = 64 << 20
_PACKED_FILE_BYTES = 8 << 10
_BLOCK_BYTES = 1 << 20
_PACKED_BLOCK_BYTES = 64
"""Of a packed catalog at most: four times what one takes after years, findings and history included."""

_LONGEST_ROUND_S = 86_400
"""New files are found within a day, as on a box alone."""


class ShardRefused(AppError):
    """
    Say that a worker may not do what it asked.

    Args:
        code: for the worker: other_tree, other_settings, not_yours, changed.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """
    How trees are cut and read.

    Args:
        size: of a shard.
        lease_s: a worker that is silent for longer loses its job.
        visit_s: a worker stores what it did at least this often.
    """

    size: Size
    lease_s: int
    visit_s: int


class WorkerRow(NamedTuple):
    """A worker of a tree."""

    id: int
    tree_id: int
    box_id: int


def find_round_s(verify_every_s: int) -> int:
    """Return how long a round of reading lasts, for a promise."""
    return max(1, min(_LONGEST_ROUND_S, verify_every_s // _ROUNDS))


def join(c: sa.Connection, box_id: int, offer: TreeOffer, *, limits: ShardLimits, now: int) -> int:
    """
    Add a worker to a tree, and the tree if it is the first; return the worker's number.

    Raises:
        ShardRefused: it sees another tree, or reads it with other settings than the others.
    """
    tree_id = _ensure_tree(c, offer, now)
    _check_offer(c, tree_id, box_id, offer, busy_since=now - 2 * limits.lease_s)
    worker = JobsInTransaction(c, tree_id).add_worker()
    values = {"tree_id": tree_id, "box_id": box_id, "began_at": now, "seen_at": now, "done_bytes": 0}
    c.execute(sa.insert(shard_worker).values(id=worker, **values))
    return worker


def _ensure_tree(c: sa.Connection, offer: TreeOffer, now: int) -> int:
    find = sa.select(shared_tree.c.id).where(shared_tree.c.name == offer.tree)
    known = c.execute(find.with_for_update()).scalar()
    if known is not None:
        return int(known)
    c.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": offer.tree})
    known = c.execute(find).scalar()
    if known is not None:
        return int(known)
    values = {"name": offer.tree, "created_at": now, "inode": offer.inode, "settings": _spell(offer)}
    made = c.execute(sa.insert(shared_tree).values(verify_every_s=offer.verify_every_s, **values))
    assert made.inserted_primary_key is not None
    tree_id = int(made.inserted_primary_key[0])
    JobsInTransaction(c, tree_id).add_survey()
    return tree_id


def _check_offer(c: sa.Connection, tree_id: int, box_id: int, offer: TreeOffer, *, busy_since: int) -> None:
    known = c.execute(sa.select(shared_tree).where(shared_tree.c.id == tree_id)).one()
    if known.inode != offer.inode:
        raise ShardRefused(
            "other_tree",
            f"{offer.tree}: the folder there is not the one that the other workers read (its inode is {offer.inode},"
            f" theirs {known.inode}): mount the same file system, then start again",
        )
    if known.settings == _spell(offer):
        return
    others = sa.select(shard_worker.c.id).where(
        shard_worker.c.tree_id == tree_id, shard_worker.c.box_id != box_id, shard_worker.c.seen_at > busy_since
    )
    if c.execute(others.limit(1)).first() is not None:
        raise ShardRefused(
            "other_settings",
            f"{offer.tree}: {_name_difference(known.settings, _spell(offer))} is configured differently on the other"
            " workers: make it the same on all, then restart them",
        )
    values = {"settings": _spell(offer), "verify_every_s": offer.verify_every_s}
    c.execute(sa.update(shared_tree).where(shared_tree.c.id == tree_id).values(values))


def _spell(offer: TreeOffer) -> str:
    return json.dumps({**offer.settings, "verify_every_s": offer.verify_every_s}, sort_keys=True)


def _name_difference(one: str, other: str) -> str:
    left, right = json.loads(one), json.loads(other)
    return ", ".join(key for key in sorted(left.keys() | right.keys()) if left.get(key) != right.get(key))


def get_worker(c: sa.Connection, box_id: int, number: int) -> WorkerRow:
    """
    Return a worker of a box.

    Raises:
        ShardRefused: the box has no such worker.
    """
    columns = shard_worker.c.id, shard_worker.c.tree_id, shard_worker.c.box_id
    row = c.execute(sa.select(*columns).where(shard_worker.c.id == number, shard_worker.c.box_id == box_id)).first()
    if row is None:
        raise ShardRefused("not_yours", "the hub does not know this worker (any more); it must come again")
    return WorkerRow(*row)


def renew(c: sa.Connection, worker: WorkerRow, done_bytes: int, now: int) -> None:
    """Renew the lease of a worker."""
    JobsInTransaction(c, worker.tree_id).renew(worker.id)
    values = {"seen_at": now, "done_bytes": done_bytes}
    c.execute(sa.update(shard_worker).where(shard_worker.c.id == worker.id).values(values))


def get_held(c: sa.Connection, worker: WorkerRow, job_id: int) -> ShardJob:
    """
    Return a job that a worker has.

    Raises:
        ShardRefused: another worker has it, or it waits for one.
    """
    job = JobsInTransaction(c, worker.tree_id).find_held(worker.id, job_id)
    if job is None:
        raise ShardRefused("not_yours", "the lease of this shard was lost: another worker has it, or will")
    return job


def take(c: sa.Connection, worker: WorkerRow, *, limits: ShardLimits, may_retry: bool, now: int) -> ShardTask | None:
    """
    Give a worker the most urgent job of its tree, or the one that it has; None: nothing is due.

    Args:
        may_retry: False while every worker may look silent because the hub was away.
    """
    jobs = JobsInTransaction(c, worker.tree_id)
    renew(c, worker, 0, now)
    if may_retry:
        jobs.retry_stalled(limits.lease_s)
    job = jobs.take(worker.id)
    shard_id = None if job is None else job.shard_id
    c.execute(sa.update(shard_worker).where(shard_worker.c.id == worker.id).values(shard_id=shard_id))
    if job is None:
        return None
    return _describe(c, worker.tree_id, job, limits, now)


def _describe(c: sa.Connection, tree_id: int, job: ShardJob, limits: ShardLimits, now: int) -> ShardTask:
    tree = c.execute(sa.select(shared_tree).where(shared_tree.c.id == tree_id)).one()
    version, digest, round_at, own, left_out = 0, None, now, [b""], list[bytes]()
    every_s = find_round_s(tree.verify_every_s)
    if job.shard_id is not None:
        row = c.execute(sa.select(shard).where(shard.c.id == job.shard_id)).one()
        is_going_on = row.round_at is not None and not row.is_complete
        version, digest, round_at = row.version, row.digest, row.round_at if is_going_on else now
        c.execute(sa.update(shard).where(shard.c.id == job.shard_id).values(round_at=round_at, is_complete=0))
        own, left_out = find_folders(c, tree_id, job.shard_id)
    return ShardTask(
        job=job.id,
        shard=job.shard_id,
        version=version,
        digest=digest,
        folders=tuple(map(to_text, own)),
        left_out=tuple(map(to_text, left_out)),
        round_at=round_at,
        now=now,
        visit_s=limits.visit_s,
        every_s=every_s,
        most_files=limits.size.files,
        most_bytes=limits.size.bytes,
    )


def find_folders(c: sa.Connection, tree_id: int, shard_id: int) -> tuple[list[bytes], list[bytes]]:
    """Return the folders of a shard, and those of other shards inside them."""
    rows = c.execute(sa.select(shard_folder.c.path, shard_folder.c.shard_id).where(shard_folder.c.tree_id == tree_id))
    own, others = list[bytes](), list[bytes]()
    for path, owner in rows:
        (own if owner == shard_id else others).append(bytes(path))
    return sorted(own), sorted(find_left_out(own, others))


def find_most_packed(c: sa.Connection, job: ShardJob, limits: ShardLimits) -> int:
    """Return how many bytes a worker may send for a job: a catalog, packed, of the files that its shard can have."""
    is_read = shard.c.id == job.shard_id, shard.c.version > 0
    row = c.execute(sa.select(shard.c.file_count, shard.c.byte_count).where(*is_read)).first()
    if row is None:  # the survey, or a shard that may be one folder of any size
        return MOST_PACKED_BYTES
    files, size = max(limits.size.files, int(row.file_count)), max(limits.size.bytes, int(row.byte_count))
    packed_bytes = _PACKED_BYTES + files * _PACKED_FILE_BYTES + size // _BLOCK_BYTES * _PACKED_BLOCK_BYTES
    return min(MOST_PACKED_BYTES, packed_bytes)


def release(c: sa.Connection, worker: WorkerRow, job_id: int, trouble: str | None, due_at: int) -> None:
    """
    Take a job back from a worker that can't do it, or ends.

    Args:
        trouble: why, for people; None: the worker ends.
        due_at: when it may be given out again.

    Raises:
        ShardRefused: the worker does not have it.
    """
    job = get_held(c, worker, job_id)
    JobsInTransaction(c, worker.tree_id).give_back(job_id, due_at)
    c.execute(sa.update(shard_worker).where(shard_worker.c.id == worker.id).values(shard_id=None))
    if job.shard_id is not None:
        c.execute(sa.update(shard).where(shard.c.id == job.shard_id).values(trouble=trouble))
