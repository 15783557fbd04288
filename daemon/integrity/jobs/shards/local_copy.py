"""
The local copy of a shard's catalog: opened where the tree is mounted here, and narrowed to the shard.

The catalog has one root, the whole tree; the shard's scope decides what a run reads of it. So paths are the same in the
catalogs of all shards, and a shard that is cut again is a copy of the catalog without what the others took.

Copies lie in a folder that is the worker's own while it runs, and is removed by the next one if it was killed.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, findings, roots, runs
from integrity.catalog.connection import Catalog, write_in_pages
from integrity.catalog.copying import copy_database, require_own_definitions
from integrity.errors import CatalogError, RootSuspended, show_path
from integrity.files.capability import identify
from integrity.files.open_beneath import GONE, open_root, stat_beneath
from integrity.files.stamps import fold_inode
from integrity.jobs.presence import may_be_there
from integrity.jobs.shards.messages import DiskTrust, is_in_tree, to_path
from integrity.model import FileId, FindingKind, RootId, RootIdentity, RootState
from integrity.paths import shell_word
from integrity.same_place import get_plain_name, is_path_number, recognise

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.roots import RootRecord
    from integrity.config import ConfiguredRoot
    from integrity.files.excludes import TreeScope
    from integrity.jobs.shards.messages import ShardTask

_LOCK = b"lock"
_SAMPLED = 200
_FEW = 20
"""Fewer files are deleted by hand, so on a disk of the right name their absence proves nothing."""

_MISSING = FindingKind.MISSING


class SeenTree(NamedTuple):
    """A tree as it is mounted here."""

    identity: RootIdentity
    inode: int  # of its top folder: the same on all machines, also where the identity has the path instead


def see_tree(path: bytes) -> SeenTree:
    """Look at a tree as it is mounted here. RootSuspended: it can't be opened."""
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
    """Open a catalog that came from the hub, or raise CatalogError: any box may have made it. Nothing of it is run."""
    require_own_definitions(path)
    with Catalog.open(path, writes=True) as catalog:
        require_inside(catalog)
        yield catalog


class OtherTree(RootSuspended):
    """Say that what is mounted here is not the tree. ``why``: the same as a clause without the path, for the hub."""

    def __init__(self, message: str, why: str) -> None:
        super().__init__(message)
        self.why = why


def bind(catalog: Catalog, path: bytes, joined: SeenTree) -> None:
    """
    Let a catalog refer to the tree as it is mounted here.

    Every machine may mount it at another path and know the file system by another name. The inode of the top folder is
    the same on all, and the runs check it (R5), unless it does not last here: then the hub alone has compared it.

    Args:
        path: of the tree.
        joined: the tree as the worker described it to the hub.

    Raises:
        RootSuspended: it is another one now.
    """
    seen_tree = see_tree(path)
    if not is_same_tree(joined, seen_tree):
        raise RootSuspended(f"{show_path(path)}: another disk was mounted there while a part of the tree was read")
    seen = seen_tree.identity
    for root in _find_roots(catalog):
        folder = seen.folder_inode if is_path_number(seen.folder_inode) else root.identity.folder_inode
        identity = root.identity._replace(fs_id=seen.fs_id, fs_type=seen.fs_type, folder_inode=folder)
        with catalog.transaction() as connection:
            if root.identity.fs_id != seen.fs_id:
                runs.rename_file_system(connection, root.identity.fs_id, seen.fs_id)
            roots.rebind_root(connection, root.id, path, identity)


def is_same_tree(one: SeenTree, other: SeenTree) -> bool:
    """Return whether a tree is the one that was seen before."""
    return one.inode == other.inode and recognise(one.identity.fs_id, other.identity.names) is not None


def check_names(catalog: Catalog, tree: ConfiguredRoot, task: ShardTask, trust: DiskTrust) -> bool:
    """
    Require that what is mounted here has what was recorded, before it is read: else all of it would count as missing.

    Recorded files of the shard that are mostly there are enough. If they are not, they may have been removed; then the
    folders of other shards must be there.

    Args:
        task: with the landmarks.
        trust: how surely the disk is the right one.

    Returns:
        Whether the names prove that it is.

    Raises:
        OtherTree: it is not.
    """
    fd = open_root(tree.path)
    try:
        files = _count_present(fd, _sample_names(catalog), may_be_there)
        folders = _count_present(fd, list(map(to_path, task.landmarks)), _is_there)
    finally:
        os.close(fd)
    if files.proves or folders.proves:
        return True
    is_enough = bool(folders.asked) or files.asked >= (_FEW if trust is DiskTrust.NAME else 1)
    if trust is DiskTrust.DISK or not is_enough:
        return False
    disk = get_plain_name(see_tree(tree.path).identity.fs_id)
    asked, what = (files.asked, "recorded files") if files.asked else (folders.asked, "folders of the tree")
    there = files.present if files.asked else folders.present
    why = f"it sees {disk}, and of {asked:,} {what} that it looked for, {there:,} are there"
    raise OtherTree(
        f"{show_path(tree.path)} is not the shared tree {tree.shared}: its disk is {disk}, and of {asked:,} {what}"
        f" that were looked for, {there:,} are there. Nothing was read, and nothing was recorded as missing. Mount the"
        " right disk there. If the tree was moved, or most of it was deleted on purpose, run on the hub:"
        f" integrity hub tree rebind {shell_word(tree.shared)} --moved",
        why,
    )


