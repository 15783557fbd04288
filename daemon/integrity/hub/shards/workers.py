"""
Shared trees and their workers: who may work on a tree, and who holds which shard.

A row of ``shard`` says when a worker should have it next, and which one holds it; what the protocol calls a job is a
shard, or (S3) the survey. A worker that is silent for longer than the lease loses its shard to the next one that asks.
No lease ends before the hub itself has run for that long: after its own outage every worker looks silent.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.errors import CallRefused
from integrity.files.excludes import find_parents
from integrity.hub import audit
from integrity.hub.members import is_granted, load_grants
from integrity.hub.schema import box, finding, shard, shard_folder, shard_worker, shared_tree
from integrity.hub.shards.tree_disks import ANY_INODE, OtherDisk, end_findings, note_other_disk, recognise_disk
from integrity.jobs.shards.messages import MOST_PACKED_BYTES, DiskTrust, ShardTask, Size, TreeOffer, TreeRest
from integrity.paths import shell_word
from integrity.reporting.protocol import to_text
from integrity.same_place import get_plain_name

_ROUNDS = 4
"""Rounds of reading in each promise, so that some may be late."""

_PACKED_BYTES = 64 << 20
_PACKED_FILE_BYTES = 8 << 10
_BLOCK_BYTES = 1 << 20
_PACKED_BLOCK_BYTES = 64
"""Of a packed catalog at most: four times what one takes after years, findings and history included."""

_LONGEST_ROUND_S = 86_400
"""New files are found within a day, as on a box alone."""

_LANDMARKS = 50
"""At most: a task is read whenever a worker asks for one."""

_NUMBERS = "version", "is_complete", "file_count", "byte_count", "apart_bytes", "read_bytes", "read_ms"

_WANTED_S = 10
"""A shard waits so long for a command that asked for it while a worker had it; commands ask every second."""


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """How large shards are, how long a worker may be silent, and after how long it stores what it did."""

    size: Size
    lease_s: int
    visit_s: int


HeldShard = sa.Row[Any]
"""A row of ``shard`` whose worker asks."""


class WorkerRow(NamedTuple):
    """A worker of a tree."""

    id: int
    tree_id: int
    box_id: int


def find_round_s(verify_every_s: int) -> int:
    return max(1, min(_LONGEST_ROUND_S, verify_every_s // _ROUNDS))


def join(
    c: sa.Connection, box_id: int, offer: TreeOffer, *, limits: ShardLimits, now: int
) -> tuple[int, DiskTrust] | CallRefused:
    """
    Add a worker to a tree, and the tree if it is the first.

    Returns:
        The worker, and how surely its machine sees the right disk; or why it gets none, if that is a finding, which is
        recorded: it sees another folder or disk.

    Raises:
        CallRefused: it may not work on the tree, or reads it with other settings than the others.
    """
    _require_grant(c, box_id, offer.tree)
    tree_id = _ensure_tree(c, offer, now)
    try:
        _check_folder(c, tree_id, offer)
        trust = recognise_disk(c, tree_id, box_id, offer)
    except OtherDisk as error:
        return CallRefused(409, "other_tree", note_other_disk(c, tree_id, box_id, str(error), now))
    if trust is DiskTrust.DISK:
        right = finding.c.tree_id == tree_id, finding.c.box_id == box_id
        end_findings(c, "the machine sees the right disk again", now, *right)
    _check_settings(c, tree_id, box_id, offer, busy_since=now - 2 * limits.lease_s)
    values = {"tree_id": tree_id, "box_id": box_id, "began_at": now, "seen_at": now, "done_bytes": 0}
    made = c.execute(sa.insert(shard_worker).values(**values).returning(shard_worker.c.id))
    return made.scalar_one(), trust


def _require_grant(c: sa.Connection, box_id: int, tree: str) -> None:
    if not is_granted(load_grants(c, box_id).trees, tree):
        name = c.execute(sa.select(box.c.name).where(box.c.id == box_id)).scalar_one()
        raise CallRefused(
            409,
            "not_allowed",
            f"{tree}: this box, {name}, may not work on this shared tree; if it shall, run on the hub:"
            f" integrity hub allow {name} --tree {shell_word(tree)}",
        )


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
    insert = sa.insert(shared_tree).values(verify_every_s=offer.verify_every_s, **values)
    tree_id = int(c.execute(insert.returning(shared_tree.c.id)).scalar_one())
    add_shard(c, tree_id, now)  # S3
    return tree_id


def add_shard(c: sa.Connection, tree_id: int, now: int, **values: object) -> int:
    """Add a shard that is due at once."""
    numbers = dict.fromkeys(_NUMBERS, 0)
    row = {"tree_id": tree_id, "created_at": now, "due_at": now, **numbers, **values}
    return int(c.execute(sa.insert(shard).values(row).returning(shard.c.id)).scalar_one())


def _check_folder(c: sa.Connection, tree_id: int, offer: TreeOffer) -> None:
    """Require the top folder that the other workers read; the first one says which it is."""
    inode = c.execute(sa.select(shared_tree.c.inode).where(shared_tree.c.id == tree_id)).scalar_one()
    if inode == ANY_INODE:
        c.execute(sa.update(shared_tree).where(shared_tree.c.id == tree_id).values(inode=offer.inode))
    elif inode != offer.inode:
        there = f", on {get_plain_name(offer.names[0])}" if offer.names else ""
        raise OtherDisk(
            f"the folder there is not the one that the other machines read (its inode is {offer.inode}{there}, theirs"
            f" {inode})"
        )


def _check_settings(c: sa.Connection, tree_id: int, box_id: int, offer: TreeOffer, *, busy_since: int) -> None:
    known = c.execute(sa.select(shared_tree).where(shared_tree.c.id == tree_id)).one()
    if known.settings == _spell(offer):
        return
    others = sa.select(shard_worker.c.id).where(
        shard_worker.c.tree_id == tree_id, shard_worker.c.box_id != box_id, shard_worker.c.seen_at > busy_since
    )
    if c.execute(others.limit(1)).first() is not None:
        raise CallRefused(
            409,
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
    """Return a worker of a box. CallRefused: it has none of this number, or may not work on the tree any more."""
    columns = shard_worker.c.id, shard_worker.c.tree_id, shard_worker.c.box_id, shared_tree.c.name
    workers = sa.select(*columns).join(shared_tree, shared_tree.c.id == shard_worker.c.tree_id)
    row = c.execute(workers.where(shard_worker.c.id == number, shard_worker.c.box_id == box_id)).first()
    if row is None:
        raise CallRefused(409, "not_yours", "the hub does not know this worker (any more); it must come again")
    _require_grant(c, box_id, row.name)
    return WorkerRow(*row[:3])


def renew(c: sa.Connection, worker: WorkerRow, done_bytes: int, now: int) -> None:
    values = {"seen_at": now, "done_bytes": done_bytes}
    c.execute(sa.update(shard_worker).where(shard_worker.c.id == worker.id).values(values))
    c.execute(sa.update(box).where(box.c.id == worker.box_id).values(worked_at=now))


def get_held(c: sa.Connection, worker: WorkerRow, job: int, *, locks: bool = False) -> HeldShard:
    """Return the shard that a worker holds, or raise CallRefused. ``locks``: its row, until the transaction ends."""
    query = sa.select(shard).where(shard.c.id == job, shard.c.worker_id == worker.id)
    row = c.execute(query.with_for_update() if locks else query).first()
    if row is None:
        raise CallRefused(409, "not_yours", "the lease of this shard was lost: another worker has it, or will")
    return row


def take(
    c: sa.Connection,
    worker: WorkerRow,
    folder: bytes | None = None,
    *,
    limits: ShardLimits,
    may_retry: bool,
    now: int,
) -> ShardTask | str | None:
    """
    Give a worker the shard that it has, or else the most urgent one of its tree.

    Args:
        folder: for a command: give it the shard of this folder, whenever it is due.
        may_retry: False while every worker may look silent because the hub was away.

    Returns:
        The shard; the name of the box that has the one of the folder; or None: nothing is due.

    Raises:
        CallRefused: the tree has no shard of the folder yet.
    """
    renew(c, worker, 0, now)
    if may_retry:
        _end_leases(c, worker.tree_id, limits, now)
    wanted = _select_due(worker.tree_id, now) if folder is None else _find_shard(c, worker.tree_id, folder)
    hold = sa.update(shard).where(shard.c.id == wanted, shard.c.worker_id.is_(None))
    held = c.execute(sa.select(shard.c.id).where(shard.c.worker_id == worker.id)).scalar()
    shard_id = held or c.execute(hold.values(worker_id=worker.id, wanted_until=0).returning(shard.c.id)).scalar()
    if shard_id is not None:
        if folder is None and is_surveyed(c, worker.tree_id):
            _begin_round(c, shard_id, now)
        return _describe(c, worker.tree_id, shard_id, limits, now)
    if folder is None:
        return None
    c.execute(sa.update(shard).where(shard.c.id == wanted).values(wanted_until=now + _WANTED_S))
    holder = sa.select(box.c.name).join(shard_worker, shard_worker.c.box_id == box.c.id)
    holder = holder.join(shard, shard.c.worker_id == shard_worker.c.id).where(shard.c.id == wanted)
    return str(c.execute(holder).scalar_one())


def _select_due(tree_id: int, now: int) -> sa.ScalarSelect[int]:
    """Select the most urgent shard that nobody holds, and no command waits for."""
    is_free = shard.c.tree_id == tree_id, shard.c.worker_id.is_(None), shard.c.wanted_until <= now
    order = shard.c.due_at, sa.func.coalesce(shard.c.visited_at, 0), shard.c.id
    first = sa.select(shard.c.id).where(*is_free, shard.c.due_at <= now).order_by(*order).limit(1)
    return first.with_for_update(skip_locked=True).scalar_subquery()


def count_parts(c: sa.Connection, worker: WorkerRow, *, limits: ShardLimits, now: int) -> TreeRest:
    """Return what is left of a tree for a worker that got nothing: who lists or reads it, and when a part is due."""
    if not is_surveyed(c, worker.tree_id):
        return TreeRest(is_surveyed=False, parts=0, taken=0, next_due_at=None)
    mine = shard.c.tree_id == worker.tree_id
    held = sa.select(shard.c.id).join(shard_worker, shard_worker.c.id == shard.c.worker_id)
    taken = c.execute(held.where(mine, shard_worker.c.seen_at >= now - limits.lease_s)).scalars().all()
    parts = c.execute(sa.select(sa.func.count()).select_from(shard).where(mine)).scalar_one()
    waiting = sa.select(sa.func.min(shard.c.due_at)).where(mine, shard.c.id.not_in(taken))
    return TreeRest(is_surveyed=True, parts=parts, taken=len(taken), next_due_at=c.execute(waiting).scalar())


def look_at_folder(c: sa.Connection, worker: WorkerRow, folder: bytes, *, limits: ShardLimits, now: int) -> ShardTask:
    """Return the shard of a folder, whoever has it, for a command that only reads. CallRefused: there is none yet."""
    return _describe(c, worker.tree_id, _find_shard(c, worker.tree_id, folder), limits, now)


def _find_shard(c: sa.Connection, tree_id: int, folder: bytes) -> int:
    above = [folder, *find_parents(folder)]
    found = sa.select(shard_folder.c.shard_id).where(shard_folder.c.tree_id == tree_id, shard_folder.c.path.in_(above))
    number = c.execute(found.order_by(sa.func.length(shard_folder.c.path).desc()).limit(1)).scalar()
    if number is None:
        raise CallRefused(
            409, "no_shard", "the tree was not surveyed yet, so it has no records; a worker does that first"
        )
    return int(number)


def is_surveyed(c: sa.Connection, tree_id: int) -> bool:
    return c.execute(sa.select(shared_tree.c.surveyed_at).where(shared_tree.c.id == tree_id)).scalar() is not None


def _end_leases(c: sa.Connection, tree_id: int, limits: ShardLimits, now: int) -> None:
    """Take the shards of silent workers back."""
    mine, name = shard.c.tree_id == tree_id, sa.select(box.c.name).where(box.c.id == shard_worker.c.box_id)
    lost = sa.select(shard.c.id, name.scalar_subquery().label("box")).join(
        shard_worker, shard_worker.c.id == shard.c.worker_id
    )
    is_silent = shard_worker.c.seen_at < now - limits.lease_s
    for row in c.execute(lost.where(mine, is_silent).with_for_update(of=shard, skip_locked=True)).all():
        c.execute(sa.update(shard).where(shard.c.id == row.id).values(worker_id=None))
        if is_surveyed(c, tree_id):
            outcome = "silent for longer than its lease: another worker gets the shard"
            note(c, tree_id, row.id, "shard_lost", outcome, who=row.box, now=now)


def note(c: sa.Connection, tree_id: int, shard_id: int | None, verb: str, outcome: str, *, who: str, now: int) -> None:
    """
    Write what happened to a shard into the audit log.

    Args:
        shard_id: None: it happened to the tree.
        who: name of the box.
    """
    name = c.execute(sa.select(shared_tree.c.name).where(shared_tree.c.id == tree_id)).scalar_one()
    subject = name if shard_id is None else f"{name}: shard {shard_id}"
    audit.record_box(c, who, "", now, verb, subject, outcome)


def note_work(c: sa.Connection, worker: WorkerRow, shard_id: int | None, verb: str, outcome: str, now: int) -> None:
    who = c.execute(sa.select(box.c.name).where(box.c.id == worker.box_id)).scalar_one()
    note(c, worker.tree_id, shard_id, verb, outcome, who=who, now=now)


def _begin_round(c: sa.Connection, shard_id: int, now: int) -> None:
    goes_on = sa.and_(shard.c.round_at.is_not(None), shard.c.is_complete == 0)
    round_at = sa.case((goes_on, shard.c.round_at), else_=now)
    c.execute(sa.update(shard).where(shard.c.id == shard_id).values(round_at=round_at, is_complete=0))


def _describe(c: sa.Connection, tree_id: int, shard_id: int, limits: ShardLimits, now: int) -> ShardTask:
    tree = c.execute(sa.select(shared_tree).where(shared_tree.c.id == tree_id)).one()
    version, digest, round_at, own, left_out = 0, None, now, [b""], list[bytes]()
    landmarks, requires_names = list[bytes](), True
    every_s = find_round_s(tree.verify_every_s)
    if tree.surveyed_at is not None:
        row = c.execute(sa.select(shard).where(shard.c.id == shard_id)).one()
        version, digest, round_at = row.version, row.digest, now if row.round_at is None else row.round_at
        own, left_out = find_folders(c, shard_id)
        landmarks = _find_landmarks(c, tree_id, shard_id)
        requires_names = tree.trusted_at is None or max(row.visited_at or 0, row.created_at) > tree.trusted_at
    return ShardTask(
        job=shard_id,
        shard=None if tree.surveyed_at is None else shard_id,
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
        landmarks=tuple(map(to_text, landmarks)),
        requires_names=requires_names,
    )


def _find_landmarks(c: sa.Connection, tree_id: int, shard_id: int) -> list[bytes]:
    """Return a folder of each of some other shards: those that are due last, most of which were read a moment ago."""
    others = sa.select(shard.c.id).where(shard.c.tree_id == tree_id, shard.c.id != shard_id)
    some = others.order_by(shard.c.due_at.desc()).limit(_LANDMARKS).subquery()
    owner, path = shard_folder.c.shard_id, shard_folder.c.path
    first = sa.select(path).where(owner == some.c.id, path != b"").order_by(path).limit(1).lateral()
    return sorted(map(bytes, c.execute(sa.select(first.c.path).select_from(some.join(first, sa.true()))).scalars()))


def find_folders(c: sa.Connection, shard_id: int) -> tuple[list[bytes], list[bytes]]:
    """Return the folders of a shard, and those of other shards that lie directly in what it covers."""
    owner, above = shard_folder.c.shard_id, shard_folder.c.above_id
    own = c.execute(sa.select(shard_folder.c.path).where(owner == shard_id)).scalars()
    left_out = c.execute(sa.select(shard_folder.c.path).where(above == shard_id, owner != shard_id)).scalars()
    return sorted(map(bytes, own)), sorted(map(bytes, left_out))


def find_most_packed(held: HeldShard, limits: ShardLimits) -> int:
    """Return how many bytes a worker may send for a shard: a catalog, packed, of the files that it can have."""
    if held.version == 0:  # the survey, or a shard that may be one folder of any size
        return MOST_PACKED_BYTES
    files, size = max(limits.size.files, held.file_count), max(limits.size.bytes, held.byte_count)
    packed_bytes: int = _PACKED_BYTES + files * _PACKED_FILE_BYTES + size // _BLOCK_BYTES * _PACKED_BLOCK_BYTES
    return min(MOST_PACKED_BYTES, packed_bytes)


def release(c: sa.Connection, worker: WorkerRow, job: int, trouble: str | None, *, now: int, retry_s: int) -> None:
    """
    Take a shard back from a worker that can't read it, or changed nothing.

    Args:
        trouble: why, for people; None: it changed nothing, and the shard is due when it was.
        retry_s: with a trouble, the shard is due again so many seconds later.

    Raises:
        CallRefused: the worker does not have it.
    """
    held = get_held(c, worker, job, locks=True)
    values: dict[str, Any] = {"worker_id": None}
    if trouble:
        values["due_at"] = now + retry_s
        if is_surveyed(c, worker.tree_id):
            values["trouble"] = trouble
            note_work(c, worker, held.id, "shard_given_back", trouble, now)
    c.execute(sa.update(shard).where(shard.c.id == held.id).values(values))
