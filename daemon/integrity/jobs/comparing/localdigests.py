"""
Does a file's content have a digest that a copy states? For digests that are not kept: the file is read once for all.

The same pass tells whether the file is what was recorded, so it verifies the file as well. Threads read and digest;
what is recorded is looked up by their owner, who alone uses the catalog.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, Self, TypeVar

from integrity.copies.etags import PartsHasher, guess_part_bytes, list_parts, split_evenly
from integrity.copies.protocol import Kind, Published
from integrity.errors import ReadError, ReadInterrupted, show_path
from integrity.files.buffers import Buffers
from integrity.files.read import Reader, ReadMode
from integrity.hashing.algorithms import BLAKE3, CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXH64, XXH128
from integrity.hashing.cutter import pieces
from integrity.hashing.digests import FileHasher, Want
from integrity.jobs.comparing.voices import UNNAMED, pick_checksums
from integrity.jobs.contents import compare_content
from integrity.model import Reading

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun

T = TypeVar("T")

_BUFFER_BYTES = 8 << 20
_WAITING_AT_MOST = 64  # files that are being read, or were and wait to be taken
_ALGORITHMS = {
    Kind.MD5: MD5,
    Kind.SHA1: SHA1,
    Kind.SHA256: SHA256,
    Kind.SHA512: SHA512,
    Kind.XXH64: XXH64,
    Kind.XXH3_128: XXH128,
    Kind.BLAKE3: BLAKE3,
    Kind.CRC32: CRC32,
    Kind.CRC32C: CRC32C,
    Kind.CRC64NVME: CRC64NVME,
}


class FileMatch(NamedTuple):
    """
    What a file's content has to do with what is recorded and with what a copy states.

    Attributes:
        is_recorded: it is what is recorded.
        matches: for each stated digest whether it has it; None where that can't be told, or others outweigh it.
        reading: the file, as it was read.
    """

    is_recorded: bool
    matches: tuple[bool | None, ...]
    reading: Reading

    @property
    def is_match(self) -> bool | None:
        """Say whether the content is the copy's; None where none of the digests can tell."""
        known = [match for match in self.matches if match is not None]
        return all(known) if known else None


class _Hasher(Protocol):
    def update(self, data: Buffer, /) -> object: ...

    def digest(self) -> bytes: ...


class _Found(NamedTuple):
    """What a thread found out: the file as it was read, and for each stated digest whether it has it."""

    reading: Reading
    matches: tuple[bool | None, ...]


class _Asked(NamedTuple, Generic[T]):
    tag: T
    record: FileRecord
    found: Future[_Found]