class _Present(NamedTuple):
    """How many names were looked for, and how many of them are there."""

    asked: int
    present: int

    @property
    def proves(self) -> bool:
        """Whether at least half of the names are there, and there are some."""
        return self.asked > 0 and 2 * self.present >= self.asked


def _count_present(root_fd: int, paths: Sequence[bytes], is_there: Callable[[int, bytes], bool]) -> _Present:
    return _Present(len(paths), sum(is_there(root_fd, path) for path in paths))


def _is_there(root_fd: int, path: bytes) -> bool:
    try:
        stat_beneath(root_fd, path)
    except OSError as error:
        return error.errno not in GONE
    return True


def _sample_names(catalog: Catalog) -> list[bytes]:
    """Return the paths of some recorded files, from all over the shard; none that is known to be missing."""
    paths: list[bytes] = []
    for root in _find_roots(catalog):
        step = max(1, root.file_count // _SAMPLED)
        with catalog.read() as connection:
            missing = {one.path for one in findings.find_findings(connection, root_id=root.id) if one.kind is _MISSING}
        some = islice(find_all_files(catalog, root.id), 0, None, step)
        paths += (path for _, path, _ in some if path not in missing)
    return paths


def require_inside(catalog: Catalog) -> None:
    """Require that every record is of a name in the tree, or raise CatalogError."""
    for root in _find_roots(catalog):
        for _, path, _ in find_all_files(catalog, root.id):
            if not is_in_tree(path):
                raise CatalogError(
                    f"the catalog from the hub has a record of {show_path(path)}, which is no name in a tree: somebody"
                    " made it; revoke the token of the box that stored it"
                )


def narrow(catalog: Catalog, scope: TreeScope) -> int:
    """Drop the records of what other shards have (by now); return the number of dropped files."""
    if scope.is_whole:
        return 0
    dropped = 0
    for root in _find_roots(catalog):
        ids = [number for number, path, _ in find_all_files(catalog, root.id) if not scope.covers_name(path)]
        dropped += len(ids)

        def drop(connection: Connection, page: Sequence[FileId], root: RootRecord = root) -> None:
            roots.drop_files(connection, root.id, page)

        write_in_pages(catalog.transaction, ids, drop)
        _end_foreign_findings(catalog, root, scope)
    return dropped


def find_all_files(catalog: Catalog, root_id: RootId) -> Iterator[tuple[FileId, bytes, int]]:
    after = 0
    with catalog.read() as connection:
        while page := files.page_files(connection, root_id, after=after):
            yield from page
            after = page[-1][0]


def _end_foreign_findings(catalog: Catalog, root: RootRecord, scope: TreeScope) -> None:
    """End findings about names without a record: their shard has them, too."""
    with catalog.read() as connection:
        found = findings.find_findings(connection, root_id=root.id)
    foreign = [one.id for one in found if one.path and not scope.covers_name(one.path)]
    if foreign:
        with catalog.transaction() as connection:
            findings.resolve_ids(connection, foreign, resolution="belongs to another shard", now=0)


def require_present(catalog: Catalog) -> None:
    """Raise RootSuspended if a run found the tree absent or replaced: what it leaves is not worth storing."""
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
    folder, name = os.path.split(path)
    for entry in list(os.scandir(folder)):
        if entry.name.startswith(name):
            with suppress(FileNotFoundError):
                os.unlink(entry.path)


def _find_roots(catalog: Catalog) -> list[RootRecord]:
    with catalog.read() as connection:
        return roots.find_roots(connection)


@contextmanager
def make_work_folder(parent: bytes) -> Iterator[bytes]:
    """Make a folder, and remove those of workers that are gone."""
    os.makedirs(parent, mode=0o700, exist_ok=True)
    _remove_abandoned(parent)
    path = os.path.join(parent, secrets.token_hex(8).encode("ascii"))
    os.mkdir(path, 0o700)
    fd = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(fd)
        shutil.rmtree(path, ignore_errors=True)


def _remove_abandoned(parent: bytes) -> None:
    for entry in list(os.scandir(parent)):
        with suppress(OSError):  # another worker begins or ends there
            fd = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path)
            finally:
                os.close(fd)
