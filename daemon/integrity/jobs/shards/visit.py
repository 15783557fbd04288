"""
A visit of a shard: scan it, then read what is due, on the local copy of its catalog.

Decides how much a visit reads. A round of reading is much shorter than the promise; each reads an even share, so a
round that is late, because workers are few, makes up for it in the next one. A visit ends after a while even if the
round is not over, so that a worker that dies loses little.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from integrity.catalog import findings, roots
from integrity.catalog.coverage import coverage
from integrity.catalog.runs import find_reads
from integrity.jobs import runner
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.shards.local_copy import find_all_files
from integrity.jobs.shards.messages import FolderSize, Size, measure_files, summarize
from integrity.model import Finding, Job, Outcome

if TYPE_CHECKING:
    from integrity.catalog.coverage import Coverage
    from integrity.catalog.roots import RootRecord
    from integrity.jobs.context import Context
    from integrity.jobs.shards.messages import ShardTask

_TOO_LARGE = 2
"""A shard that is so many times larger than it should be is cut again."""


@dataclass(frozen=True, slots=True)
class Visited:
    """What a visit did, and what the catalog says now. ``folders``: sizes, if the shard is to be cut again."""

    is_complete: bool
    coverage: Coverage
    read_bytes: int
    duration_s: float
    findings: list[Finding]
    folders: list[FolderSize] | None
    is_reading: bool = True


def visit(context: Context, path: bytes, task: ShardTask) -> Visited:
    """Scan and scrub a shard, for as long as a visit may take. ``context``: with its scope, and a stop of its own."""
    began_at, read_bytes, is_complete = context.monotonic(), 0, False
    with _stopping_after(context, task.visit_s):
        scanned = runner.scan(context, [path], ScanOptions())
        read_bytes += scanned.counts.bytes_read
        if scanned.outcome is not Outcome.INTERRUPTED:
            left_s = task.visit_s - (context.monotonic() - began_at)
            options = plan_visit(context, path, task, left_s)
            read_bytes += runner.scrub(context, [path], options).counts.bytes_read
            is_complete = not context.stop.is_set() and context.monotonic() - began_at < task.visit_s
    done = look(context, path)
    size = Size(done.coverage.files, done.coverage.bytes)
    most = Size(task.most_files * _TOO_LARGE, task.most_bytes * _TOO_LARGE)
    folders = None
    if not size.fits(most):
        known = find_all_files(context.catalog, _get_root(context, path).id)
        folders = summarize(measure_files((path, size_bytes) for _, path, size_bytes in known), task.limit)
    duration_s = context.monotonic() - began_at
    return replace(
        done,
        is_complete=is_complete,
        read_bytes=read_bytes,
        duration_s=duration_s,
        folders=folders,
        is_reading=True,
    )


def look(context: Context, path: bytes) -> Visited:
    """Return what a catalog says, without a visit; see ``visit`` for the arguments."""
    root = _get_root(context, path)
    every_s = context.config.settings_for(path).verify_every_s
    with context.catalog.read() as connection:
        known = coverage(connection, root.id, now=context.now(), verify_every_s=every_s)
        found = findings.find_findings(connection, root_id=root.id)
    return Visited(False, known, 0, 0.0, found, None, is_reading=False)


@contextmanager
def _stopping_after(context: Context, limit_s: float) -> Iterator[None]:
    """Stop the job after a time: what it has read is kept, and the next visit goes on."""
    timer = threading.Timer(min(limit_s, threading.TIMEOUT_MAX), context.stop.set)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def plan_visit(context: Context, path: bytes, task: ShardTask, left_s: float) -> ScrubOptions:
    """
    Return what a visit should read after the scan.

    What becomes due before the round after the next one comes first. Then, stalest first, as much as makes every byte
    be read in time if each round does the same; what this round has read already counts.
    """
    every_s = context.config.settings_for(path).verify_every_s
    usable_s = every_s - 2 * task.every_s
    options = ScrubOptions(time_limit_s=left_s, scan_first=False)
    now = context.now()
    if usable_s <= task.every_s:
        return options._replace(older_than_s=max(0, now - _begin_of_round(context, task)))
    root = _get_root(context, path)
    with context.catalog.read() as connection:
        known = coverage(connection, root.id, now=now, verify_every_s=every_s)
        read = find_reads(connection, Job.SCRUB, _begin_of_round(context, task), root.id)
    share = -(-known.bytes * task.every_s // usable_s) - sum(one.bytes_read for one in read)
    return options._replace(due_within_s=2 * task.every_s, at_least_bytes=max(0, share))


def _begin_of_round(context: Context, task: ShardTask) -> int:
    """Return when the round began, by the clock of this machine."""
    return context.now() - max(0, min(task.now - task.round_at, context.now()))


def _get_root(context: Context, path: bytes) -> RootRecord:
    with context.catalog.read() as connection:
        return next(one for one in roots.find_roots(connection) if one.path == path)
