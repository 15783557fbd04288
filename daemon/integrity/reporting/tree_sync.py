"""
Bring the rows that the hub has of a root up to date: compare trees from the top, send what differs, settle.

Folders are sent bottom-up, so an equal ``subtree`` on the hub means that all below it is stored, wherever a former
transfer broke off; what was stored before it did is not sent again. A folder whose files change while they are sent is
left for the next report.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from integrity.catalog.report_rows import Mark, StoredTree, TreeFolder
from integrity.reporting.digest_tree import FilesDigest, ReportedFile, file_values
from integrity.reporting.protocol import VERSION, JsonObject, cut, encode, encode_lines, read_indexes
from integrity.reporting.tree import NO_FILES, ReportedRoot

if TYPE_CHECKING:
    from integrity.reporting.client import HubClient

_COMPARED_AT_ONCE = 2000
_MOST_PART_BYTES = 128 << 10
_PATIENCE = 10
"""The last part has the hub check and store the whole folder, which may hold a million files: a minute's work."""


class _Changed(Exception):
    """The files of a folder are other ones than its digest covers."""


class TreeSync:
    """
    One transfer.

    Args:
        client: of the hub.
        rows: what is reported of the root.
        tree: its tree.
    """

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
            self._send_marked()
        except _Changed:
            return False
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

    def _send_marked(self) -> None:
        parts = (part for folder, mark in self._tree.find_marked() for part in self._make_parts(folder, mark))
        for lines in cut(map(encode, parts), lambda line: line, self._client.body_bytes):
            body = b"\n".join((encode({"protocol": VERSION}), *lines, b""))
            self._client.call(f"{self._place}folders", body, is_lines=True, patience=_PATIENCE)

    def _make_parts(self, folder: TreeFolder, mark: Mark) -> Iterator[JsonObject]:
        """Yield the parts of a folder, the last one only if its files are those that the digest covers."""
        has_rows = mark is Mark.FILES or folder.own == NO_FILES.own
        part = _Part(folder, has_rows=has_rows)
        if not has_rows:
            yield part.finish(self._find_names(folder))
            return
        key, digest = self._rows.find_folder(folder.path), FilesDigest()
        for file in self._rows.find_files(key):
            if part.size_bytes >= self._most_bytes:
                yield part.finish()
            digest.add(file)
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


class _Part:
    """The part of a folder that is being filled. ``size_bytes``: about as many as its line will have."""

    def __init__(self, folder: TreeFolder, *, has_rows: bool) -> None:
        self._head = {**_line_of_compare(folder), "content": folder.content.hex()}
        self._has_rows = has_rows
        self._is_first = True
        self._empty()

    def add_file(self, file: ReportedFile) -> None:
        """Add a file."""
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
