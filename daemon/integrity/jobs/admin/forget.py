"""
Remove roots, folders, files or backup copies from the catalog, because a person says so.

The files and copies themselves are not touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import copies, files, findings
from integrity.catalog.baselines import remove_files
from integrity.catalog.connection import write_in_pages
from integrity.catalog.copies import CopyRecord
from integrity.catalog.roots import (
    RootRecord,
    drop_files,
    drop_former,
    find_former_ids,
    find_roots,
    remove_root,
)
from integrity.catalog.runs import Action, record_action
from integrity.config.copy_urls import is_url
from integrity.copies.opening import open_copy
from integrity.errors import ConfigError, show_path
from integrity.jobs.actor import find_user
from integrity.jobs.compare.deadline import is_name
from integrity.jobs.lock import lock_root
from integrity.jobs.targets import Target, find_target, is_inside
from integrity.model import ActionVerb, Actor, BaselineReason, FileId, Finding, FindingId, Job, RootId

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection

_FILES_AT_ONCE = 2000


@dataclass(frozen=True, slots=True)
class Leaving:
    """What would be forgotten. Empty ``target.prefix``: the whole root with its findings and history."""

    target: Target
    path: bytes  # absolute
    files: int
    open_findings: int


def plan_forgetting(catalog: Catalog, paths: Sequence[bytes]) -> list[Leaving]:
    """
    Count what forgetting these real paths would remove.

    Raises:
        ConfigError: a path is in no root, or nothing is recorded there; nothing was done for any.
    """
    plan: list[Leaving] = []
    with catalog.read() as connection:
        for path in paths:
            target = find_target(connection, path)
            root_id, prefix = target.root.id, target.prefix
            count = sum(1 for _ in _find_ids(catalog, target.root.id, prefix)) if prefix else target.root.file_count
            open_findings = findings.find_findings(connection, root_id=root_id, prefix=prefix)
            if prefix and not count and not open_findings:
                raise ConfigError(f"{show_path(path)}: nothing is recorded there, so nothing can be forgotten")
            plan.append(Leaving(target, path, count, len(open_findings)))
    return plan


def forget(catalog: Catalog, leaving: Leaving, *, now: int, actor: Actor | None = None) -> None:
    """
    Remove what was planned, in pages. Baselines of single files go to history; a root is removed completely.

    A kill between two pages leaves a root with fewer files; forgetting again removes the rest.
    """
    target = leaving.target
    outcome = f"forgotten: recorded files: {leaving.files:,}, open findings: {leaving.open_findings:,}"
    done = Action(actor or find_user(), ActionVerb.FORGET, outcome, target.root.path, target.prefix)
    if not target.prefix:
        _forget_root(catalog, target.root.id, done, now)
        return

    def remove(connection: Connection, page: Sequence[FileId]) -> None:
        remove_files(connection, target.root, page, because=BaselineReason.FORGOTTEN, now=now)

    def resolve(connection: Connection, page: Sequence[FindingId]) -> None:
        findings.resolve_ids(connection, page, resolution="forgotten", now=now)

    write_in_pages(catalog.transaction, list(_find_ids(catalog, target.root.id, target.prefix)), remove)
    with catalog.read() as connection:  # findings about names that were never recorded
        left = findings.find_findings(connection, root_id=target.root.id, prefix=target.prefix)
    write_in_pages(catalog.transaction, [one.id for one in left], resolve)
    with catalog.transaction() as connection:
        record_action(connection, done, now)


def _forget_root(catalog: Catalog, root_id: RootId, done: Action, now: int) -> None:
    def drop(connection: Connection, page: Sequence[FileId]) -> None:
        drop_files(connection, root_id, page)

    with catalog.read() as connection:
        former_ids = find_former_ids(connection, root_id)
    write_in_pages(catalog.transaction, list(_find_ids(catalog, root_id)), drop, rows=_FILES_AT_ONCE)
    write_in_pages(catalog.transaction, former_ids, drop_former)
    with catalog.transaction() as connection:
        remove_root(connection, root_id)
        record_action(connection, done, now)


def _find_ids(catalog: Catalog, root_id: RootId, prefix: bytes = b"") -> Iterator[FileId]:
    after = 0
    with catalog.read() as connection:
        while page := files.page_files(connection, root_id, prefix=prefix, after=after):
            yield from (row[0] for row in page)
            after = page[-1][0]


@dataclass(frozen=True, slots=True)
class LeavingCopy:
    """
    A copy that would be forgotten.

    Attributes:
        root: root that is copied.
        base: absolute path of the folder that is copied.
        files: number of files with an answer of this copy.
        open_findings: number of findings about the copy and about files in it.
    """

    record: CopyRecord
    root: RootRecord
    base: bytes
    files: int
    open_findings: int


def plan_forgetting_copy(catalog: Catalog, text: str, paths: Sequence[bytes]) -> list[LeavingCopy]:
    """
    Find a copy that was compared before, and count what forgetting it would remove.

    Args:
        catalog: open.
        text: its name, or its path or URL.
        paths: real paths; only copies of something in one of them. Empty: all copies of that name.

    Raises:
        ConfigError: there is no such copy.
    """
    with catalog.read() as connection:
        roots = {root.id: root for root in find_roots(connection)}
        known = copies.find_copies(connection)
        names = {text} if is_name(text) or any(one.name == text for one in known) else {text, _complete(text)}
        plan = [_plan(connection, one, roots[one.root_id]) for one in known if one.name in names]
    plan = [one for one in plan if not paths or any(is_inside(one.base, path.rstrip(b"/")) for path in paths)]
    if not plan:
        have = ", ".join(dict.fromkeys(one.name for one in known)) or "none"
        where = f" of {' or '.join(show_path(path) for path in paths)}" if paths else ""
        raise ConfigError(f"{text}: nothing is recorded of such a copy{where}; copies that are known: {have}")
    return plan


def forget_copy(catalog: Catalog, leaving: LeavingCopy, *, now: int, actor: Actor | None = None) -> None:
    """
    Remove a copy with its answers about files, and resolve the findings about it.

    Raises:
        CatalogLocked: a job is running on its root, perhaps comparing the copy.
    """
    root, record = leaving.root, leaving.record
    outcome = f"the copy {record.name} was forgotten: compared files: {leaving.files:,}"
    done = Action(actor or find_user(), ActionVerb.FORGET, outcome, root.path, record.prefix)

    def resolve(connection: Connection, ids: Sequence[FindingId]) -> None:
        findings.resolve_ids(connection, ids, resolution="the copy was forgotten", now=now)

    def drop_states(connection: Connection, ids: Sequence[FileId]) -> None:
        copies.drop_states(connection, record.id, ids)

    with lock_root(catalog.path, root.id, root.path, Job.COMPARE, now=now):
        with catalog.read() as connection:
            about = [one.id for one in _find_about(connection, record)]
            compared = copies.find_compared(connection, record.id)
        write_in_pages(catalog.transaction, about, resolve)
        # After a kill it can be forgotten again, or compared: then its answers are recorded anew.
        write_in_pages(catalog.transaction, compared, drop_states)
        with catalog.transaction() as connection:
            copies.remove_copy(connection, record.id)
            record_action(connection, done, now)


def _complete(text: str) -> str:
    """Write a path or URL as the names of copies are: absolute, without secrets."""
    return open_copy(text if is_url(text) else os.path.realpath(text)).shown


def _plan(connection: Connection, record: CopyRecord, root: RootRecord) -> LeavingCopy:
    files, about = copies.count_states(connection, record.id), _find_about(connection, record)
    return LeavingCopy(record, root, record.find_base(root.path), files, len(about))


def _find_about(connection: Connection, record: CopyRecord) -> list[Finding]:
    """Return the open findings about a copy; those about it as a whole only with its last copied folder."""
    found = findings.find_findings(connection, root_id=record.root_id, copy=record.name)
    named = [one for one in copies.find_copies(connection, record.root_id) if one.name == record.name]
    is_last = len(named) == 1
    return [one for one in found if (is_last if one.path is None else is_inside(one.path, record.prefix))]
