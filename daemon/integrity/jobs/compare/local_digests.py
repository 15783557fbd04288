"""
Read local files once to test digests that a copy states but the catalog does not record.

The same pass shows whether the file is what was recorded, so it verifies the file as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from integrity.catalog.rows import FileRecord
from integrity.copies.part_digests import PartsHasher, guess_part_bytes, split_evenly
from integrity.copies.protocol import KINDS, Kind, Published
from integrity.errors import ReadError, ReadInterrupted
from integrity.files.span import ReadMode
from integrity.hashing.digests import Want
from integrity.hashing.stored_digests import Hasher
from integrity.hashing.tasks import Done, Failed, Partial, Task
from integrity.jobs.compare.copy_answer import pick_checksums
from integrity.jobs.judge.content_diff import Difference, compare_blocks, compare_content
from integrity.model import FileId, Reading

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

T = TypeVar("T")
_Make = Callable[[], Hasher]

_ALGORITHMS = {kind: algorithm for algorithm, kind in KINDS.items()}


class FileMatch(NamedTuple):
    """
    How a file's content compares with the record and with what a copy states.

    Attributes:
        is_recorded: the content is what was recorded.
        matches: per stated digest, whether it matches; None if unknown, or if other digests outweigh it.
        reading: of the local file.
    """

    is_recorded: bool
    matches: tuple[bool | None, ...]
    reading: Reading

    @property
    def is_match(self) -> bool | None:
        """Return whether the content is the copy's; None if no digest decides."""
        known = [match for match in self.matches if match is not None]
        return all(known) if known else None


EarlyMatches = dict[FileId, tuple[tuple[Published, ...], FileMatch]]
"""By file: what was looked for when the file was read before, and what was found."""


class MatchRequest(NamedTuple, Generic[T]):
    """A file to read for the digests stated of its copy; ``tag`` is returned with the answer."""

    tag: T
    record: FileRecord
    published: tuple[Published, ...]


class _MatchTask(NamedTuple):
    """What to compute for one file: for each stated digest the candidates, one of which should match."""

    tag: object
    record: FileRecord
    published: tuple[Published, ...]
    makes: tuple[tuple[_Make, ...], ...]


class LocalPass:
    """
    Read files of a root from their disk, several at a time, and compare each with the digests stated of its copy.

    Args:
        has_etags: an MD5 may be none, as the ETags of some stores, so checksums outweigh it.
        early: files that are not to be read again.
        jobs: threads; None for the run's default.
    """

    def __init__(
        self, run: RootRun, *, has_etags: bool = True, early: EarlyMatches | None = None, jobs: int | None = None
    ) -> None:
        self._run = run
        self._has_etags = has_etags
        self._early = early or {}
        self._engine = run.engine(ReadMode.DISK, jobs=jobs)
        self._bad: dict[bytes, list[int] | None] = {}  # of large files in progress; None: their blocks are lost

    def match(
        self, requests: Iterable[MatchRequest[T]], *, tick: Callable[[], None] = lambda: None
    ) -> Iterator[tuple[T, FileMatch | ReadError]]:
        """
        Read files and yield the answer for each, in any order.

        Args:
            requests: consumed as workers become free, in the caller's thread.
            tick: called in the caller's thread now and then, also while a large file is being read.

        Returns:
            Pairs of tag and answer; a ReadInterrupted for files the stopped run did not finish.
        """
        answered: list[tuple[T, FileMatch]] = []
        for result in self._engine.run(self._find_tasks(requests, answered), tick=tick):
            yield from _take_all(answered)
            order = result.task.tag
            assert isinstance(order, _MatchTask)
            tag: T = order.tag  # type: ignore[assignment]  # the caller's tag
            if isinstance(result, Partial):
                self._take_part(order.record, result)
            elif isinstance(result, Failed):
                self._bad.pop(result.task.path, None)
                yield tag, result.error
            else:
                yield tag, self._conclude(order, result)
        yield from _take_all(answered)

    def _find_tasks(self, requests: Iterable[MatchRequest[T]], answered: list[tuple[T, FileMatch]]) -> Iterator[Task]:
        """Yield the files to read; answer the others."""
        for request in requests:
            published, found = self._early.get(request.record.id, ((), None))
            if found is not None and set(request.published) <= set(published):
                known = dict(zip(published, found.matches, strict=True))
                answered.append((request.tag, found._replace(matches=tuple(map(known.get, request.published)))))
            else:
                yield self._make_task(request)

    def _make_task(self, request: MatchRequest[T]) -> Task:
        record = request.record
        size = record.witness.size_bytes
        makes = tuple(tuple(_find_makers(one, size)) for one in request.published)
        others = tuple(make for some in makes for make in some)
        want = Want(xxh3_128=True, block_xxh3_128=True, others=others)
        block_bytes = record.block_size_bytes or self._run.settings.block_size_bytes
        return Task(record.path, size, want, block_bytes, _MatchTask(request.tag, record, request.published, makes))

    def _take_part(self, record: FileRecord, part: Partial) -> None:
        with self._run.catalog.read() as connection:
            bad = compare_blocks(connection, record, part.blocks, part.first_block)
        known = self._bad.setdefault(record.path, [])
        self._bad[record.path] = None if bad is None or known is None else known + bad

    def _conclude(self, order: _MatchTask, done: Done) -> FileMatch:
        run, record, published = self._run, order.record, order.published
        run.counts.bytes_read += done.reading.bytes_read
        with run.catalog.read() as connection:
            found = compare_content(connection, record, done.reading, done.first_block)
        before = self._bad.pop(record.path, [])
        if before is None:
            found = Difference(is_same=False, is_catalog_damaged=True)
        values = iter(done.reading.others)
        has_size = done.reading.witness.size_bytes == record.witness.size_bytes
        matches = [
            _is_match(one, [next(values) for _ in makes], has_size=has_size, size_bytes=record.witness.size_bytes)
            for one, makes in zip(published, order.makes, strict=True)
        ]
        return FileMatch(
            found.is_same and not before,
            _weigh(published, matches) if self._has_etags else tuple(matches),
            done.reading,
        )


