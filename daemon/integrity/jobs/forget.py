"""Take roots, folders or files out of the catalog, because a person says so; their files are not touched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import files, findings
from integrity.catalog.removing import remove_files
from integrity.catalog.roots import remove_root
from integrity.errors import ConfigError, show_path
from integrity.jobs.targets import Target, find_target
from integrity.model import BaselineReason, FileId

if TYPE_CHECKING:
    from integrity.catalog.connect import Catalog

_PAGE = 1000


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
    Take out what was planned. A root goes in one transaction, files in pages.

    The baselines of single files go to history; a root leaves nothing behind.
    """
    target = leaving.target
    if not target.prefix:
        with catalog.transaction() as connection:
            remove_root(connection, target.root.id)
        return
    ids = list(_find_ids(catalog, target))
    for start in range(0, len(ids), _PAGE):
        with catalog.transaction() as connection:
            page = ids[start : start + _PAGE]
            remove_files(connection, catalog.sealer, target.root, page, because=BaselineReason.FORGOTTEN, now=now)
    with catalog.transaction() as connection:  # those about names that were never recorded
        left = findings.find_findings(connection, root_id=target.root.id, prefix=target.prefix)
        findings.resolve_ids(connection, [one.id for one in left], resolution="forgotten", now=now)


def _find_ids(catalog: Catalog, target: Target) -> Iterator[FileId]:
    after = 0
    with catalog.read() as connection:
        while page := files.page_files(connection, target.root.id, prefix=target.prefix, after=after):
            yield from (row[0] for row in page)
            after = page[-1][0]