class LocalPass(Generic[T]):
    """
    Read files of a run's root from their disk, several at a time, and hold each against what is stated of its copy.

    To be used as a context manager, by one thread; on leaving no thread is left. Answers come in the order of asking,
    each with what it was tagged with.

    Args:
        run: of the root.
        is_unnamed: the copy does not name its algorithms, so that a digest may be of another one that is as long.
    """

    def __init__(self, run: RootRun, *, is_unnamed: bool = False) -> None:
        self._run = run
        self._is_unnamed = is_unnamed
        self._jobs = run.context.jobs or (1 if run.device.is_rotational else len(os.sched_getaffinity(0)))
        self._asked: deque[_Asked[T]] = deque()
        self._pool: ThreadPoolExecutor | None = None
        self._reader: Reader | None = None
        self._free: SimpleQueue[Buffers] = SimpleQueue()

    def __enter__(self) -> Self:
        """Start nothing yet: most comparisons need no file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Let the threads end; files that none has begun are not read."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        while not self._free.empty():
            self._free.get().close()

    def ask(self, tag: T, record: FileRecord, published: Sequence[Published]) -> None:
        """Have a file read."""
        if self._pool is None or self._reader is None:
            self._pool = ThreadPoolExecutor(self._jobs, thread_name_prefix="match")
            self._reader = self._run.reader(ReadMode.DISK)
            for _ in range(self._jobs):
                self._free.put(Buffers(_BUFFER_BYTES, 1))
        found = self._pool.submit(self._match, self._reader, record, tuple(published))
        self._asked.append(_Asked(tag, record, found))

    def take(self, *, is_last: bool = False) -> Iterator[tuple[T, FileMatch | ReadError]]:
        """
        Give the answers that are there; wait where too many files were asked for.

        Args:
            is_last: wait for all. A file that was asked for when the run was stopped has ReadInterrupted.
        """
        while self._asked and (is_last or self._asked[0].found.done() or len(self._asked) > _WAITING_AT_MOST):
            tag, record, future = self._asked.popleft()
            try:
                found = future.result()
            except ReadError as error:
                yield tag, error
                continue
            yield tag, self._conclude(record, found)

    def end(self) -> Iterator[tuple[T, FileMatch | ReadError]]:
        """Give the answers that are there or under way, and forget the files that no thread has begun."""
        self._asked = deque(one for one in self._asked if not one.found.cancel())
        yield from self.take(is_last=True)

    def match(
        self, files: Iterable[tuple[T, FileRecord, Sequence[Published]]]
    ) -> Iterator[tuple[T, FileMatch | ReadError]]:
        """Have files read, and give the answer for each."""
        for tag, record, published in files:
            self.ask(tag, record, published)
            yield from self.take()
        yield from self.take(is_last=True)

    def _conclude(self, record: FileRecord, found: _Found) -> FileMatch:
        run = self._run
        run.counts.bytes_read += found.reading.bytes_read
        with run.catalog.read() as connection:
            difference = compare_content(connection, run.catalog.sealer, record, found.reading)
        return FileMatch(difference.is_same, found.matches, found.reading)

    def _match(self, reader: Reader, record: FileRecord, published: tuple[Published, ...]) -> _Found:
        """Read a file, in a thread."""
        buffers = self._free.get()
        try:
            return self._read(reader, record, published, buffers)
        finally:
            self._free.put(buffers)

    def _read(self, reader: Reader, record: FileRecord, published: tuple[Published, ...], buffers: Buffers) -> _Found:
        stop = self._run.context.stop
        block_bytes = record.block_size_bytes or self._run.settings.block_size_bytes
        want = Want(xxh3_128=True, block_xxh3_128=True)
        if stop.is_set():
            raise ReadInterrupted(f"reading {show_path(record.path)} was interrupted")
        with reader.open(record.path) as file:
            own = FileHasher(want, file.size_bytes, block_bytes)
            others = [_make_hashers(one, file.size_bytes, is_unnamed=self._is_unnamed) for one in published]
            for segment in file.segments(buffers):
                if stop.is_set():
                    raise ReadInterrupted(f"reading {show_path(record.path)} was interrupted")
                own.feed(segment)
                for piece in pieces(segment):
                    for hasher in (hasher for hashers in others for hasher in hashers):
                        hasher.update(piece)
            witness = file.finish()
            digests = own.digests()
            reading = Reading(witness, digests, own.take_blocks()[1], file.how, file.bytes_read)
        size = witness.size_bytes
        matches = [_is_match(one, hashers, size) for one, hashers in zip(published, others, strict=True)]
        return _Found(reading, _weigh(published, matches))


def _make_hashers(published: Published, size_bytes: int, *, is_unnamed: bool) -> list[_Hasher]:
    """Make what computes a digest; several where its algorithm, or how a store's parts were cut, is not known."""
    if is_unnamed and published.kind in UNNAMED:
        return [_ALGORITHMS[kind].find_constructor()() for kind in (published.kind, UNNAMED[published.kind])]
    if published.kind is not Kind.MD5_OF_PARTS:
        make: Callable[[], _Hasher] = _ALGORITHMS[published.kind].find_constructor()
        try:
            return [make()]
        except ModuleNotFoundError:  # of an extra
            return []
    parts = list_parts(size_bytes, published)
    if parts is not None:
        return [PartsHasher(parts)]
    return [PartsHasher(split_evenly(size_bytes, guess)) for guess in guess_part_bytes(size_bytes, published.parts)]


def _is_match(published: Published, hashers: Sequence[_Hasher], size_bytes: int) -> bool | None:
    if any(hasher.digest() == published.value for hasher in hashers):
        return True
    is_guess = published.kind is Kind.MD5_OF_PARTS and list_parts(size_bytes, published) is None
    return None if is_guess or not hashers else False


def _weigh(published: Sequence[Published], matches: Sequence[bool | None]) -> tuple[bool | None, ...]:
    """Have ETags say nothing where a checksum says something."""
    checksums = pick_checksums(published)
    has_checksum = any(match is not None for one, match in zip(published, matches, strict=True) if one in checksums)
    if not has_checksum:
        return tuple(matches)
    return tuple(match if one in checksums else None for one, match in zip(published, matches, strict=True))


def match_file(run: RootRun, record: FileRecord, published: Sequence[Published]) -> FileMatch:
    """
    Read one file.

    Raises:
        ReadError: of the kind that fits.
    """
    with LocalPass[None](run) as matching:
        ((_, found),) = matching.match([(None, record, published)])
    if isinstance(found, ReadError):
        raise found
    return found
