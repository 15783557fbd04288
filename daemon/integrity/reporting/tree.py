"""
The digest tree of a root, from the rows of the catalog: memory does not grow with the number of files or folders.

Digests of the files of a folder are kept in the catalog until one of them changes; the tree above them is built anew
into a temporary file, which takes 5 us for each folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from integrity.catalog import report_queue
from integrity.catalog.connection import Catalog
from integrity.catalog.report_queue import FolderDigestRow, FolderKey, StoredTree, TreeFolder
from integrity.catalog.roots import get_folder_id
from integrity.catalog.rows import FileRecord
from integrity.errors import ReadInterrupted
from integrity.files.excludes import Excludes
from integrity.model import FolderId, RootId
from integrity.reporting.digest_tree import (
    FROZEN,
    READ_HOWS,
    SUSPECT,
    FolderDigests,
    ReportedFile,
    SubtreeDigest,
    digest_files,
)

NO_FILES = digest_files(())
_FOLDERS_AT_ONCE = 500
_SAVE_S = 1.0
_LOOK_EVERY = 1000
_HOW_INDEX = {how: index for index, how in enumerate(READ_HOWS)}


def report_file(record: FileRecord) -> ReportedFile:
    name = record.path.rpartition(b"/")[2]
    size, mtime_ns = max(0, record.witness.size_bytes), record.witness.mtime_ns
    flags = (FROZEN if record.is_frozen else 0) | (SUSPECT if record.is_suspect else 0)
    digests = record.digests.md5, record.digests.xxh3_128
    how = _HOW_INDEX[record.read_how]
    return ReportedFile(name, size, mtime_ns, *digests, record.recorded_at, record.verified_at, how, flags)


class ReportedRoot:
    """
    The files of one root, as they are reported.

    Args:
        excludes: decides what is left out. Files that were recorded before a pattern was added are still recorded.
        rules: names what decides; if it differs from the last, all digests are computed anew.
        is_over: called often; true ends what is being done with ReadInterrupted.
    """

    def __init__(
        self, catalog: Catalog, root_id: RootId, excludes: Excludes, rules: str, is_over: Callable[[], bool]
    ) -> None:
        self.root_id = root_id
        self._catalog = catalog
        self._excludes = excludes
        self._rules = rules
        self._is_over = is_over

    def find_files(self, folder: FolderKey | None) -> Iterator[ReportedFile]:
        """
        Yield the files that lie directly in a folder, in the order of their names.

        Raises:
            ReadInterrupted: the service ends.
        """
        if folder is None or (folder.path and self._excludes.covers(folder.path, is_folder=True)):
            return
        with self._catalog.read() as c:
            for number, record in enumerate(report_queue.find_files(c, folder.id)):
                if number % _LOOK_EVERY == 0 and self._is_over():
                    raise ReadInterrupted("the report was interrupted")
                file = report_file(record)
                if not self._excludes.matches(record.path, file.name, False):
                    yield file

    def find_folder(self, path: bytes) -> FolderKey | None:
        """Return a folder by its path; None if no file in it was ever recorded."""
        with self._catalog.read() as c:
            number = get_folder_id(c, self.root_id, path)
        return None if number is None else FolderKey(number, path)

    def forget(self, folder: FolderKey) -> None:
        """Forget the digests of a folder, so that they are computed again."""
        with self._catalog.transaction(is_synced=False) as c:
            report_queue.drop_digests(c, [folder.id])

    def renew_digests(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Compute the digests of the folders whose files changed. Those that change meanwhile stay unknown."""
        with self._catalog.read() as c:
            is_same = report_queue.has_rules(c, self.root_id, self._rules)
        if not is_same:
            with self._catalog.transaction() as c:
                report_queue.set_rules(c, self.root_id, self._rules)
        after = 0
        while folders := self._find_undigested(after):
            with self._catalog.transaction(is_synced=False) as c:
                report_queue.begin_digests(c, [one.id for one in folders])
            self._digest(folders, monotonic)
            after = folders[-1].id

    def build_tree(self) -> StoredTree | None:
        """Build the tree; None if the digests of a folder are unknown. Folders without files are left out."""
        tree = StoredTree()
        with self._catalog.snapshot() as c:
            if report_queue.find_undigested(c, self.root_id, 0, 1):
                tree.close()
                return None
            with tree.filling():
                for one in _make_folders(report_queue.find_digested(c, self.root_id)):
                    tree.add(one)
        return tree

    def _find_undigested(self, after: int) -> list[FolderKey]:
        with self._catalog.read() as c:
            return report_queue.find_undigested(c, self.root_id, after, _FOLDERS_AT_ONCE)

    def _digest(self, folders: Iterable[FolderKey], monotonic: Callable[[], float]) -> None:
        done: list[tuple[FolderId, FolderDigests]] = []
        saved_at = monotonic()
        for folder in folders:
            done.append((folder.id, digest_files(self.find_files(folder))))
            if monotonic() - saved_at > _SAVE_S:
                self._save(done)
                done, saved_at = [], monotonic()
        self._save(done)

    def _save(self, done: Iterable[tuple[FolderId, FolderDigests]]) -> None:
        with self._catalog.transaction(is_synced=False) as c:
            for folder_id, digests in done:
                report_queue.save_digest(c, folder_id, *digests)


class _Open(NamedTuple):
    """A folder whose subfolders are being added."""

    path: bytes
    digests: FolderDigests
    subtree: SubtreeDigest


def _make_folders(rows: Iterable[FolderDigestRow]) -> Iterator[TreeFolder]:
    """Yield all folders of a tree, each after those in it, from rows in the order of ``find_digested``."""
    stack = [_open(b"", NO_FILES)]
    for row in rows:
        digests = FolderDigests(row.own, row.content)
        if digests == NO_FILES:
            continue  # its files are gone
        if not row.path:
            stack[0] = _open(b"", digests)
            continue
        while not _is_below(row.path, stack[-1].path):
            yield _close(stack)
        stack += [_open(path, NO_FILES) for path in _find_between(stack[-1].path, row.path)]
        stack.append(_open(row.path, digests))
    while stack:
        yield _close(stack)


def _open(path: bytes, digests: FolderDigests) -> _Open:
    return _Open(path, digests, SubtreeDigest(digests.own))


def _close(stack: list[_Open]) -> TreeFolder:
    done = stack.pop()
    subtree = done.subtree.digest()
    if not stack:
        return TreeFolder(done.path, None, *done.digests, subtree)
    stack[-1].subtree.add(os.path.basename(done.path), subtree)
    return TreeFolder(done.path, stack[-1].path, *done.digests, subtree)


def _is_below(path: bytes, folder: bytes) -> bool:
    return not folder or path.startswith(folder + b"/")


def _find_between(folder: bytes, path: bytes) -> list[bytes]:
    """Return the folders between a folder and a path below it, from above."""
    between: list[bytes] = []
    above = os.path.dirname(path)
    while above != folder:
        between.append(above)
        above = os.path.dirname(above)
    return between[::-1]
