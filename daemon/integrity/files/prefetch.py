"""
List folders ahead of a walk, many per call of the C core, in background threads.

While the consumer of a walk works on the results of one call, the next calls run. Small trees are not listed ahead: a
thread would cost more than it saves, and the walk sees changes at once.

    I1  The order of the folders depends only on their contents, never on the speed of a call.

The C core lists ordinary folders; all others are left to the walk, which handles special cases and reports errors.
Importing this module raises ImportError if the extension cannot be loaded.
"""

from __future__ import annotations

import os
import struct
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal, NamedTuple, ParamSpec

from integrity._native import ffi, lib
from integrity.files.excludes import Excludes
from integrity.files.listing import FolderFiles, FolderListing, Seen, Skip
from integrity.model import SkipReason

if TYPE_CHECKING:
    from integrity._native import CBuffer

FOLDER = lib.FOLDER_BATCH_FOLDER
SYMLINK = lib.FOLDER_BATCH_SYMLINK
"""Kinds of names that are not regular files; anything else is a FIFO, socket or device."""

LISTED = lib.FOLDER_BATCH_LISTED
TOO_LARGE = lib.FOLDER_BATCH_TOO_LARGE
ENDED = lib.FOLDER_BATCH_ENDED
"""Statuses of folders; the walk must list folders with any other status."""

Folder = tuple[int, int, int, int, bytes]
"""Status, number of files, number of other names, length of the files' names in bytes, fingerprint of the files."""

_FOLDER = struct.Struct("=4Q16s")
"""``folder_batch_folder`` of native/folder_batch.h."""

_COLUMN_TYPES: tuple[Literal["q", "Q"], ...] = ("q", "q", "q", "q", "Q")
"""size_bytes, mtime_ns, ctime_ns, inode (folded as in ``stamps``), links."""

_VALUE_BYTES = 8
_NAME_BYTES = 64
"""Average space reserved per name; more than names need."""


class PrefetchedFolder:
    """
    The results of one call, in the order of the requested folders.

    Attributes:
        folders: those with a result.
        others: names of everything but regular files, all folders concatenated.
        kinds: one per name in ``others``.
    """

    __slots__ = ("_columns", "_file_names", "folders", "kinds", "others")

    def __init__(
        self,
        folders: list[Folder],
        file_names: bytes = b"",
        columns: Sequence[bytes] = (),
        other_names: bytes = b"",
        kinds: bytes = b"",
    ) -> None:
        self.folders = folders
        self.others = other_names.split(b"\0")
        self.kinds = kinds
        self._file_names = file_names
        self._columns = [memoryview(column).cast(type_) for column, type_ in zip(columns, _COLUMN_TYPES, strict=False)]

    def files(self) -> Iterator[FolderFiles]:
        """Yield the files of each folder."""
        at = text_at = 0
        for _, count, _, text_bytes, _ in self.folders:
            end, text_end = at + count, text_at + text_bytes
            names = self._file_names[text_at:text_end]
            yield FolderFiles(count, names, [column[at:end] for column in self._columns])
            at, text_at = end, text_end