def _take_all(answered: list[tuple[T, FileMatch]]) -> Iterator[tuple[T, FileMatch]]:
    while answered:
        yield answered.pop(0)


def _find_makers(published: Published, size_bytes: int) -> Iterator[_Make]:
    """Yield constructors for a digest; several if a store's part sizes are unknown."""
    if published.kind is Kind.MD5_OF_PARTS:
        parts = published.list_parts(size_bytes)
        if parts is not None:
            yield partial(PartsHasher, parts)
        else:
            guesses = guess_part_bytes(size_bytes, published.parts)
            yield from (partial(PartsHasher, split_evenly(size_bytes, guess)) for guess in guesses)
        return
    make = _find_constructor(published.kind)
    if make is not None:
        yield make


@cache
def _find_constructor(kind: Kind) -> _Make | None:
    """Return the constructor for a kind of digest; None if the extra for it is not installed."""
    make = _ALGORITHMS[kind].find_constructor()
    try:
        make()
    except ModuleNotFoundError:
        return None
    return make


def _is_match(published: Published, values: Sequence[bytes], *, has_size: bool, size_bytes: int) -> bool | None:
    is_of_parts = published.kind is Kind.MD5_OF_PARTS
    if is_of_parts and not has_size:
        return None  # part boundaries are unknown
    if published.value in values:
        return True
    is_guess = is_of_parts and published.list_parts(size_bytes) is None
    return None if is_guess or not values else False


def _weigh(published: Sequence[Published], matches: Sequence[bool | None]) -> tuple[bool | None, ...]:
    """Ignore ETags where a checksum decides."""
    checksums = pick_checksums(published)
    has_checksum = any(match is not None for one, match in zip(published, matches, strict=True) if one in checksums)
    if not has_checksum:
        return tuple(matches)
    return tuple(match if one in checksums else None for one, match in zip(published, matches, strict=True))


def match_file(run: RootRun, record: FileRecord, published: Sequence[Published]) -> FileMatch | ReadError:
    """
    Read one file and compare it with stated digests; return the error if it can't be read.

    Raises:
        ReadInterrupted: the run was stopped.
    """
    request = MatchRequest(None, record, tuple(published))
    ((_, found),) = LocalPass(run, jobs=1).match([request])
    if isinstance(found, ReadInterrupted):
        raise found
    return found
