"""
List folders before it is their turn, many in one call of the C core, in threads beside the walk.

While the consumer of a walk works on what one call found, the next calls are under way. Nothing is listed early in a
small tree: there the thread would cost more than it saves, and a tree that changes meanwhile is seen as it is.

    I1  The order of the folders follows from what is in them alone: no call begins sooner because another was quick.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import NamedTuple, ParamSpec

from integrity.files.excludes import Excludes
from integrity.files.folder_batch import ENDED, FOLDER, LISTED, SYMLINK, TOO_LARGE, FolderBatch, Found
from integrity.files.listing import FolderFiles, Listing, Seen, Skip
from integrity.model import SkipReason

_FILES_IN_CALL = 4096
"""A call ends when it has found so many: some milliseconds, beside which what a call costs is nothing."""

_FOLDERS_IN_CALL = 512
_THREADS = 2
"""A disk answers two at least as fast as one: where names lie is as good as random, so none of them reads on."""

_CALLS_AHEAD = 2 * _THREADS
"""With one for each, threads would wait when a call that found little is followed by one that finds much."""

_MANY_FOLDERS = 8
_MANY_FILES = 1024
"""Folders that are known, or files that the last call found: fewer are not worth threads."""

_CHUNKS_IN_FOLDER = 4
"""Larger folders are listed in parts, or their memory would have no end."""

_name_of = itemgetter(0)

P = ParamSpec("P")


class Early(NamedTuple):
    """A folder that was listed to its end."""

    files: FolderFiles
    fingerprint: bytes
    other_count: int
    skips: list[Skip]


Turn = tuple[bytes, Early | None, bool]
"""A folder and what was found. Or nothing, if the walk has to list it: is it only too large (``begin_large``)?"""


class Ahead:
    """
    Give the folders of a tree in turn, listed before.

    Args:
        root_fd: of the walk, as all others here.
        start: the folder to begin with.
        excludes: what to leave out.
        stays_on_mount: leave to the walk what lies on another mount than the root.
        leave_out: (st_dev, st_ino) of files; leave the folders that they lie in to the walk.
        avoid: folders that are always left to the walk.
        is_in_turn: list no folder before it is its turn.
        chunk: the most names in one listing.
    """

    def __init__(
        self,
        root_fd: int,
        start: bytes,
        excludes: Excludes,
        *,
        stays_on_mount: bool,
        leave_out: Iterable[tuple[int, int]],
        avoid: frozenset[bytes],
        is_in_turn: bool,
        chunk: int,
    ) -> None:
        self._make_batch = partial(
            FolderBatch,
            root_fd,
            stays_on_mount=stays_on_mount,
            leave_out=list(leave_out),
            names_room=_CHUNKS_IN_FOLDER * chunk,
            enough=_FILES_IN_CALL,
        )
        self._batches: SimpleQueue[FolderBatch] = SimpleQueue()  # those that no thread uses
        self._excludes = excludes
        self._avoid = avoid
        self._is_in_turn = is_in_turn
        self._chunk = chunk
        self._pending = [start]  # known and not asked for yet; the next one stands last
        self._calls: deque[tuple[list[bytes], Future[Found]]] = deque()
        self._last_found = 0
        self._executor: ThreadPoolExecutor | None = None

    def find_folders(self) -> Iterator[Turn]:
        """Give the folders, a folder before what is in it."""
        while self._pending or self._calls:
            self._go_on()
            if self._calls:
                asked, call = self._calls.popleft()
                arrived = self._take(asked, call.result())
                self._go_on()
                yield from arrived
            else:
                asked = [self._pending.pop()]
                yield from self._take(asked, self._list(asked))

    def begin_large(self, folder: bytes, fd: int, subfolders: list[bytes]) -> Generator[Listing, None, bool]:
        """
        List a large folder in parts, while the consumer works on the part before.

        Args:
            folder: its path.
            fd: the open folder, at its beginning.
            subfolders: gets the folders to be walked.

        Returns:
            Whether it was listed to its end: what may be left, from the position of ``fd`` on, is for the walk to list.
        """
        call = self._submit(self._list_next, fd)
        try:
            while True:
                found = call.result()
                status = found.folders[0][0]
                if status == ENDED:
                    yield Listing(folder, [], False, True, [], None)
                    return True
                if status != LISTED:
                    return False
                call = self._submit(self._list_next, fd)
                found_here, skips = self._sort_out(folder, zip(found.others, found.kinds, strict=False))
                subfolders += found_here
                (files,) = found.files()
                yield self._make_listing(folder, files, skips, False, False, None)
        finally:
            call.exception()  # nobody may close the folder before

    def add(self, subfolders: Sequence[bytes]) -> None:
        """Tell the folders in one that the walk has listed itself, by name."""
        self._pending += reversed(subfolders)

    def close(self) -> None:
        """End the threads."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def _go_on(self) -> None:
        """Keep the threads at work, if there is enough of it."""
        while len(self._calls) < _CALLS_AHEAD and self._pending and self._has_many():
            asked = self._pending[: -_FOLDERS_IN_CALL - 1 : -1]
            del self._pending[-len(asked) :]
            self._calls.append((asked, self._submit(self._list, asked)))

    def _list(self, folders: Sequence[bytes]) -> Found:
        with self._use_batch() as batch:
            return batch.list(folders)

    def _list_next(self, fd: int) -> Found:
        with self._use_batch() as batch:
            return batch.list_next(fd, self._chunk)

    @contextmanager
    def _use_batch(self) -> Iterator[FolderBatch]:
        try:
            batch = self._batches.get_nowait()
        except Empty:
            batch = self._make_batch()
        try:
            yield batch
        finally:
            self._batches.put(batch)

    def _submit(self, function: Callable[P, Found], *args: P.args, **kwargs: P.kwargs) -> Future[Found]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(_THREADS, "list")
        return self._executor.submit(function, *args, **kwargs)

    def _has_many(self) -> bool:
        return not self._is_in_turn and (len(self._pending) >= _MANY_FOLDERS or self._last_found >= _MANY_FILES)

    def _take(self, asked: list[bytes], found: Found) -> list[Turn]:
        """Take what was found, and learn which folders come next."""
        others = zip(found.others, found.kinds, strict=False)
        arrived: list[Turn] = []
        following: list[bytes] = []
        last_found = 0
        for folder, result, files in zip(asked, found.folders, found.files(), strict=False):
            status, file_count, other_count, _, fingerprint = result
            subfolders, skips = self._sort_out(folder, islice(others, other_count)) if other_count else ([], [])
            if status != LISTED or folder in self._avoid:
                arrived.append((folder, None, status == TOO_LARGE and folder not in self._avoid))
            else:
                arrived.append((folder, Early(files, fingerprint, other_count, skips), False))
                following += subfolders
            last_found += file_count
        following += asked[len(found.folders) :]
        self._pending += reversed(following)
        self._last_found = last_found
        return arrived

    def find_listings(self, folder: bytes, early: Early) -> Iterator[Listing]:
        """Make the listings of a folder."""
        chunk, files, skips = self._chunk, early.files, early.skips
        file_count = len(files)
        count = file_count + early.other_count
        if count < chunk:
            yield self._make_listing(folder, files, skips, True, True, early.fingerprint)
            return
        for start in range(0, count + 1, chunk):
            part = files[start : start + chunk]
            others = slice(max(0, start - file_count), max(0, start + chunk - file_count))
            is_last = start + chunk > count
            yield self._make_listing(folder, part, skips[others], False, is_last, None)

    def _make_listing(
        self,
        folder: bytes,
        files: Sequence[Seen],
        skips: list[Skip],
        is_whole: bool,
        is_last: bool,
        fingerprint: bytes | None,
    ) -> Listing:
        names = files.names if isinstance(files, FolderFiles) else b"\0".join(map(_name_of, files))
        if names and self._excludes.may_match(names):
            left = self._leave_out(folder, files, skips)
            if len(left) != len(files):
                files, fingerprint = left, None
        return Listing(folder, files, is_whole, is_last, skips, None, fingerprint)

    def _leave_out(self, folder: bytes, files: Sequence[Seen], skips: list[Skip]) -> Sequence[Seen]:
        prefix = folder + b"/" if folder else b""
        excluded = [seen.name for seen in files if self._excludes.matches(prefix + seen.name, seen.name, False)]
        if not excluded:
            return files
        skips += [Skip(prefix + name, SkipReason.EXCLUDED, False) for name in excluded]
        left_out = frozenset(excluded)
        return [seen for seen in files if seen.name not in left_out]

    def _sort_out(self, folder: bytes, others: Iterable[tuple[bytes, int]]) -> tuple[list[bytes], list[Skip]]:
        """Tell what the names are that are no regular files: folders to be walked, and skips."""
        prefix = folder + b"/" if folder else b""
        is_excluded = self._excludes.matches
        subfolders: list[bytes] = []
        skips: list[Skip] = []
        for name, kind in others:
            path = prefix + name
            if kind != FOLDER:
                skips.append(Skip(path, SkipReason.SYMLINK if kind == SYMLINK else SkipReason.SPECIAL, False))
            elif is_excluded(path, name, True):
                skips.append(Skip(path, SkipReason.EXCLUDED, True))
            else:
                subfolders.append(path)
        return subfolders, skips
