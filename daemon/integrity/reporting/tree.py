"""
The digest tree of a root, from the rows of the catalog; and bringing the rows that the hub has of it up to date.

Digests of the files of a folder are kept in the catalog until one of them changes; the tree above them is built anew
into a temporary file, which takes 5 us for each folder. Memory does not grow with the number of files or folders.

Trees are compared from the top. Folders are sent bottom-up, so an equal ``subtree`` on the hub means that all below it
is stored, wherever a former transfer broke off; what was stored before it did is not sent again. Of a folder with many
files only the buckets are sent that differ (``digest_tree.py``). A folder whose files change while they are sent is
left for the next report.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import report_queue
from integrity.catalog.connection import Catalog
from integrity.catalog.report_queue import FolderDigestRow, FolderKey, Mark, StoredTree, TreeFolder
from integrity.catalog.roots import get_folder_id
from integrity.catalog.rows import FileRecord
from integrity.errors import HubError, ReadInterrupted
from integrity.files.excludes import Excludes
from integrity.model import FolderId, RootId
from integrity.reporting.digest_tree import (
    FROZEN,
    READ_HOWS,
    SUSPECT,
    BucketDigests,
    Buckets,
    FilesDigest,
    FolderDigests,
    ReportedFile,
    SubtreeDigest,
    count_bits,
    digest_files,
    file_values,
)
from integrity.reporting.protocol import (
    VERSION,
    JsonObject,
    cut,
    encode,
    encode_lines,
    read_base64,
    read_indexes,
    to_text,
)

if TYPE_CHECKING:
    from integrity.reporting.client import HubClient


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
        """Yield the files that lie directly in a folder, by name. ReadInterrupted: the service ends."""
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
    between: list[bytes] = []
    above = os.path.dirname(path)
    while above != folder:
        between.append(above)
        above = os.path.dirname(above)
    return between[::-1]


_COMPARED_AT_ONCE = 2000
_MOST_PART_BYTES = 128 << 10
_MANY_FILES = 200
"""Fewer are sent as a whole: asking would take as long."""

_SENT_WHOLE = 4
"""A folder is sent as a whole if a fourth of its buckets differs."""

_PATIENCE = 10
"""The last part has the hub check and store the whole folder, which may hold a million files: a minute's work."""


class _Changed(Exception):
    """The files of a folder are other ones than its digest covers."""


