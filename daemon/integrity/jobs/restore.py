"""Bring back a backup of the catalog, if no job is at work on the one that it replaces."""

from __future__ import annotations

import glob
import re

from integrity.catalog import backup
from integrity.errors import CatalogLocked, show_path
from integrity.jobs.lock import find_holder
from integrity.model import RootId


def restore_catalog(path: bytes, source: bytes, *, now: int) -> tuple[bytes, bytes | None]:
    """
    Put a backup in the place of the catalog; see ``catalog.backup.restore``.

    Which roots there are can't be asked of a damaged catalog, so the lock files beside it are looked at.

    Raises:
        CatalogLocked: a job works with the catalog; what it wrote would be lost.
    """
    for name in glob.glob(glob.escape(path) + b".root-*.lock"):
        number = re.fullmatch(rb".*\.root-(\d+)\.lock", name, re.DOTALL)
        holder = None if number is None else find_holder(path, RootId(int(number[1])))
        if holder is not None:
            raise CatalogLocked(
                f"{show_path(path)}: a {holder.job} is at work with it (process {holder.pid}); wait for it to end,"
                " or stop that process, then restore"
            )
    return backup.restore(path, source, now=now)
