"""
What a worker brings back: the survey of a tree, which is cut into shards, and new versions of the catalogs of shards.

V1  A catalog is accepted only from the worker that holds the shard, and only if it began with the stored version:
    compare and swap. A worker that lost its lease, or one of two that work on the same version, changes nothing.
V2  The version, what is known of the shard, its findings and its lease change in one transaction.
V3  A worker that did not hear the answer may say the same again.
C1  Each folder belongs to exactly one shard: the one with the deepest of its folders above it.
C2  A shard is at most as large as the limit, unless the files of one folder alone are more.
C3  The first shard of a cut begins where the cut began, so it finds the folders that are made there later.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import sqlalchemy as sa
import zstandard
from msgspec import Struct

from integrity.errors import CallRefused, ProtocolError, printable
from integrity.files.excludes import TreeScope, find_parents
from integrity.hub.reported import LONGEST_INDEXED, write_body
from integrity.hub.schema import shard, shard_finding, shard_folder, shared_tree
from integrity.hub.shards.workers import (
    ShardLimits,
    WorkerRow,
    add_shard,
    find_folders,
    find_round_s,
    get_held,
    is_surveyed,
    note_work,
)
from integrity.jobs.shards.messages import NOTHING, FolderSize, Size, VisitResult, read_survey_line, restrict, to_path
from integrity.reporting.forms import Number, read_form
from integrity.reporting.protocol import JsonObject


def cut(folders: Iterable[FolderSize], tops: Iterable[bytes], limit: Size) -> list[list[bytes]]:
    """
    Return the folders of each shard.

    From the inside out, the folders in a folder are packed into shards in the order of their names, until what remains
    of it fits into one together with the files of its own.

    Args:
        folders: of a survey; each below one of ``tops``, or one of them.
        tops: where the cut begins: the top of the tree, or the folders of a shard that grew.
        limit: the size of a shard.

    Returns:
        For each shard its folders, in the order of their names. Those of the first one are ``tops``, as many as fit.
    """
    cutter = _Cutter(folders, frozenset(tops), limit)
    remaining = [FolderSize(top, cutter.remain(top)) for top in sorted(tops)]
    return [*([one.path for one in bundle] for bundle in _pack(remaining, limit)), *cutter.shards]


class _Cutter:
    """The state of one cut; ``shards``: those that were cut off."""

    def __init__(self, folders: Iterable[FolderSize], tops: frozenset[bytes], limit: Size) -> None:
        self.shards: list[list[bytes]] = []
        self._limit = limit
        self._left: defaultdict[bytes, Size] = defaultdict(lambda: NOTHING, folders)
        children: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for path in [*self._left]:
            while path not in tops:
                inner, path = path, path.rpartition(b"/")[0]
                children[path].add(inner)
        self._children = {path: sorted(some) for path, some in children.items()}

    def remain(self, top: bytes) -> Size:
        """Cut what lies below a folder; return the size of what remains with it."""
        for path in self._inside_out(top):
            self._left[path] = self._cut_off(path)
        return self._left[top]

    def _inside_out(self, top: bytes) -> Iterator[bytes]:
        found, pending = list[bytes](), [top]
        while pending:
            path = pending.pop()
            found.append(path)
            pending += self._children.get(path, ())
        return reversed(found)

    def _cut_off(self, path: bytes) -> Size:
        """Make shards of the folders in a folder until the rest fits; return its size."""
        own = self._left[path]
        children = [FolderSize(child, self._left[child]) for child in self._children.get(path, ())]
        if (total := _sum(children, own)).fits(self._limit):
            return total
        bundles = _pack(children, self._limit)
        rest = bundles.pop() if bundles and _sum(bundles[-1], own).fits(self._limit) else []
        self.shards += ([one.path for one in bundle] for bundle in bundles)
        return _sum(rest, own)


def _sum(folders: Iterable[FolderSize], size: Size) -> Size:
    return sum((one.size for one in folders), size)


def _pack(folders: Iterable[FolderSize], limit: Size) -> list[list[FolderSize]]:
    """Put folders together in their order, as many as fit."""
    bundles: list[list[FolderSize]] = []
    size = NOTHING
    for one in folders:
        if bundles and (size + one.size).fits(limit):
            bundles[-1].append(one)
            size += one.size
        else:
            bundles.append([one])
            size = one.size
    return bundles


_LONGEST_LINE = 64 << 10
_MOST_FOLDERS = 5_000_000
_MOST_SURVEY_BYTES = 512 << 20
_WINDOW_BYTES = 8 << 20
_LONGEST_KIND = 100


def accept_survey(
    c: sa.Connection, worker: WorkerRow, job: int, survey: Sequence[FolderSize], *, limits: ShardLimits, now: int
) -> None:
    """Cut a tree that a worker has surveyed, or raise CallRefused if the worker was not asked to do that."""
    surveyed_at = c.execute(
        sa.select(shared_tree.c.surveyed_at).where(shared_tree.c.id == worker.tree_id).with_for_update()
    ).scalar_one()
    if surveyed_at is not None:
        return  # V3
    first = get_held(c, worker, job).id
    c.execute(sa.update(shard).where(shard.c.id == first).values(created_at=now, due_at=now, worker_id=None))
    shards = cut(survey, [b""], limits.size)
    numbers = [first, *(add_shard(c, worker.tree_id, now) for _ in shards[1:])]
    _give_folders(c, worker.tree_id, dict(zip(numbers, shards, strict=True)), {})
    note_work(c, worker, None, "tree_cut", f"{len(shards):,} shards", now)
    c.execute(sa.update(shared_tree).where(shared_tree.c.id == worker.tree_id).values(surveyed_at=now))


def _give_folders(
    c: sa.Connection, tree_id: int, shards: Mapping[int, Sequence[bytes]], known: Mapping[bytes, int | None]
) -> None:
    """
    Give folders to new shards.

    Args:
        shards: the folders of each.
        known: the folders that the shard has which is cut, and (None) those of others that lie in what it covers.

    Raises:
        ProtocolError: the path of a folder is too long.
    """
    given = {path: number for number, folders in shards.items() for path in folders}
    if any(len(path) > LONGEST_INDEXED for path in given):
        raise ProtocolError("a folder has a path that is too long for the hub")
    owners = {**known, **given}
    new = [
        {"tree_id": tree_id, "path": path, "shard_id": number, "above_id": _find_above(owners, path)}
        for path, number in given.items()
        if path not in known
    ]
    if new:
        c.execute(sa.insert(shard_folder), new)
    for path in known:
        changes = {"shard_id": given.get(path), "above_id": _find_above(owners, path)}
        values = {name: value for name, value in changes.items() if value is not None}
        if values:
            is_it = shard_folder.c.tree_id == tree_id, shard_folder.c.path == path
            c.execute(sa.update(shard_folder).where(*is_it).values(**values))


def _find_above(owners: Mapping[bytes, int | None], path: bytes) -> int | None:
    """Return which shard has the deepest folder above a path; None: it is as before, or the path is the top."""
    return next((owners[one] for one in find_parents(path) if one in owners), None)


def accept_visit(
    c: sa.Connection,
    worker: WorkerRow,
    job: int,
    result: VisitResult,
    findings: Sequence[JsonObject],
    survey: Sequence[FolderSize] | None,
    *,
    limits: ShardLimits,
    now: int,
) -> None:
    """
    Take over the new version of a shard's catalog; cut the shard if it grew too large.

    Args:
        findings: the open findings in the catalog, as objects of ``--json``.
        survey: of the shard, if it is too large.

    Raises:
        CallRefused: the worker lost the shard, or another one was faster.
    """
    if was_accepted(c, worker, job, result):
        return
    row = get_held(c, worker, job, locks=True)
    if not is_surveyed(c, worker.tree_id):
        raise CallRefused(409, "not_yours", "this job is the survey, no shard")
    if row.version != result.version:
        raise CallRefused(
            409, "changed", f"the shard has version {row.version} now; this work began with {result.version}"
        )
    verify_every_s = c.execute(
        sa.select(shared_tree.c.verify_every_s).where(shared_tree.c.id == worker.tree_id)
    ).scalar_one()
    shard_id, mine = row.id, sa.update(shard).where(shard.c.id == row.id)
    catalog = {"version": result.version + 1, "digest": result.digest, "former_digest": row.digest}
    numbers = {"file_count": result.files, "byte_count": result.bytes, "apart_bytes": result.apart_bytes}
    work: dict[str, object] = {"stored_by": worker.id, "worker_id": None, "trouble": None}
    if result.is_reading:
        due_at = row.round_at + find_round_s(verify_every_s) if result.is_complete else now
        work |= {"is_complete": int(result.is_complete), "visited_at": now, "due_at": due_at}
        work |= {"read_bytes": result.read_bytes, "read_ms": result.read_ms}
    c.execute(mine.values({**catalog, **numbers, **work, "oldest_at": result.oldest_at}))
    note_work(c, worker, shard_id, "shard_stored", f"version {result.version + 1:,}", now)
    _replace_findings(c, shard_id, findings)
    if survey is not None and (parts := _cut_again(c, worker.tree_id, shard_id, survey, limits.size, now)):
        c.execute(mine.values(is_complete=0, due_at=now))  # the next visit drops what the others have
        note_work(c, worker, shard_id, "shard_cut", f"{parts:,} more shards", now)


def was_accepted(c: sa.Connection, worker: WorkerRow, job: int, result: VisitResult) -> bool:
    """Return whether the worker says again what was accepted already (V3)."""
    same = shard.c.id == job, shard.c.tree_id == worker.tree_id, shard.c.stored_by == worker.id
    query = sa.select(shard.c.id).where(*same, shard.c.version == result.version + 1, shard.c.digest == result.digest)
    return c.execute(query).first() is not None


def _replace_findings(c: sa.Connection, shard_id: int, findings: Sequence[JsonObject]) -> None:
    c.execute(sa.delete(shard_finding).where(shard_finding.c.shard_id == shard_id))
    rows = [_read_finding(shard_id, one) for one in findings]
    if rows:
        c.execute(sa.insert(shard_finding), rows)


class ShardFinding(Struct, frozen=True):
    """An open finding in the catalog of a shard; see the columns of ``schema.shard_finding``."""

    number: Number
    path: str
    kind: str
    opened_at: Number
    body: dict[str, object]


def _read_finding(shard_id: int, value: JsonObject) -> dict[str, object]:
    one = read_form(ShardFinding, value)
    place = to_path(one.path)
    return {
        "shard_id": shard_id,
        "number": one.number,
        "path": place if len(place) <= LONGEST_INDEXED else b"",
        "kind": printable(one.kind[:_LONGEST_KIND]),
        "opened_at": one.opened_at,
        "body": write_body(one.body),
    }


def _cut_again(
    c: sa.Connection, tree_id: int, shard_id: int, survey: Sequence[FolderSize], limit: Size, now: int
) -> int:
    """Give folders of a shard that grew to new shards, which begin with its catalog; return how many. 0: none can."""
    own, left_out = find_folders(c, shard_id)
    _, *parts = cut(restrict(survey, TreeScope(own, left_out)), own, limit)
    row = c.execute(sa.select(shard).where(shard.c.id == shard_id)).one()
    values = {"version": row.version, "digest": row.digest, "oldest_at": row.oldest_at}
    shards = {add_shard(c, tree_id, now, **values): folders for folders in parts}
    _give_folders(c, tree_id, shards, {**dict.fromkeys(left_out), **dict.fromkeys(own, shard_id)})
    for number in shards:
        _move_findings(c, shard_id, number, TreeScope(*find_folders(c, number)))
    return len(parts)


def _move_findings(c: sa.Connection, from_id: int, to_id: int, scope: TreeScope) -> None:
    numbers = c.execute(
        sa.select(shard_finding.c.number, shard_finding.c.path).where(shard_finding.c.shard_id == from_id)
    )
    moved = [number for number, path in numbers if path and scope.covers_name(bytes(path))]
    change = sa.update(shard_finding).where(shard_finding.c.shard_id == from_id, shard_finding.c.number.in_(moved))
    c.execute(change.values(shard_id=to_id))


def read_survey(
    path: bytes, *, most_lines: int = _MOST_FOLDERS, most_bytes: int = _MOST_SURVEY_BYTES
) -> Iterator[FolderSize]:
    """Read a stored survey. ProtocolError: it is none, or of a size that no tree has."""
    with open(path, "rb") as file:
        unpacked = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).stream_reader(file)
        lines = io.BufferedReader(unpacked)
        try:
            for _ in range(most_lines):
                line = lines.readline(_LONGEST_LINE)
                if not line:
                    return
                most_bytes -= len(line)
                if most_bytes < 0:
                    raise ProtocolError("a survey of too many or too long folders")
                yield read_survey_line(json.loads(line))
        except (ValueError, RecursionError, zstandard.ZstdError) as error:
            raise ProtocolError(f"not a survey: {error}") from error
    raise ProtocolError(f"a survey of more than {most_lines:,} folders")
