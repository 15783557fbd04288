"""Take roots, folders or files out of the catalog, because a person says so; their files are not touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import files, findings
from integrity.catalog.paging import write_in_pages
from integrity.catalog.removal import remove_files
from integrity.catalog.roots import drop_files, drop_history, find_history_ids, find_spans, remove_root
from integrity.errors import ConfigError, show_path
from integrity.jobs.targets import Target, find_target
from integrity.model import BaselineReason, FileId, FindingId, RootId

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection


@dataclass(frozen=True, slots=True)
class Leaving:
    """What would be forgotten. ``target.prefix`` empty: the whole root, with its findings and history."""

    target: Target
    path: bytes  # absolute
    files: int
    open_findings: int


def plan_forgetting(catalog: Catalog, paths: Sequence[bytes]) -> list[Leaving]:
    """
    Count what forgetting these real paths would take out.

    Raises:
        ConfigError: a path lies in no root, or nothing is recorded there; nothing was done for any.
    """
    plan: list[Leaving] = []
    with catalog.read() as connection:
        for path in paths:
            target = find_target(connection, path)
            root_id, prefix = target.root.id, target.prefix
            count = sum(1 for _ in _find_ids(catalog, target)) if prefix else target.root.file_count
            open_findings = findings.find_findings(connection, root_id=root_id, prefix=prefix)
            if prefix and not count and not open_findings:
                raise ConfigError(f"{show_path(path)}: nothing is recorded there, so nothing can be forgotten")
            plan.append(Leaving(target, path, count, len(open_findings)))
    return plan


def forget(catalog: Catalog, leaving: Leaving, *, now: int) -> None:
    """
    Take out what was planned, in pages. The baselines of single files go to history; a root leaves nothing behind.

    What is left by a kill between two pages is a root with fewer files, of which the rest can be forgotten.
    """
    target = leaving.target
    if not target.prefix:
        _forget_root(catalog, target.root.id)
        return

    def remove(connection: Connection, page: Sequence[FileId]) -> None:
        remove_files(connection, catalog.sealer, target.root, page, because=BaselineReason.FORGOTTEN, now=now)

    def resolve(connection: Connection, page: Sequence[FindingId]) -> None:
        findings.resolve_ids(connection, page, resolution="forgotten", now=now)

    write_in_pages(catalog.transaction, list(_find_ids(catalog, target)), remove)
    with catalog.read() as connection:  # those about names that were never recorded
        left = findings.find_findings(connection, root_id=target.root.id, prefix=target.prefix)
    write_in_pages(catalog.transaction, [one.id for one in left], resolve)


def _forget_root(catalog: Catalog, root_id: RootId) -> None:
    def drop(connection: Connection, page: Sequence[tuple[FileId, FileId]]) -> None:
        for span in page:
            drop_files(connection, root_id, span)

    with catalog.read() as connection:
        spans, history_ids = find_spans(connection, root_id), find_history_ids(connection, root_id)
    write_in_pages(catalog.transaction, spans, drop, rows=1)
    write_in_pages(catalog.transaction, history_ids, drop_history)
    with catalog.transaction() as connection:
        remove_root(connection, root_id)


def _find_ids(catalog: Catalog, target: Target) -> Iterator[FileId]:
    after = 0
    with catalog.read() as connection:
        while page := files.page_files(connection, target.root.id, prefix=target.prefix, after=after):
            yield from (row[0] for row in page)
            after = page[-1][0]
