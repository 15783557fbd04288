"""
Check files against a manifest, line by line, as ``md5sum -c`` does.

A file is read once for consecutive lines about it, whatever algorithms they name. Unreadable files are not counted as
mismatches. Where the lines do not name their algorithm, some of the files show it, before the first result is yielded;
they are not read again.

I1  A name that does not exist means the one file whose name is another spelling of it, unless the list names that file
    as well.
"""

from __future__ import annotations

import errno
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, islice
from stat import S_ISREG
from typing import NamedTuple

from integrity.files.plain import STDIN
from integrity.hashing.file_sums import FileSum, SumRequest, sum_each
from integrity.lists.entries import BadLine, Form, ManifestEntry
from integrity.lists.reader import Manifest
from integrity.lists.unnamed import ListAlgorithms
from integrity.same_name import SamePaths


class LineVerdict(Enum):
    """Result for one line."""

    OK = "ok"
    FAILED = "failed"
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"  # perhaps of another algorithm


class Checked(NamedTuple):
    """
    Result for one line.

    Attributes:
        path: as it stands in the line.
        error: why it could not be opened or read.
        found_as: the spelling under which it was opened, if that is another one.
    """

    path: bytes
    verdict: LineVerdict
    error: OSError | None = None
    found_as: bytes | None = None

    @property
    def is_missing(self) -> bool:
        """Return whether no file of this name exists."""
        return self.error is not None and self.error.errno == errno.ENOENT


@dataclass(slots=True)
class CheckTally:
    """
    Counts of the results for a manifest's lines: of each verdict, ``missing`` and ``bad_lines``.

    Args:
        ignores_missing: files that do not exist are missing, not unreadable.
    """

    ignores_missing: bool = False
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, event: Checked | BadLine) -> bool:
        """Count a line; return False if it must be ignored."""
        if isinstance(event, BadLine):
            name = "bad_lines"
        else:
            name = "missing" if event.is_missing and self.ignores_missing else event.verdict.value
        self.counts[name] += 1
        return name not in ("missing", "unknown")

    @property
    def has_entries(self) -> bool:
        """Return whether any line was a valid entry."""
        return self.counts.total() > self.counts["bad_lines"]

    def is_good(self, *, is_strict: bool) -> bool:
        """Return whether something was verified without failures; if strict, bad lines are failures."""
        counts = self.counts
        has_failed = counts["failed"] or counts["unreadable"] or (is_strict and counts["bad_lines"])
        return bool(counts["ok"] or counts["unknown"]) and not has_failed


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
    lines = _Lines(manifest, name, jobs, is_stdin=is_stdin)
    for result in sum_each(lines.find_requests(), jobs=jobs, idle=idle):
        yield from lines.answer(result)
    yield from lines.take_answered()
    if lines.failure is not None:
        raise lines.failure


_READ_AHEAD = 10_000
_READ_AHEAD_BYTES = 16 << 20
"""Lines that are in memory while their algorithm is found, and the size of their names."""


def _take_ahead(groups: Iterator[Sequence[ManifestEntry] | BadLine]) -> Iterator[Sequence[ManifestEntry] | BadLine]:
    left = _READ_AHEAD_BYTES
    for group in islice(groups, _READ_AHEAD):
        yield group
        left -= 0 if isinstance(group, BadLine) else len(group[0].path)
        if left < 0:
            return


def find_algorithms(
    algorithms: ListAlgorithms, files: Iterable[tuple[bytes, Sequence[ManifestEntry]]], *, jobs: int | None = None
) -> dict[bytes, tuple[SumRequest, FileSum]]:
    """
    Find the algorithms that a list does not name, by reading some of its files, small ones first.

    Args:
        files: path, and the entries about it.

    Returns:
        By path: what was read.
    """
    read: dict[bytes, tuple[SumRequest, FileSum]] = {}
    sample = algorithms.sample(files, lambda file: [one for entry in file[1] for one in entry.digests])
    for path, entries in sorted(sample, key=lambda file: _find_size(file[0])):
        if path in read or not any(algorithms.is_open(entry.digests) for entry in entries):
            continue
        request = SumRequest(path, algorithms.expand(one for entry in entries for one in entry.digests))
        (result,) = sum_each([request], jobs=jobs)
        read[path] = request, result
        if result.error is None:
            found = dict(zip(request.algorithms, result.pieces[0][2], strict=True))
            for entry in entries:
                algorithms.take(entry.digests, found)
    algorithms.conclude()
    return read


def _find_size(path: bytes) -> int:
    """Return the size of a regular file; of anything else, one that has it read last."""
    try:
        status = os.stat(path)
    except OSError:
        return 1 << 63
    return status.st_size if S_ISREG(status.st_mode) else 1 << 63


