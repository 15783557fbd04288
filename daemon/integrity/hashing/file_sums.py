"""
Digest files named one by one, in the order of their names: the work of ``sum``.

The engine reads them through a ``PlainReader``, as md5sum would. Decides which implementation computes which algorithm,
and restores the order of results; leaves output to others.

I1  Every request is answered once, in request order, by digests or an error.
I2  About ``_MOST_FILES`` files are in flight at most, so memory does not grow with their number (but with the number of
    pieces of one file). That many, so that the few large files among them are digested side by side.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import count, islice, repeat
from math import inf
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from integrity.errors import ReadError, Unreadable
from integrity.files.plain import LARGE_BYTES, STDIN, UNKNOWN_BYTES, PlainReader
from integrity.hashing.digests import Want
from integrity.hashing.engine import Engine
from integrity.hashing.stored_digests import MD5, XXH128, Algorithm, Hasher
from integrity.hashing.tasks import Answer, Done, DoneBatch, Failed, Task, TaskBatch, Work, singly
from integrity.model import Digests

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MOST_FILES = 131_072
_MOST_HINTS = 1024
_SIDE_BY_SIDE = 60
"""Large files per thread at a time: without blocks, this fills the widest lanes."""

_TICK_S = 0.05

_MD5, _XXH3_128 = Digests._fields.index("md5"), Digests._fields.index("xxh3_128")

T = TypeVar("T")

PieceSum = tuple[int, int, tuple[bytes, ...]]
"""Offset, length, and raw digests in the order of the requested algorithms."""


class FileSum(NamedTuple):
    """
    The digests of one file.

    Attributes:
        size_bytes: bytes read; 0 with an error.
        pieces: the whole file as one piece, or all its pieces (one for an empty file); empty with an error.
        error: why it could not be opened or read to its end.
    """

    path: bytes
    size_bytes: int
    pieces: Sequence[PieceSum]
    error: OSError | None


class SumRequest(NamedTuple):
    """A file, and the algorithms to digest it with."""

    path: bytes
    algorithms: tuple[Algorithm, ...]


class ListedPaths(NamedTuple):
    """Paths of regular files that a walk has just found; large ones must have been hinted at. Best many at a time."""

    paths: Sequence[bytes]


class Hint(NamedTuple):
    """A large file that will be requested later, so that reading can begin at once."""

    path: bytes
    size_bytes: int


def sum_files(
    paths: Iterable[bytes | ListedPaths | Hint],
    algorithms: Sequence[Algorithm],
    *,
    piece_bytes: int | None = None,
    jobs: int | None = None,
    idle: Callable[[], None] = lambda: None,
) -> Iterator[FileSum]:
    """
    Digest files, all with the same algorithms.

    Args:
        paths: taken as capacity permits, in the caller's thread; with hints at later ones.
        algorithms: computed side by side, in one pass.
        piece_bytes: size of the pieces to digest separately; None for whole files.
        jobs: number of threads; None for one per processor.
        idle: called in the caller's thread now and then, also while waiting for a result.
    """
    return _Summing(_Terms(tuple(algorithms), piece_bytes), jobs, idle).run(paths)


def sum_each(
    requests: Iterable[SumRequest], *, jobs: int | None = None, idle: Callable[[], None] = lambda: None
) -> Iterator[FileSum]:
    """Digest whole files, each with its own algorithms; otherwise as ``sum_files``."""
    return _Summing(None, jobs, idle).run(requests)


class _Terms:
    """How files are digested with given algorithms."""

    def __init__(self, algorithms: tuple[Algorithm, ...], piece_bytes: int | None = None) -> None:
        self._algorithms = algorithms
        self._piece_bytes = piece_bytes
        if piece_bytes is None:
            others = tuple(one.find_constructor() for one in algorithms if one not in (MD5, XXH128))
            self.want = Want(md5=MD5 in algorithms, xxh3_128=XXH128 in algorithms, others=others)
        else:
            constructors = [one.find_constructor() for one in algorithms]
            self.want = Want(others=(partial(_PieceHasher, constructors, piece_bytes),))

    def sum_all(self, done: DoneBatch) -> Iterator[FileSum]:
        """Return the digests of files that were read together."""
        digests = self._in_order(done.readings.digests, list(zip(*done.others, strict=True)))
        sizes = done.readings.sizes_bytes
        rows = zip(sizes, zip(*digests, strict=True), strict=True)
        cut = self._cut
        pieces = [((0, *row),) for row in rows] if self._piece_bytes is None else [cut(*row) for row in rows]
        return map(FileSum._make, zip(done.tasks.paths, sizes, pieces, repeat(None), strict=False))

    def sum_one(self, done: Done) -> FileSum:
        """Return the digests of one file."""
        size = done.reading.bytes_read
        digests = self._in_order(done.reading.digests, done.reading.others)
        return FileSum(done.task.path, size, self._cut(size, tuple(digests)), None)

    def _in_order(self, digests: Sequence[T | None], others: Sequence[T]) -> list[T]:
        """Sort computed digests, of one file or as columns, into the order of the algorithms."""
        if self._piece_bytes is not None:
            return list(others)
        rest = iter(others)
        computed = {MD5: digests[_MD5], XXH128: digests[_XXH3_128]}
        return [cast("T", computed[one] if one in computed else next(rest)) for one in self._algorithms]

    def _cut(self, size_bytes: int, digests: tuple[bytes, ...]) -> tuple[PieceSum, ...]:
        if self._piece_bytes is None:
            return ((0, size_bytes, digests),)
        (packed,), step = digests, self._piece_bytes
        row = Struct("".join(f"{one.digest_bytes}s" for one in self._algorithms))
        begins = range(0, size_bytes, step) or [0]
        rows = zip(begins, row.iter_unpack(packed), strict=True)
        return tuple((begin, min(step, size_bytes - begin), some) for begin, some in rows)


class _PieceHasher:
    """Digest each piece of a stream; the result is all digests concatenated."""

    def __init__(self, constructors: Sequence[Callable[[], Hasher]], piece_bytes: int) -> None:
        self._constructors = constructors
        self._piece_bytes = piece_bytes
        self._done: list[bytes] = []
        self._begin()

    def _begin(self) -> None:
        self._hashers = [make() for make in self._constructors]
        self._left = self._piece_bytes

    def update(self, data: Buffer) -> None:
        """Append bytes."""
        view = memoryview(data)
        while len(view):
            if not self._left:
                self._end()
                self._begin()
            piece, view = view[: self._left], view[self._left :]
            self._left -= len(piece)
            for hasher in self._hashers:
                hasher.update(piece)

    def _end(self) -> None:
        self._done += [hasher.digest() for hasher in self._hashers]

    def digest(self) -> bytes:
        """Return the digests of all pieces; an empty stream is one piece."""
        return b"".join([*self._done, *(hasher.digest() for hasher in self._hashers)])


class _Summing:
    """One call: pass files to the engine ahead of their turn, and yield their digests in order."""

    def __init__(self, terms: _Terms | None, jobs: int | None, idle: Callable[[], None]) -> None:
        self._terms = terms  # for all files; None: each has its own
        self._terms_of: dict[tuple[Algorithm, ...], _Terms] = {}
        self._terms_by_want: dict[int, _Terms] = {}
        self._jobs = jobs
        self._idle = idle
        self._numbers = count()
        self._turns: deque[int] = deque()  # numbers of the requested files, in order
        self._sums: dict[int, FileSum] = {}  # results that wait for their turn
        self._begun: dict[bytes, int] = {}  # hinted files
        self._too_many: set[bytes] = set()  # hinted files that were not begun

    def run(self, requests: Iterable[bytes | ListedPaths | Hint | SumRequest]) -> Iterator[FileSum]:
        """Answer all requests in order."""
        engine = Engine(
            PlainReader(), jobs=self._jobs, stall_s=inf, side_by_side=_SIDE_BY_SIDE, poll_interval_s=_TICK_S
        )
        with closing(engine.run_batches(self._find_work(requests), tick=self._idle)) as answers:
            for answer in answers:
                self._take(answer)
                yield from self._take_turns()
        yield from self._take_turns()  # files answered before they were requested

    def _take_turns(self) -> Iterator[FileSum]:
        while self._turns and self._turns[0] in self._sums:
            yield self._sums.pop(self._turns.popleft())

    def _find_work(self, requests: Iterable[bytes | ListedPaths | Hint | SumRequest]) -> Iterator[Work | None]:
        """Yield files for the engine; yield None while too many are in flight."""
        for request in requests:
            if isinstance(request, Hint):
                yield from self._begin(request)
            elif isinstance(request, ListedPaths):
                yield from self._make_batches(request.paths)
            elif isinstance(request, SumRequest):
                yield from self._make_tasks(request.path, self._find_terms(request.algorithms))
            else:
                assert self._terms is not None
                yield from self._make_tasks(request, self._terms)
            while len(self._turns) > _MOST_FILES:
                yield None

    def _begin(self, hint: Hint) -> Iterator[Task]:
        """Begin a large file before it is requested."""
        assert self._terms is not None, "hints come with the same algorithms for all"
        if len(self._begun) == _MOST_HINTS:
            self._too_many.add(hint.path)
        elif hint.path not in self._begun:
            number = self._begun[hint.path] = next(self._numbers)
            yield Task(hint.path, hint.size_bytes, self._terms.want, LARGE_BYTES, number)

    def _make_tasks(self, path: bytes, terms: _Terms, size_bytes: int | None = None) -> Iterator[Task]:
        """Register a request; yield its task unless it has begun."""
        number = self._begun.pop(path, None)
        self._turns.append(next(self._numbers) if number is None else number)
        if number is None:
            size = _find_size(path) if size_bytes is None else size_bytes
            yield Task(path, size, terms.want, LARGE_BYTES, self._turns[-1])

    def _make_batches(self, paths: Sequence[bytes]) -> Iterator[Work]:
        """Register requests for files that are small, except for hinted ones."""
        terms = self._terms
        assert terms is not None
        if not (self._begun.keys().isdisjoint(paths) and self._too_many.isdisjoint(paths)):
            for path in paths:
                yield from self._make_tasks(path, terms, None if path in self._too_many else 0)
            return
        count = len(paths)
        numbers = list(islice(self._numbers, count))
        self._turns.extend(numbers)
        yield TaskBatch(paths, [0] * count, [terms.want] * count, numbers, [None] * count, [()] * count, LARGE_BYTES)

    def _find_terms(self, algorithms: tuple[Algorithm, ...]) -> _Terms:
        if algorithms not in self._terms_of:
            terms = self._terms_of[algorithms] = _Terms(algorithms)
            self._terms_by_want[id(terms.want)] = terms
        return self._terms_of[algorithms]

    def _take(self, answer: Answer) -> None:
        if isinstance(answer, DoneBatch) and self._terms is not None:
            numbers = cast("Sequence[int]", answer.tasks.tags)
            self._sums.update(zip(numbers, self._terms.sum_all(answer), strict=True))
            return
        for one in singly(answer):
            number = cast("int", one.task.tag)
            if isinstance(one, Done):
                terms = self._terms or self._terms_by_want[id(one.task.want)]
                self._sums[number] = terms.sum_one(one)
            elif isinstance(one, Failed):
                self._sums[number] = FileSum(one.task.path, 0, (), _as_os_error(one.error))


def _find_size(path: bytes) -> int:
    """Return how much there is to read, as far as known; 0 if stat fails."""
    if path == STDIN:
        return UNKNOWN_BYTES
    try:
        status = os.stat(path)
    except OSError:
        return 0  # reading it reports the error
    is_file = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return status.st_size if is_file else UNKNOWN_BYTES


def _as_os_error(error: ReadError) -> OSError:
    assert isinstance(error, Unreadable), "a plain reader raises nothing else"
    return OSError(error.errno, os.strerror(error.errno))
