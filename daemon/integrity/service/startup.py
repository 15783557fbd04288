"""Before anything else: a catalog that can be relied on, restored from its newest good backup if it can't (R9)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from integrity.catalog import copying, findings, roots
from integrity.catalog.connection import Catalog
from integrity.catalog.damage import describe_damage
from integrity.catalog.filenames import find_backups
from integrity.catalog.findings import NewFinding
from integrity.catalog.restoring import restore
from integrity.config import read_seal_key
from integrity.errors import CatalogCorrupt, CatalogError, CatalogMissing, show_path
from integrity.model import FindingKind

if TYPE_CHECKING:
    from integrity.config import Config

_log = logging.getLogger(__name__)


def make_folder(path: bytes) -> None:
    """
    Make the folder of the catalog, if need be: the link to the service's socket lies there, too.

    Raises:
        CatalogError: it can't be made.
    """
    folder = os.path.dirname(os.path.abspath(path))
    try:
        copying.make_folder(folder)
    except OSError as error:
        raise CatalogError(f"{show_path(folder)}: cannot make the catalog's folder: {error.strerror}") from error


def prepare_catalog(path: bytes, config: Config, *, clock: Callable[[], float]) -> None:
    """
    See to it that there is a catalog, whole and of this version; it is upgraded if need be.

    A damaged one is put aside and its newest good backup takes its place, which is told as a finding. One with damaged
    rows stays, and that is told, too.

    Raises:
        CatalogMissing: there is none, but backups of one: making a new one would forget all baselines.
        CatalogError: it can't be opened, or it is damaged and no backup is good.
    """
    key, folder = read_seal_key(config), config.catalog_backup.folder
    if not os.path.lexists(path):
        backups = list(find_backups(path, folder))
        if backups:
            raise CatalogMissing(
                f"no catalog at {show_path(path)}, but backups of it, the newest being {show_path(backups[-1])}: bring"
                " it back with: integrity catalog restore; to begin anew all the same, move the backups away"
            )
        Catalog.create(path, seal_key=key, clock=clock).close()
        _log.info("catalog_made path=%s", show_path(path))
        return
    try:
        with Catalog.open(path, writes=True, seal_key=key) as catalog:
            rows = catalog.damaged_rows
            if rows:
                message = f"the catalog is damaged: {describe_damage(rows)}; run: integrity catalog check"
                _log.warning("catalog_damaged: %s", message)
                _tell(catalog, message, int(clock()))
    except CatalogCorrupt as error:
        _log.error("catalog_damaged: %s", error)
        taken, aside = restore(path, folder, seal_key=key)
        kept = "" if aside is None else f"; the damaged one is kept as {show_path(aside)}"
        message = (
            f"the catalog was damaged and was restored from {show_path(taken)}: what was recorded or verified since is"
            f" done anew{kept}. See how its disk is"
        )
        _log.error("catalog_restored: %s", message)
        with Catalog.open(path, writes=True, seal_key=key) as catalog:
            _tell(catalog, message, int(clock()))


def _tell(catalog: Catalog, message: str, now: int) -> None:
    with catalog.transaction() as connection:
        for root in roots.find_roots(connection):
            new = NewFinding(FindingKind.CATALOG_DAMAGED, root.id, None, None, message)
            findings.open_finding(connection, new, now=now, run_id=None)