class _Names:
    """
    Names in the file system, for those of a list that are spelled otherwise.

    Args:
        listed: paths, as ``resolve`` returns them: the beginning of the list, or all of it.
    """

    def __init__(self, listed: Iterable[bytes]) -> None:
        self._paths = SamePaths(_list_names, ignores_case=True, has_backslashes=True)
        listed = dict.fromkeys(listed)
        self._taken = {os.path.normpath(path): path for path in listed}
        others = {path: found for path in listed if (found := self._search(path)) is not None}
        wanted = Counter(others.values())
        self._taken.update((found, path) for path, found in others.items() if found not in self._taken)
        self._taken.update((found, b"") for found, count in wanted.items() if count > 1)

    def find(self, path: bytes) -> bytes | None:
        """Return the other spelling under which a file exists; None if it exists as it is, or is missing."""
        found = self._search(path)
        return found if found is not None and self._taken.setdefault(found, path) == path else None

    def _search(self, path: bytes) -> bytes | None:
        return None if path == STDIN or os.path.lexists(path) else self._paths.find(path)


def _list_names(folder: bytes) -> list[bytes]:
    try:
        return os.listdir(folder or b".")
    except OSError:
        return []


class _Group(NamedTuple):
    """Consecutive lines about one file, and its reading if it was read before its turn."""

    path: bytes
    entries: Sequence[ManifestEntry]
    request: SumRequest
    result: FileSum | None


class _Lines:
    """Lines of a manifest that were read but not answered yet."""

    def __init__(self, manifest: Manifest, name: bytes, jobs: int | None, *, is_stdin: bool) -> None:
        self._manifest = manifest
        self._name = name
        self._jobs = jobs
        self._is_stdin = is_stdin
        self._waiting: deque[BadLine | _Group] = deque()
        self.failure: OSError | None = None

    def find_requests(self) -> Iterator[SumRequest]:
        """Yield read requests, one for consecutive lines about the same file that was not read yet."""
        groups = _group(self._read())
        ahead = list(_take_ahead(groups))
        files = [(self._resolve(some), some) for some in ahead if not isinstance(some, BadLine)]
        names, algorithms = _Names(path for path, _ in files), self._manifest.algorithms
        read = find_algorithms(algorithms, [(names.find(path) or path, some) for path, some in files], jobs=self._jobs)
        for some in chain(ahead, groups):
            if isinstance(some, BadLine):
                self._waiting.append(some)
                continue
            path = self._resolve(some)
            place = names.find(path) or path
            entries = [entry._replace(digests=algorithms.name_all(entry.digests)) for entry in some]
            request = SumRequest(place, algorithms.expand(chain.from_iterable(entry.digests for entry in entries)))
            early, result = read.pop(place, (request, None))
            if not request.algorithms:  # of an unknown algorithm, so reading the file shows nothing
                result = _look_at(place)
            elif set(request.algorithms) <= set(early.algorithms):
                request = early
            else:
                result = None
            self._waiting.append(_Group(path, entries, request, result))
            if result is None:
                yield request

    def _resolve(self, entries: Sequence[ManifestEntry]) -> bytes:
        return resolve(self._manifest, self._name, entries[0].path)

    def answer(self, result: FileSum) -> Iterator[Checked | BadLine]:
        """Yield the results for all lines up to those about this file."""
        yield from self.take_answered()
        group = self._waiting.popleft()
        assert isinstance(group, _Group)
        yield from _judge(group, result)

    def take_answered(self) -> Iterator[Checked | BadLine]:
        """Yield what can be said of the lines before the next request."""
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, BadLine):
                yield first
            elif first.result is not None:
                yield from _judge(first, first.result)
            else:
                return
            self._waiting.popleft()

    def _read(self) -> Iterator[ManifestEntry | BadLine]:
        try:
            for item in self._manifest.read():
                is_itself = self._is_stdin and isinstance(item, ManifestEntry) and item.path == STDIN
                yield BadLine(item.line) if is_itself else item
        except OSError as error:
            self.failure = error


def _judge(group: _Group, result: FileSum) -> Iterator[Checked]:
    """Compare a file with its lines."""
    found_as = result.path if result.path != group.path else None
    found = dict(zip(group.request.algorithms, result.pieces[0][2], strict=True)) if result.pieces else {}
    for entry in group.entries:
        if result.error is not None:
            verdict = LineVerdict.UNREADABLE
        elif not entry.digests:
            verdict = LineVerdict.UNKNOWN
        else:
            is_same_size = entry.size_bytes in (None, result.size_bytes)
            is_same = is_same_size and all(found[algorithm] == digest for algorithm, digest in entry.digests.items())
            verdict = LineVerdict.OK if is_same else LineVerdict.FAILED
        yield Checked(group.path, verdict, result.error, found_as)


def _look_at(path: bytes) -> FileSum:
    """Return what can be said of a file that need not be read: whether it is there."""
    is_there = path == STDIN or os.path.lexists(path)
    return FileSum(path, 0, (), None if is_there else FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))


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
