"""
The shared trees as pages show them: their promise, their shards page by page, and the workers that read them.

The promise is that every byte is read within ``verify_every``: whether it is kept, and what would help.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.schema import shard, shard_folder, shard_worker, shared_tree
from integrity.units import format_duration, format_size
from integrity.words.text import JsonObject, iso_time

_DAY_S = 86_400
_CLOCK_SLACK_S = 3600


@dataclass(frozen=True, slots=True)
class TreePromise:
    """
    How far a tree is verified.

    Attributes:
        unread_shards: without any catalog yet.
        overdue_shards: with a file that was not verified in time, as far as its time can be true.
        future_shards: of these, with a time to come, which proves nothing.
        oldest_at: when the file was verified that waits longest; None: no file.
        workers: that called within the lease.
        boxes: that worked within the last day.
        measured_bytes_per_s: of one worker; None: not known yet.
    """

    tree_id: int
    name: str
    verify_every_s: int
    is_surveyed: bool
    shards: int
    unread_shards: int
    overdue_shards: int
    future_shards: int
    files: int
    bytes: int
    oldest_at: int | None
    workers: int
    boxes: int
    needed_bytes_per_s: float
    measured_bytes_per_s: float | None

    @property
    def is_too_slow(self) -> bool:
        """Whether the boxes could not keep the promise even if they read day and night."""
        rate = self.measured_bytes_per_s
        return rate is not None and self.boxes > 0 and rate * self.boxes < self.needed_bytes_per_s

    @property
    def is_kept(self) -> bool:
        """Whether everything was verified in time, and will be as far as is known."""
        return not self.overdue_shards and not self.is_too_slow

    def describe(self, now: int) -> str:
        every = format_duration(self.verify_every_s)
        if not self.is_surveyed:
            return "Not surveyed yet: no worker has listed its folders."
        if self.overdue_shards:
            late = f"{self.overdue_shards:,} of {self.shards:,} shards were not verified within {every}"
            head = f"{late}{self._tell_why(now)}."
        elif self.is_too_slow:
            head = f"Will not be verified within {every}."
        else:
            head = f"All files were verified within the last {every}."
        return f"{head} {self._describe_speed()}".strip()

    def _tell_why(self, now: int) -> str:
        if self.future_shards:
            return f"; the times of {self.future_shards:,} lie in the future, so a machine had a wrong clock"
        return "" if self.oldest_at is None else f"; the oldest verification is {_days(now - self.oldest_at)} old"

    def _describe_speed(self) -> str:
        rate = self.measured_bytes_per_s
        if not self.workers:
            return "No worker reads it now."
        if rate is None:
            return f"Workers: {self.workers}."
        needed, can = format_size(int(self.needed_bytes_per_s)), format_size(int(rate * self.boxes))
        boxes = "one box manages" if self.boxes == 1 else f"{self.boxes:,} boxes together manage"
        text = f"It needs {needed}/s; {boxes} {can}/s"
        if not self.is_too_slow:
            return f"{text}."
        missing = max(1, int(-(-(self.needed_bytes_per_s - rate * self.boxes) // (rate or 1.0))))
        return f"{text}: add {missing} more, or a longer verify_every."


def _days(seconds: int) -> str:
    days = max(0, seconds) // _DAY_S
    return "1 day" if days == 1 else f"{days:,} days"


def find_promises(c: sa.Connection, lease_s: int, now: int, *where: sa.ColumnElement[bool]) -> list[TreePromise]:
    return [
        _find_promise(c, tree, lease_s, now)
        for tree in c.execute(sa.select(shared_tree).where(*where).order_by(shared_tree.c.name)).all()
    ]


def _find_promise(c: sa.Connection, tree: sa.Row[tuple[object, ...]], lease_s: int, now: int) -> TreePromise:
    mine = sa.false() if tree.surveyed_at is None else shard.c.tree_id == tree.id
    is_late = sa.func.coalesce(shard.c.oldest_at, now) < now - tree.verify_every_s
    is_future = shard.c.oldest_at > now + _CLOCK_SLACK_S
    is_unread = shard.c.version == 0
    is_never = sa.and_(is_unread, shard.c.created_at < now - tree.verify_every_s)
    count = sa.func.count()
    sums = c.execute(
        sa.select(
            count.label("shards"),
            count.filter(is_unread).label("unread"),
            count.filter(sa.or_(is_late, is_never, is_future)).label("overdue"),
            count.filter(is_future).label("future"),
            *(sa.func.coalesce(sa.func.sum(shard.c[name]), 0).label(name) for name in _SUMMED),
            sa.func.min(shard.c.oldest_at).label("oldest_at"),
        ).where(mine)
    ).one()
    here = shard_worker.c.tree_id == tree.id
    seen = [shard_worker.c.seen_at > now - within_s for within_s in (lease_s, _DAY_S)]
    counted = count.filter(seen[0]), sa.func.count(shard_worker.c.box_id.distinct()).filter(seen[1])
    workers, boxes = c.execute(sa.select(*counted).where(here)).one()
    measured = int(sums.read_bytes) * 1000 / int(sums.read_ms) if sums.read_ms and sums.read_bytes else None
    readable = int(sums.byte_count) - int(sums.apart_bytes)
    return TreePromise(
        tree_id=tree.id,
        name=tree.name,
        verify_every_s=tree.verify_every_s,
        is_surveyed=tree.surveyed_at is not None,
        shards=sums.shards,
        unread_shards=sums.unread,
        overdue_shards=sums.overdue,
        future_shards=sums.future,
        files=int(sums.file_count),
        bytes=int(sums.byte_count),
        oldest_at=sums.oldest_at,
        workers=workers,
        boxes=boxes,
        needed_bytes_per_s=readable / tree.verify_every_s,
        measured_bytes_per_s=measured,
    )


_SUMMED = "file_count", "byte_count", "apart_bytes", "read_bytes", "read_ms"


_FOLDERS_SHOWN = 3
_WORKERS_SHOWN = 1000


class ShardFolders(NamedTuple):
    """The folders of a shard: the first ones, and how many there are."""

    first: tuple[bytes, ...]
    total: int


class ShardView(NamedTuple):
    """A shard; see the columns of ``schema.shard``. ``worker``: name of the box that has it; None: nobody."""

    id: int
    version: int
    file_count: int
    byte_count: int
    apart_bytes: int
    oldest_at: int | None
    visited_at: int | None
    due_at: int
    trouble: str | None
    worker: str | None
    folders: ShardFolders


class TreeWorker(NamedTuple):
    """A worker of a tree; see the columns of ``schema.shard_worker``. ``shard_id``: None: none, or the survey."""

    id: int
    box_name: str
    began_at: int
    seen_at: int
    shard_id: int | None
    done_bytes: int


def page_shards(c: sa.Connection, tree_id: int, *, after: int, limit: int) -> list[ShardView]:
    """Return shards of a tree in the order of their numbers: those with a larger number than ``after``."""
    columns = [shard.c[name] for name in ShardView._fields if name not in ("worker", "folders")]
    holder = shard_worker.c.id == shard.c.worker_id
    query = sa.select(*columns, schema.box.c.name).select_from(
        shard.outerjoin(shard_worker, holder).outerjoin(schema.box, schema.box.c.id == shard_worker.c.box_id)
    )
    is_cut = sa.exists().where(shared_tree.c.id == tree_id, shared_tree.c.surveyed_at.is_not(None))
    page = query.where(shard.c.tree_id == tree_id, shard.c.id > after, is_cut).order_by(shard.c.id).limit(limit)
    rows = c.execute(page).all()
    folders = _find_folders(c, [row.id for row in rows])
    return [ShardView(*(*row, folders[row.id])) for row in rows]  # type: ignore[call-arg]


def find_workers(c: sa.Connection, tree_id: int) -> list[TreeWorker]:
    """Return the workers of a tree, those that called last first; also those whose lease is over."""
    is_cut = shared_tree.c.surveyed_at.is_not(None)
    names = {"box_name": schema.box.c.name, "shard_id": sa.case((is_cut, shard.c.id))}
    columns = [names[name].label(name) if name in names else shard_worker.c[name] for name in TreeWorker._fields]
    query = (
        sa.select(*columns)
        .join(schema.box, schema.box.c.id == shard_worker.c.box_id)
        .join(shared_tree, shared_tree.c.id == shard_worker.c.tree_id)
        .outerjoin(shard, shard.c.worker_id == shard_worker.c.id)
        .where(shard_worker.c.tree_id == tree_id)
        .order_by(shard_worker.c.seen_at.desc(), shard_worker.c.id)
        .limit(_WORKERS_SHOWN)
    )
    return [TreeWorker(*row) for row in c.execute(query)]


def _find_folders(c: sa.Connection, ids: Collection[int]) -> defaultdict[int, ShardFolders]:
    shard_id, path = shard_folder.c.shard_id, shard_folder.c.path
    ranked = (
        sa.select(
            shard_id,
            path,
            sa.func.row_number().over(partition_by=shard_id, order_by=path).label("place"),
            sa.func.count().over(partition_by=shard_id).label("total"),
        )
        .where(shard_id.in_(ids))
        .subquery()
    )
    query = sa.select(ranked).where(ranked.c.place <= _FOLDERS_SHOWN).order_by(ranked.c.shard_id, ranked.c.place)
    found: defaultdict[int, ShardFolders] = defaultdict(lambda: ShardFolders((), 0))
    for row in c.execute(query):
        found[row.shard_id] = ShardFolders((*found[row.shard_id].first, bytes(row.path)), row.total)
    return found


def tree_object(promise: TreePromise, now: int) -> JsonObject:
    return {
        "name": promise.name,
        "sentence": promise.describe(now),
        "is_kept": promise.is_kept,
        "verify_every_s": promise.verify_every_s,
        "files": promise.files,
        "bytes": promise.bytes,
        "oldest_verified_at": iso_time(promise.oldest_at),
        "shards": promise.shards,
        "shards_unread": promise.unread_shards,
        "shards_overdue": promise.overdue_shards,
        "workers": promise.workers,
    }
