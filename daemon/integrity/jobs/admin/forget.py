"""Take backup copies out of the catalog, because a person says so; the copies themselves are not touched."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import copies, findings
from integrity.catalog.copies import CopyRecord
from integrity.catalog.paging import write_in_pages
from integrity.catalog.roots import RootRecord, find_roots
from integrity.copies.opening import open_copy
from integrity.errors import ConfigError, show_path
from integrity.jobs.compare.promise import is_name
from integrity.jobs.lock import lock_root
from integrity.jobs.targets import is_inside
from integrity.model import FileId, Finding, FindingId, Job

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection


@dataclass(frozen=True, slots=True)
class LeavingCopy:
    """
    What would be forgotten.

    Attributes:
        record: the copy.
        root: of which it is one.
        base: absolute path of the folder of which it is one.
        files: of which it said something.
        open_findings: about it, and about files in it.
    """

    record: CopyRecord
    root: RootRecord
    base: bytes
    files: int
    open_findings: int


def plan_forgetting_copy(catalog: Catalog, text: str, paths: Sequence[bytes]) -> list[LeavingCopy]:
    """
    Find a copy that was compared before, and count what forgetting it would take out.

    Args:
        catalog: open.
        text: its name, or its path or URL.
        paths: real ones: only where it is a copy of something in one of them; empty: wherever it is one.

    Raises:
        ConfigError: there is none.
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


def forget_copy(catalog: Catalog, leaving: LeavingCopy, *, now: int) -> None:
    """
    Take a copy out with all that it said of files, and end the findings about it.

    Raises:
        CatalogLocked: a job works on its root, perhaps comparing it.
    """
    root, record = leaving.root, leaving.record

    def resolve(connection: Connection, ids: Sequence[FindingId]) -> None:
        findings.resolve_ids(connection, ids, resolution="the copy was forgotten", now=now)

    def drop_states(connection: Connection, ids: Sequence[FileId]) -> None:
        copies.drop_states(connection, record.id, ids)

    with lock_root(catalog.path, root.id, root.path, Job.COMPARE, now=now):
        with catalog.read() as connection:
            about = [one.id for one in _find_about(connection, record)]
            compared = copies.find_compared(connection, record.id)
        write_in_pages(catalog.transaction, about, resolve)
        # After a kill it can be forgotten again, or compared: what it says then is written anew.
        write_in_pages(catalog.transaction, compared, drop_states)
        with catalog.transaction() as connection:
            copies.remove_copy(connection, record.id)


def _complete(text: str) -> str:
    """Write a path or URL as the names of copies are: absolute, without secrets."""
    is_url = "://" in text or text.startswith("rclone:")
    return open_copy(text if is_url else os.path.realpath(text)).shown


def _plan(connection: Connection, record: CopyRecord, root: RootRecord) -> LeavingCopy:
    files, about = copies.count_states(connection, record.id), _find_about(connection, record)
    return LeavingCopy(record, root, record.find_base(root.path), files, len(about))


def _find_about(connection: Connection, record: CopyRecord) -> list[Finding]:
    """List what is open about a copy; what is said of it as a whole goes with the last folder that it is a copy of."""
    found = findings.find_findings(connection, root_id=record.root_id, copy=record.name)
    named = [one for one in copies.find_copies(connection, record.root_id) if one.name == record.name]
    is_last = len(named) == 1
    return [one for one in found if (is_last if one.path is None else is_inside(one.path, record.prefix))]