class FolderBatch:
    """
    List folders of one root with the C core. Used by one thread at a time.

    Args:
        root_fd: from ``open_root``.
        stays_on_mount: skip folders on another mount than the root.
        leave_out: (st_dev, st_ino) of files; skip the folders that contain them.
        names_room: skip folders with more names than this.
        enough: start no further folder in a call that has found this many files.
    """

    def __init__(
        self, root_fd: int, *, stays_on_mount: bool, leave_out: Iterable[tuple[int, int]], names_room: int, enough: int
    ) -> None:
        self._root_fd = root_fd
        self._stays_on_mount = stays_on_mount
        self._marked = ffi.new("folder_batch_marked[]", list(leave_out))
        self._names_room = names_room
        self._enough = enough
        # Mapped, not allocated: only touched pages use memory.
        text_room = names_room * _NAME_BYTES
        self._columns = _map(names_room * _VALUE_BYTES * lib.FOLDER_BATCH_COLUMNS)
        self._kinds, self._file_names, self._other_names = _map(names_room), _map(text_room), _map(text_room)
        self._scratch = _map(lib.folder_batch_scratch_bytes(names_room))
        self._result = ffi.new("folder_batch_result *")
        self._result.names_room, self._result.text_room = names_room, text_room
        self._result.columns = ffi.from_buffer("uint64_t[]", self._columns)
        self._result.kinds = ffi.from_buffer("uint8_t[]", self._kinds)
        self._result.file_names = ffi.from_buffer("char[]", self._file_names)
        self._result.other_names = ffi.from_buffer("char[]", self._other_names)
        self._result.scratch = ffi.from_buffer("uint8_t[]", self._scratch)

    def list(self, folders: Sequence[bytes]) -> PrefetchedFolder:
        """
        List folders.

        Args:
            folders: relative to the root; at least one.

        Returns:
            The results of the first folders, at least of one.
        """
        count, joined, result = len(folders), b"\0".join(folders) + b"\0", self._result
        if joined.count(b"\0") != count:  # a NUL byte in a path: no such folder, and it would shift all paths after it
            return PrefetchedFolder([(lib.FOLDER_BATCH_NOT_MINE, 0, 0, 0, b"")] * count)
        counts = ffi.new("folder_batch_folder[]", count)
        result.folders = counts
        done = lib.folder_batch_list(
            self._root_fd, self._stays_on_mount, joined, len(joined), count, self._marked, len(self._marked),
            self._enough, result,
        )  # fmt: skip
        return self._collect(ffi.buffer(counts, done * _FOLDER.size))

    def list_next(self, fd: int, most_names: int) -> PrefetchedFolder:
        """
        List the next names of an open folder that is ``TOO_LARGE`` to list in one call.

        Returns:
            The result of one folder: ``LISTED`` for a part, ``ENDED`` if nothing was left. Any other status means that
            nothing was listed and the position is unchanged: the walk must list the rest.

        Raises:
            OSError: the position cannot be read or set.
        """
        position = os.lseek(fd, 0, os.SEEK_CUR)
        counts = self._result.folders = ffi.new("folder_batch_folder[]", 1)
        lib.folder_batch_continue(fd, most_names, self._marked, len(self._marked), self._result)
        found = self._collect(ffi.buffer(counts))
        if found.folders[0][0] not in (LISTED, ENDED):
            os.lseek(fd, position, os.SEEK_SET)
        return found

    def _collect(self, counts: CBuffer) -> PrefetchedFolder:
        """Copy the results out of the memory that the next call reuses."""
        result = self._result
        size, step = result.file_count * _VALUE_BYTES, self._names_room * _VALUE_BYTES
        return PrefetchedFolder(
            list(_FOLDER.iter_unpack(counts)),
            self._file_names[: result.file_text_bytes],
            [self._columns[at : at + size] for at in range(0, step * lib.FOLDER_BATCH_COLUMNS, step)],
            self._other_names[: result.other_text_bytes],
            self._kinds[: result.other_count],
        )


def _map(size_bytes: int) -> mmap:
    return mmap(-1, size_bytes, MAP_PRIVATE | MAP_ANONYMOUS)


_FILES_IN_CALL = 4096
"""A call ends after this many files: it then takes some milliseconds, and its overhead is negligible."""

_FOLDERS_IN_CALL = 512
_THREADS = 2
"""A disk serves two listings at least as fast as one: directory blocks are scattered, so sequential reads do not
help."""

_CALLS_AHEAD = 2 * _THREADS
"""With one call per thread, threads would idle when a call that found little is followed by one that finds much."""

_MANY_FOLDERS = 8
_MANY_FILES = 1024
"""Below these counts of known folders, or files found by the last call, threads do not pay off."""

_CHUNKS_IN_FOLDER = 4
"""Larger folders are listed in parts, to bound their memory."""

_name_of = itemgetter(0)

P = ParamSpec("P")


class Prefetched(NamedTuple):
    """A folder that was listed completely."""

    files: FolderFiles
    fingerprint: bytes
    other_count: int
    skips: list[Skip]


Turn = tuple[bytes, Prefetched | None, bool]
"""A folder and its listing. If None, the walk must list it; the flag means that it is only too large
(``begin_large``)."""


