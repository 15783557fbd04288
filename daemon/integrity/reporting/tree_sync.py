"""
Bring the rows that the hub has of a root up to date: compare trees from the top, send what differs, settle.

Folders are sent bottom-up, so an equal ``subtree`` on the hub means that all below it is stored, wherever a former
transfer broke off; what was stored before it did is not sent again. Of a folder with many files only the buckets are
sent that differ (``digest_tree.py``). A folder whose files change while they are sent is left for the next report.
"""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog.report_queue import Mark, StoredTree, TreeFolder
from integrity.errors import HubError
from integrity.reporting.digest_tree import (
    BucketDigests,
    FilesDigest,
    ReportedFile,
    count_bits,
    file_values,
    find_bucket,
)
from integrity.reporting.protocol import VERSION, JsonObject, cut, encode, encode_lines, read_base64, read_indexes
from integrity.reporting.tree import NO_FILES, ReportedRoot

if TYPE_CHECKING:
    from integrity.reporting.client import HubClient

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
        Send what differs.

        Returns:
            Whether the hub has the whole tree now.

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
        """Return the digest of the whole tree."""
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

    def _find_differing(self, folder: TreeFolder, mark: Mark) -> _Buckets | None:
        """Return the buckets of files that the hub has otherwise; None: all files are to be sent."""
        key = self._rows.find_folder(folder.path)
        files = self._rows.find_files(key) if mark is Mark.FILES else iter(())
        if len(list(islice(files, _MANY_FILES))) < _MANY_FILES:
            return None
        asked = encode({"protocol": VERSION, "path": _text(folder.path)})
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
        return _Buckets(bits, frozenset(numbers)) if len(numbers) <= (1 << bits) // _SENT_WHOLE else None

    def _make_parts(self, folder: TreeFolder, mark: Mark, buckets: _Buckets | None) -> Iterator[JsonObject]:
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
            if buckets is None or find_bucket(file.name, buckets.bits) in buckets.numbers:
                part.add_file(file)
        if digest.digests() != (folder.own, folder.content):
            if key is not None:
                self._rows.forget(key)
            raise _Changed
        yield part.finish(self._find_names(folder))

    def _find_names(self, folder: TreeFolder) -> list[str]:
        return [_text(one.path.rpartition(b"/")[2]) for one in self._tree.find_below(folder.path)]

    @property
    def _most_bytes(self) -> int:
        return min(_MOST_PART_BYTES, self._client.body_bytes // 2)


class _Buckets(NamedTuple):
    """Buckets of the files of a folder."""

    bits: int
    numbers: frozenset[int]


class _Part:
    """The part of a folder that is being filled. ``size_bytes``: about as many as its line will have."""

    def __init__(self, folder: TreeFolder, buckets: _Buckets | None, *, has_rows: bool) -> None:
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
    return {"path": _text(folder.path), "own": folder.own.hex(), "subtree": folder.subtree.hex()}


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
