"""
The local copy of a shard's catalog: opened where the tree is mounted here, and narrowed to the shard.

The catalog has one root, the whole tree; the shard's scope decides what a run reads of it. So paths are the same in the
catalogs of all shards, and a shard that is cut again is a copy of the catalog without what the others took.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, findings, roots, runs
from integrity.catalog.connection import Catalog
from integrity.catalog.copying import copy_database
from integrity.catalog.foreign import require_own_definitions
from integrity.catalog.paging import write_in_pages
from integrity.errors import CatalogError, RootSuspended, show_path
from integrity.files.capability import identify
from integrity.files.open_beneath import open_root
from integrity.files.stamps import fold_inode
from integrity.jobs.shards.messages import is_in_tree
from integrity.model import FileId, RootIdentity, RootState
from integrity.same_place import is_path_number

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.roots import RootRecord
    from integrity.files.scope import TreeScope


class SeenTree(NamedTuple):
    """A tree as it is mounted here."""

    identity: RootIdentity
    inode: int  # of its top folder: the same on all machines, also where the identity has the path instead


def see_tree(path: bytes) -> SeenTree:
    """
    Look at a tree as it is mounted here.

    Raises:
        RootSuspended: it can't be opened.
    """
    try:
        fd = open_root(path)
    except OSError as error:
        raise RootSuspended(f"{show_path(path)} can't be opened: {error.strerror}; mount the shared tree") from error
    try:
        return SeenTree(identify(fd, path), fold_inode(os.fstat(fd).st_ino))
    finally:
        os.close(fd)


@contextmanager
def open_copy(path: bytes) -> Iterator[Catalog]:
    """
    Open a catalog that came from the hub: any box of it may have made it.

    Raises:
        CatalogError: it is no catalog, or one that leads out of the tree. Nothing of it was run.
    """
    require_own_definitions(path)
    with Catalog.open(path, writes=True) as catalog:
        require_inside(catalog)
        yield catalog


def bind(catalog: Catalog, path: bytes) -> None:
    """
    Let a catalog refer to the tree as it is mounted here.

    Every machine may mount it at another path and know the file system by another name. The inode of the top folder is
    the same on all, and the runs check it (R5), unless it does not last here: then the hub alone has compared it.
    """
    seen = see_tree(path).identity
    for root in _find_roots(catalog):
        folder = seen.folder_inode if is_path_number(seen.folder_inode) else root.identity.folder_inode
        identity = replace(root.identity, fs_id=seen.fs_id, fs_type=seen.fs_type, folder_inode=folder)
        with catalog.transaction() as connection:
            if root.identity.fs_id != seen.fs_id:
                runs.rename_file_system(connection, root.identity.fs_id, seen.fs_id)
            roots.rebind_root(connection, root.id, path, identity)


def require_inside(catalog: Catalog) -> None:
    """
    Require that every record is of a name in the tree.

    Raises:
        CatalogError: one leads out of it.
    """
    for root in _find_roots(catalog):
        for path in _find_paths(catalog, root):
            if not is_in_tree(path):
                raise CatalogError(
                    f"the catalog from the hub has a record of {show_path(path)}, which is no name in a tree: somebody"
                    " made it; revoke the token of the box that stored it"
                )


def narrow(catalog: Catalog, scope: TreeScope) -> int:
    """
    Drop the records of what does not belong to a shard (any more): the catalogs of other shards have them.

    Returns:
        The number of dropped files.
    """
    if scope.is_whole:
        return 0
    dropped = 0
    for root in _find_roots(catalog):
        ids = _find_foreign(catalog, root, scope)
        dropped += len(ids)

        def drop(connection: Connection, page: Sequence[FileId], root: RootRecord = root) -> None:
            roots.drop_files_of(connection, root.id, page)

        write_in_pages(catalog.transaction, ids, drop)
        _end_foreign_findings(catalog, root, scope)
    return dropped


def _find_paths(catalog: Catalog, root: RootRecord) -> Iterator[bytes]:
    after = 0
    with catalog.read() as connection:
        while page := files.page_files(connection, root.id, after=after):
            yield from (path for _, path, _ in page)
            after = page[-1][0]


def _find_foreign(catalog: Catalog, root: RootRecord, scope: TreeScope) -> list[FileId]:
    found: list[FileId] = []
    after = 0
    with catalog.read() as connection:
        while page := files.page_files(connection, root.id, after=after):
            found += (file_id for file_id, path, _ in page if not scope.covers_name(path))
            after = page[-1][0]
    return found


def _end_foreign_findings(catalog: Catalog, root: RootRecord, scope: TreeScope) -> None:
    """End findings about names without a record: their shard has them, too."""
    with catalog.read() as connection:
        found = findings.find_findings(connection, root_id=root.id)
    foreign = [one.id for one in found if one.path and not scope.covers_name(one.path)]
    if foreign:
        with catalog.transaction() as connection:
            findings.resolve_ids(connection, foreign, resolution="belongs to another shard", now=0)


def require_present(catalog: Catalog) -> None:
    """
    Require that no run found the tree absent or replaced: what such a run leaves is not worth storing.

    Raises:
        RootSuspended: one did.
    """
    for root in _find_roots(catalog):
        if root.state is RootState.SUSPENDED:
            raise RootSuspended(root.state_reason or f"{show_path(root.path)} is not the recorded folder")


def export(catalog: Catalog, path: bytes, boot_uuid: str, now: int) -> None:
    """
    Write the catalog as one file for the hub.

    The end of the visit is recorded as a clean stop: a later crash of this machine says nothing about the data, which
    lies elsewhere, and would make every later verdict of another worker less certain.
    """
    with catalog.transaction() as connection:
        mounts = runs.find_last_mounts(connection, boot_uuid)
        runs.mark_clean_stop(connection, boot_uuid, now, [*mounts])
    with catalog.read() as connection:
        copy_database(connection, path, os.stat(catalog.path))


def remove(path: bytes) -> None:
    """Remove a local copy and the files beside it."""
    folder, name = os.path.split(path)
    for entry in list(os.scandir(folder)):
        if entry.name.startswith(name):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)


def _find_roots(catalog: Catalog) -> list[RootRecord]:
    with catalog.read() as connection:
        return roots.find_roots(connection)