class TreeSync:
    """One transfer."""

    def __init__(self, client: HubClient, rows: ReportedRoot, tree: StoredTree) -> None:
        self._client = client
        self._rows = rows
        self._tree = tree
        self._place = f"trees/{rows.root_id}/"

    def run(self) -> bool:
        """
        Send what differs; return whether the hub has the whole tree now.

        Raises:
            HubError: the hub was not reached, or refused.
            ReadInterrupted: the service ends.
        """
        self._tree.unmark()
        self._compare()
        try:
            # What lies above a change follows from it, unless a folder is gone: only the one above it says so.
            if self._send(Mark.FILES) and self._settle():
                return True
            self._send(Mark.DIGESTS)
        except _Changed:
            return False
        return self._settle()

    def _settle(self) -> bool:
        tree = encode({"protocol": VERSION, "tree": self.top.hex()})
        answer = self._client.call(f"{self._place}settle", tree, patience=_PATIENCE)
        return answer.get("settled") is True

    @property
    def top(self) -> bytes:
        return self._tree.get(b"").subtree

    def _compare(self) -> None:
        """Mark the folders that differ from what the hub has."""
        above: list[bytes] = []
        folders: Iterator[TreeFolder] = iter([self._tree.get(b"")])
        while True:
            some = list(islice(folders, _COMPARED_AT_ONCE))
            while len(some) < _COMPARED_AT_ONCE and above:
                folders = self._tree.find_below(above.pop())
                some += islice(folders, _COMPARED_AT_ONCE - len(some))
            if not some:
                return
            for group in cut(some, _line_of_compare, self._client.body_bytes):
                above += self._ask(group)

    def _ask(self, folders: list[TreeFolder]) -> list[bytes]:
        """Mark those of the folders that differ; return those below which something does."""
        lines = chain([{"protocol": VERSION}], map(_line_of_compare, folders))
        answer = self._client.call(f"{self._place}compare", encode_lines(lines), is_lines=True)
        below = [folders[index].path for index in read_indexes(answer, "below", len(folders))]
        self._tree.mark(below, Mark.DIGESTS)
        self._tree.mark((folders[index].path for index in read_indexes(answer, "own", len(folders))), Mark.FILES)
        return below

    def _send(self, wanted: Mark) -> bool:
        """Send the folders with a mark; return whether there are any."""
        parts = (
            part
            for folder, mark in self._tree.find_marked()
            if mark is wanted
            for part in self._make_parts(folder, mark, self._find_differing(folder, mark))
        )
        is_any = False
        for lines in cut(map(encode, parts), lambda line: line, self._client.body_bytes):
            body = b"\n".join((encode({"protocol": VERSION}), *lines, b""))
            self._client.call(f"{self._place}folders", body, is_lines=True, patience=_PATIENCE)
            is_any = True
        return is_any

    def _find_differing(self, folder: TreeFolder, mark: Mark) -> Buckets | None:
        """Return the buckets of files that the hub has otherwise; None: all files are to be sent."""
        key = self._rows.find_folder(folder.path)
        files = self._rows.find_files(key) if mark is Mark.FILES else iter(())
        if len(list(islice(files, _MANY_FILES))) < _MANY_FILES:
            return None
        asked = encode({"protocol": VERSION, "path": to_text(folder.path)})
        try:
            packed = read_base64(self._client.call(f"{self._place}buckets", asked, patience=_PATIENCE), "buckets")
        except HubError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return None  # an older version
        bits = count_bits(packed)
        if bits is None:
            return None  # nothing of the folder is there
        digests = BucketDigests(bits)
        for file in self._rows.find_files(key):
            digests.add(file)
        numbers = digests.find_differing(packed)
        return Buckets(bits, frozenset(numbers)) if len(numbers) <= (1 << bits) // _SENT_WHOLE else None

    def _make_parts(self, folder: TreeFolder, mark: Mark, buckets: Buckets | None) -> Iterator[JsonObject]:
        """Yield the parts of a folder, the last one only if its files are those that the digest covers."""
        has_rows = mark is Mark.FILES or folder.own == NO_FILES.own
        part = _Part(folder, buckets, has_rows=has_rows)
        if not has_rows:
            yield part.finish(self._find_names(folder))
            return
        key, digest = self._rows.find_folder(folder.path), FilesDigest()
        for file in self._rows.find_files(key):
            if part.size_bytes >= self._most_bytes:
                if buckets is not None:
                    yield from self._make_parts(folder, mark, None)
                    return
                yield part.finish()
            digest.add(file)
            if buckets is None or buckets.has(file.name):
                part.add_file(file)
        if digest.digests() != (folder.own, folder.content):
            if key is not None:
                self._rows.forget(key)
            raise _Changed
        yield part.finish(self._find_names(folder))

    def _find_names(self, folder: TreeFolder) -> list[str]:
        return [to_text(one.path.rpartition(b"/")[2]) for one in self._tree.find_below(folder.path)]

    @property
    def _most_bytes(self) -> int:
        return min(_MOST_PART_BYTES, self._client.body_bytes // 2)


class _Part:
    """The part of a folder that is being filled. ``size_bytes``: about as many as its line will have."""

    def __init__(self, folder: TreeFolder, buckets: Buckets | None, *, has_rows: bool) -> None:
        self._head: dict[str, object] = {**_line_of_compare(folder), "content": folder.content.hex()}
        if buckets is not None:
            self._head["buckets"] = {"bits": buckets.bits, "numbers": sorted(buckets.numbers)}
        self._has_rows = has_rows
        self._is_first = True
        self._empty()

    def add_file(self, file: ReportedFile) -> None:
        values = file_values(file)
        self._files.append(values)
        self.size_bytes += len(encode(values))

    def finish(self, folders: list[str] | None = None) -> JsonObject:
        """Return the object of its line, and begin the next. ``folders``: names of those in it; None: more comes."""
        files = self._files if self._has_rows else None
        line = {"first": self._is_first, "last": folders is not None, "folders": folders or [], "files": files}
        self._is_first = False
        self._empty()
        return {**self._head, **line}

    def _empty(self) -> None:
        self._files: list[list[object]] = []
        self.size_bytes = 0


def _line_of_compare(folder: TreeFolder) -> JsonObject:
    return {"path": to_text(folder.path), "own": folder.own.hex(), "subtree": folder.subtree.hex()}