class FolderPrefetcher:
    """
    Yield the folders of a tree in order, listed ahead.

    Args:
        root_fd: of the walk; also valid for all other arguments.
        stays_on_mount: leave folders on another mount than the root to the walk.
        leave_out: (st_dev, st_ino) of files; leave the folders that contain them to the walk.
        avoid: folders that the walk must list.
        is_in_turn: list no folder ahead.
        chunk: maximum number of names per listing.
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
        self._batches: SimpleQueue[FolderBatch] = SimpleQueue()  # not in use by any thread
        self._excludes = excludes
        self._avoid = avoid
        self._is_in_turn = is_in_turn
        self._chunk = chunk
        self._pending = [start]  # known, not requested yet; the next one is last
        self._calls: deque[tuple[list[bytes], Future[PrefetchedFolder]]] = deque()
        self._last_found = 0
        self._executor: ThreadPoolExecutor | None = None

    def find_folders(self) -> Iterator[Turn]:
        """Yield the folders, each before its subfolders."""
        while self._pending or self._calls:
            self._continue()
            if self._calls:
                asked, call = self._calls.popleft()
                arrived = self._take(asked, call.result())
                self._continue()
                yield from arrived
            else:
                asked = [self._pending.pop()]
                yield from self._take(asked, self._list(asked))

    def begin_large(self, folder: bytes, fd: int, subfolders: list[bytes]) -> Generator[FolderListing, None, bool]:
        """
        List a large folder in parts, reading ahead while the consumer works.

        Args:
            fd: the open folder, at its beginning.
            subfolders: receives the folders to walk.

        Returns:
            Whether it was listed to its end; otherwise the walk must list the rest, from the position of ``fd``.
        """
        call = self._submit(self._list_next, fd)
        try:
            while True:
                found = call.result()
                status = found.folders[0][0]
                if status == ENDED:
                    yield FolderListing(folder, [], False, True, [], None)
                    return True
                if status != LISTED:
                    return False
                call = self._submit(self._list_next, fd)
                found_here, skips = self._sort_out(folder, zip(found.others, found.kinds, strict=False))
                subfolders += found_here
                (files,) = found.files()
                yield self._make_listing(folder, files, skips, False, False, None)
        finally:
            call.exception()  # the caller may close ``fd`` only after the last call

    def add(self, subfolders: Sequence[bytes]) -> None:
        """Add the subfolders, sorted by name, of a folder that the walk listed itself."""
        self._pending += reversed(subfolders)

    def close(self) -> None:
        """Stop the threads."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)

    def _continue(self) -> None:
        """Keep the threads busy if there is enough to list."""
        while len(self._calls) < _CALLS_AHEAD and self._pending and self._has_many():
            asked = self._pending[: -_FOLDERS_IN_CALL - 1 : -1]
            del self._pending[-len(asked) :]
            self._calls.append((asked, self._submit(self._list, asked)))

    def _list(self, folders: Sequence[bytes]) -> PrefetchedFolder:
        with self._use_batch() as batch:
            return batch.list(folders)

    def _list_next(self, fd: int) -> PrefetchedFolder:
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

    def _submit(
        self, function: Callable[P, PrefetchedFolder], *args: P.args, **kwargs: P.kwargs
    ) -> Future[PrefetchedFolder]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(_THREADS, "list")
        return self._executor.submit(function, *args, **kwargs)

    def _has_many(self) -> bool:
        return not self._is_in_turn and (len(self._pending) >= _MANY_FOLDERS or self._last_found >= _MANY_FILES)

    def _take(self, asked: list[bytes], found: PrefetchedFolder) -> list[Turn]:
        """Convert the results of a call, and queue the folders that follow."""
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
                arrived.append((folder, Prefetched(files, fingerprint, other_count, skips), False))
                following += subfolders
            last_found += file_count
        following += asked[len(found.folders) :]
        self._pending += reversed(following)
        self._last_found = last_found
        return arrived

    def find_listings(self, folder: bytes, prefetched: Prefetched) -> Iterator[FolderListing]:
        """Yield the listings of a folder."""
        chunk, files, skips = self._chunk, prefetched.files, prefetched.skips
        file_count = len(files)
        count = file_count + prefetched.other_count
        if count < chunk:
            yield self._make_listing(folder, files, skips, True, True, prefetched.fingerprint)
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
    ) -> FolderListing:
        names = files.names if isinstance(files, FolderFiles) else b"\0".join(map(_name_of, files))
        if names and self._excludes.may_match(names):
            left = self._leave_out(folder, files, skips)
            if len(left) != len(files):
                files, fingerprint = left, None
        return FolderListing(folder, files, is_whole, is_last, skips, None, fingerprint)

    def _leave_out(self, folder: bytes, files: Sequence[Seen], skips: list[Skip]) -> Sequence[Seen]:
        prefix = folder + b"/" if folder else b""
        excluded = [seen.name for seen in files if self._excludes.matches(prefix + seen.name, seen.name, False)]
        if not excluded:
            return files
        skips += [Skip(prefix + name, SkipReason.EXCLUDED, False) for name in excluded]
        left_out = frozenset(excluded)
        return [seen for seen in files if seen.name not in left_out]

    def _sort_out(self, folder: bytes, others: Iterable[tuple[bytes, int]]) -> tuple[list[bytes], list[Skip]]:
        """Split the names that are not regular files into folders to walk and skips."""
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
