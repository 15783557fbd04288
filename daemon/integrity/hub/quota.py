"""
How much of the database one box may fill, in bytes; more is refused, and is a finding of the hub (``box_checks.py``).

Q1  ``box_usage.stored_bytes`` is never less than what the rows of a box take: each call adds what it may add, before it
    stores anything, and nothing is subtracted. When it reaches the limit the rows are counted, at most every ten
    minutes.
Q2  What a row costs beyond its bytes is part of its size: a root is a row of several pages, its set is voted on, and a
    stream leaves an entry in the audit log.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from integrity.errors import CallRefused
from integrity.hub.database import HubDatabase, add_new
from integrity.hub.forgetting import forget_unused
from integrity.hub.reported import AnnouncedRoot, SentFolder, parent_of
from integrity.hub.schema import (
    box_event,
    box_finding,
    box_stream,
    box_usage,
    file,
    file_part,
    folder,
    former_file,
    member,
    member_folder,
    replica_set,
    shard_worker,
)
from integrity.units import format_size

_ROW_BYTES = 160
"""Of a row of any table, with its indexes and without texts. PostgreSQL takes 210 for a file with a usual name."""

_FOLDER_BYTES = 2 * _ROW_BYTES
_ROOT_BYTES = 1 << 20
WORKER_BYTES = 1 << 20
"""Of a worker, and of the tree that it may be the first one of."""

_STREAM_BYTES = 64 << 10
_MESSAGE_BYTES = 512
_ESCAPED_TIMES = 3
"""JSON is stored in ASCII, where two bytes of UTF-8 are six."""

_COUNTED_EVERY_S = 600


class BoxQuota:
    """Charges boxes for what they store, each up to the limit."""

    def __init__(self, database: HubDatabase, limit_bytes: int, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._limit_bytes = limit_bytes
        self._clock = clock
        self._counting: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)

    def charge(self, box_id: int, size_bytes: int) -> None:
        """Charge a box for what it is about to store (Q1), or raise CallRefused if it has stored all that it may."""
        if not size_bytes or self._add(box_id, size_bytes):
            return
        with self._counting[box_id]:  # other calls of the box wait for the result
            if self._may_count(box_id):
                self._count(box_id)
            is_charged = self._add(box_id, size_bytes)
        if not is_charged:
            raise CallRefused(
                507,
                "box_limit",
                f"this box has stored all that it may in the database of the hub, {format_size(self._limit_bytes)};"
                " nothing more is taken from it. If it needs more, the owner of the hub raises box_limit in"
                " [hub_server]; else `integrity hub revoke --forget BOX` there removes it",
            )

    def _add(self, box_id: int, size_bytes: int) -> bool:
        usage = box_usage.c
        change = sa.update(box_usage).where(usage.box_id == box_id, usage.stored_bytes < self._limit_bytes)
        with self._database.transaction() as c:
            return c.execute(change.values(stored_bytes=usage.stored_bytes + size_bytes)).rowcount == 1

    def _may_count(self, box_id: int) -> bool:
        """Return whether the rows of a box may be counted now: by one thread, and not all the time."""
        now, usage = int(self._clock()), box_usage.c
        is_due = sa.or_(usage.counted_at.is_(None), usage.counted_at <= now - _COUNTED_EVERY_S, usage.counted_at > now)
        with self._database.transaction() as c:
            # A box that the hub has from an older version has no row yet. It is not counted: its rows are.
            add_new(c, box_usage, [{"box_id": box_id, "stored_bytes": self._limit_bytes}])
            change = sa.update(box_usage).where(usage.box_id == box_id, is_due)
            return c.execute(change.values(counted_at=now)).rowcount == 1

    def _count(self, box_id: int) -> None:
        """Count the rows of a box, without those that nobody needs."""
        forget_unused(self._database, box_id)
        with self._database.read() as c:
            before = c.execute(sa.select(box_usage.c.stored_bytes).where(box_usage.c.box_id == box_id)).scalar_one()
            counted = count_stored(c, box_id)
        is_full = counted >= self._limit_bytes
        values = {"stored_bytes": box_usage.c.stored_bytes + (counted - before)}  # other calls have added to it since
        full_since = sa.func.coalesce(box_usage.c.full_since, int(self._clock())) if is_full else None
        with self._database.transaction() as c:
            change = sa.update(box_usage).where(box_usage.c.box_id == box_id)
            c.execute(change.values(**values, full_since=full_since))


def count_stored(c: sa.Connection, box_id: int) -> int:
    return sum(int(c.execute(query).scalar() or 0) for query in _find_sizes(box_id))


def _find_sizes(box_id: int) -> Iterator[sa.Select[Any]]:
    mine = sa.select(member.c.id).where(member.c.box_id == box_id)
    yield sa.select(sa.func.count() * _ROOT_BYTES).where(member.c.box_id == box_id)
    yield sa.select(sa.func.count() * _STREAM_BYTES).where(box_stream.c.box_id == box_id)
    yield sa.select(sa.func.count() * WORKER_BYTES).where(shard_worker.c.box_id == box_id)
    for table in (box_finding, box_event):
        yield sa.select(sa.func.sum(_MESSAGE_BYTES + sa.func.length(table.c.body))).where(table.c.box_id == box_id)
    for table in (file, file_part, former_file):
        yield sa.select(sa.func.sum(_ROW_BYTES + sa.func.length(table.c.name))).where(table.c.member_id.in_(mine))
    size = _FOLDER_BYTES + 2 * sa.func.length(folder.c.path)
    yield sa.select(sa.func.sum(size)).join_from(member_folder, folder).where(member_folder.c.member_id.in_(mine))


def size_of_roots(c: sa.Connection, box_id: int, roots: Sequence[AnnouncedRoot]) -> int:
    """Return what the roots of a heartbeat add: those that are new, or are in another set than before."""
    query = sa.select(member.c.root_id, replica_set.c.name).outerjoin_from(member, replica_set)
    known = {row.root_id: row.name for row in c.execute(query.where(member.c.box_id == box_id))}
    new = [root for root in roots if root.root_id not in known or known[root.root_id] != root.set_name]
    return _ROOT_BYTES * len(new)


def size_of_messages(first: int, count: int, body_bytes: int) -> int:
    """Return what messages add; with the first one a stream begins."""
    return (_STREAM_BYTES if first == 1 else 0) + _MESSAGE_BYTES * count + _ESCAPED_TIMES * body_bytes


def size_of_folders(sent: Iterable[SentFolder]) -> int:
    """Return what folders add: a row of the folder that each lies in, of itself, and of each file, old or new."""
    size = 0
    for each in sent:
        size += 2 * _FOLDER_BYTES + 2 * len(each.path) + 2 * len(parent_of(each.path) or b"")
        size += sum(_ROW_BYTES + len(entry.name) for entry in each.files)
    return size
