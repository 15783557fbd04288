"""
Check files against a manifest, line by line, as ``md5sum -c`` does.

A file is read once for consecutive lines about it, whatever algorithms they name. Unreadable files are not counted as
mismatches.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from integrity.files.plain import STDIN
from integrity.hashing.algorithms import ALGORITHMS
from integrity.hashing.file_sums import FileSum, SumRequest, sum_each
from integrity.hashing.manifests.entries import BadLine, ManifestEntry
from integrity.hashing.manifests.reader import Form, Manifest


class LineVerdict(Enum):
    """Result for one line."""

    OK = "ok"
    FAILED = "failed"
    UNREADABLE = "unreadable"


class Checked(NamedTuple):
    """Result for one line: the path as it was opened, and the error if that failed."""

    path: bytes
    verdict: LineVerdict
    error: OSError | None = None

    @property
    def is_missing(self) -> bool:
        """Return whether no file of this name exists."""
        return self.error is not None and self.error.errno == errno.ENOENT


@dataclass(slots=True)
class CheckTally:
    """
    Counts of the results for a manifest's lines.

    Args:
        ignores_missing: don't count files that do not exist.
    """

    ignores_missing: bool = False
    ok: int = 0
    failed: int = 0
    unreadable: int = 0
    missing: int = 0
    bad_lines: int = 0

    def add(self, event: Checked | BadLine) -> bool:
        """Count a line; return False if it must be ignored."""
        if isinstance(event, BadLine):
            self.bad_lines += 1
        elif event.is_missing and self.ignores_missing:
            self.missing += 1
            return False
        elif event.verdict is LineVerdict.OK:
            self.ok += 1
        elif event.verdict is LineVerdict.FAILED:
            self.failed += 1
        else:
            self.unreadable += 1
        return True

    @property
    def has_entries(self) -> bool:
        """Return whether any line was a valid entry."""
        return bool(self.ok or self.failed or self.unreadable or self.missing)

    def is_good(self, *, is_strict: bool) -> bool:
        """Return whether something was verified without failures; if strict, bad lines are failures."""
        return bool(self.ok) and not (self.failed or self.unreadable or (is_strict and self.bad_lines))


def resolve(manifest: Manifest, name: bytes, path: bytes) -> bytes:
    """Return the path that a manifest's entry means: in BagIt relative to the manifest, else to the current folder."""
    return os.path.join(os.path.dirname(name), path) if manifest.form is Form.BAGIT else path


def check(
    manifest: Manifest,
    *,
    name: bytes,
    is_stdin: bool = False,
    jobs: int | None = None,
    idle: Callable[[], None] = lambda: None,
) -> Iterator[Checked | BadLine]:
    """
    Check all files of a manifest; results are in the order of its lines.

    Args:
        manifest: not read yet.
        name: of its file.
        is_stdin: the manifest comes from standard input, so no line can name that.
        jobs: threads; None for one per processor.
        idle: called while the next file takes long.

    Raises:
        OSError: reading the manifest failed; results so far were yielded.
    """
    lines = _Lines(manifest, name, is_stdin=is_stdin)
    for result in sum_each(lines.find_requests(), jobs=jobs, idle=idle):
        yield from lines.answer(result)
    yield from lines.take_bad_lines()
    if lines.failure is not None:
        raise lines.failure


def judge(entry: ManifestEntry, request: SumRequest, result: FileSum) -> Checked:
    """Compare a file with its line."""
    if result.error is not None:
        return Checked(result.path, LineVerdict.UNREADABLE, result.error)
    found = dict(zip(request.algorithms, result.pieces[0][2], strict=True))
    is_same_size = entry.size_bytes is None or entry.size_bytes == result.size_bytes
    is_same = is_same_size and all(found[algorithm] == digest for algorithm, digest in entry.digests.items())
    return Checked(result.path, LineVerdict.OK if is_same else LineVerdict.FAILED)


class _Lines:
    """Lines of a manifest that were read but not answered yet."""

    def __init__(self, manifest: Manifest, name: bytes, *, is_stdin: bool) -> None:
        self._manifest = manifest
        self._name = name
        self._is_stdin = is_stdin
        self._waiting: deque[BadLine | tuple[SumRequest, list[ManifestEntry]]] = deque()
        self.failure: OSError | None = None

    def find_requests(self) -> Iterator[SumRequest]:
        """Yield read requests, one for consecutive lines about the same file."""
        for group in _group(self._read()):
            if isinstance(group, BadLine):
                self._waiting.append(group)
                continue
            known = {algorithm for entry in group for algorithm in entry.digests}
            algorithms = tuple(algorithm for algorithm in ALGORITHMS if algorithm in known)
            request = SumRequest(resolve(self._manifest, self._name, group[0].path), algorithms)
            self._waiting.append((request, group))
            yield request

    def answer(self, result: FileSum) -> Iterator[Checked | BadLine]:
        """Yield the results for all lines up to those about this file."""
        yield from self.take_bad_lines()
        group = self._waiting.popleft()
        assert not isinstance(group, BadLine)
        request, entries = group
        yield from (judge(entry, request, result) for entry in entries)

    def take_bad_lines(self) -> Iterator[BadLine]:
        """Yield the bad lines before the next request."""
        while self._waiting:
            first = self._waiting[0]
            if not isinstance(first, BadLine):
                return
            self._waiting.popleft()
            yield first

    def _read(self) -> Iterator[ManifestEntry | BadLine]:
        try:
            for item in self._manifest.read():
                is_itself = self._is_stdin and isinstance(item, ManifestEntry) and item.path == STDIN
                yield BadLine(item.line) if is_itself else item
        except OSError as error:
            self.failure = error


def _group(items: Iterable[ManifestEntry | BadLine]) -> Iterator[list[ManifestEntry] | BadLine]:
    """Group consecutive lines about the same file."""
    group: list[ManifestEntry] = []
    for item in items:
        if isinstance(item, ManifestEntry) and group and item.path == group[0].path:
            group.append(item)
            continue
        if group:
            yield group
            group = []
        if isinstance(item, BadLine):
            yield item
        else:
            group = [item]
    if group:
        yield group
