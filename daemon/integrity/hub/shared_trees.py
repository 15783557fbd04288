"""The shared trees as pages show them: their shards page by page, and the workers that read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.schema import shard, shard_folder, shard_worker, shared_tree

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
    """
    A worker of a tree; see the columns of ``schema.shard_worker``.

    ``box_name``: where it runs; ``shard_id``: the shard that it holds; None: none, or the survey.
    """

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
