"""
List folders before it is their turn, many in one call of the C core, in a thread beside the walk.

The walk goes depth first and asks for one folder at a time; what it will ask for next is known from the folders above.
So as many as make a call worth its while are listed together, and the next call runs while what the last one found is
worked on. What was listed early waits here, most of it as the bytes that the C core wrote, and only so much of it.

Nothing is listed early in a small tree: there the thread would cost more than it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from integrity.files.excludes import Excludes
from integrity.files.folder_batch import FOLDER, LISTED, SYMLINK, FolderBatch, Found
from integrity.files.listing import Listing, Seen, Skip
from integrity.model import SkipReason

_FILES_IN_CALL = 4096
"""A call ends when it has found so many: some milliseconds, beside which what a call costs is nothing."""

_FOLDERS_IN_CALL = 512
_MOST_WAITING = 8 * _FILES_IN_CALL
"""So many files may wait for their turn; then only the folder that is asked for is listed."""

_WORTH_A_THREAD = 32
"""Known folders; with fewer each call would wait for the one before anyway."""

_CHUNKS_IN_FOLDER = 16
"""Larger folders are left to the walk: they are taken whole here, and the memory for that has to end somewhere."""

_name_of = itemgetter(0)


class Early(NamedTuple):
    """A folder that was listed to its end before it was asked for."""

    found: Found
    first: int  # where its files begin in ``found``
    file_count: int
    other_count: int
    subfolders: Sequence[bytes]  # those to be walked, by name
    skips: list[Skip]


class Ahead:
    """
    Give folders in the order in which a walk wants them, listed before.

    Args:
        root_fd: of the walk, as all others here.
        excludes: what to leave out.
        stays_on_mount: leave to the walk what lies on another mount than the root.
        leave_out: (st_dev, st_ino) of files; leave the folders that they lie in to the walk.
        avoid: folders that are always left to the walk.
        chunk: the most names in one listing.
    """

    def __init__(
        self,
        root_fd: int,
        excludes: Excludes,
        *,
        stays_on_mount: bool,
        leave_out: Iterable[tuple[int, int]],
        avoid: frozenset[bytes],
        chunk: int,
    ) -> None:
        self._batch = FolderBatch(
            root_fd,
            stays_on_mount=stays_on_mount,
            leave_out=leave_out,
            names_room=_CHUNKS_IN_FOLDER * chunk,
            enough=_FILES_IN_CALL,
        )
        self._excludes = excludes
        self._avoid = avoid
        self._chunk = chunk
        self._next: list[bytes] = []  # known and not listed yet; the one that will be asked for first stands last
        self._early: dict[bytes, Early | None] = {}
        self._waiting = 0  # files in _early
        self._executor: ThreadPoolExecutor | None = None
        self._flight: Future[Found] | None = None
        self._asked: list[bytes] = []  # of the flight

    def take(self, folder: bytes) -> Early | None:
        """
        Get a folder; None for one that the walk has to list itself.

        Folders are asked for depth first, those in one folder by name, each once.
        """
        if folder in self._avoid:
            return None
        while folder not in self._early:
            if self._flight is None:
                self._launch(folder)
            if self._flight is not None:
                self._land(self._flight)
        early = self._early.pop(folder)
        if early is not None:
            self._waiting -= early.file_count
        if self._flight is None or self._flight.done():
            self._go_on()
        return early

    def add(self, subfolders: Sequence[bytes]) -> None:
        """Tell the folders in one that the walk has listed itself, by name."""
        self._next += reversed(self._allowed(subfolders))

    def close(self) -> None:
        """End the thread."""
        if self._executor is not None:
            self._executor.shutdown()

    def find_listings(self, folder: bytes, early: Early) -> Iterator[Listing]:
        """Make the listings of a folder."""
        chunk, file_count, skips = self._chunk, early.file_count, early.skips
        count = file_count + early.other_count
        if count < chunk:
            yield self._make_listing(folder, early.found, early.first, file_count, skips, True, True)
            return
        for start in range(0, count + 1, chunk):
            files = max(0, min(chunk, file_count - start))
            others = slice(max(0, start - file_count), max(0, start + chunk - file_count))
            is_last = start + chunk > count
            yield self._make_listing(folder, early.found, early.first + start, files, skips[others], False, is_last)

    def _make_listing(
        self, folder: bytes, found: Found, first: int, count: int, skips: list[Skip], is_whole: bool, is_last: bool
    ) -> Listing:
        files = found.files(first, first + count) if count else []
        if files and self._excludes.may_match(map(_name_of, files)):
            files = self._leave_out(folder, files, skips)
        return Listing(folder, files, is_whole, is_last, skips, None)

    def _leave_out(self, folder: bytes, files: list[Seen], skips: list[Skip]) -> list[Seen]:
        prefix = folder + b"/" if folder else b""
        excluded = [seen.name for seen in files if self._excludes.matches(prefix + seen.name, seen.name, False)]
        if not excluded:
            return files
        skips += [Skip(prefix + name, SkipReason.EXCLUDED, False) for name in excluded]
        left_out = frozenset(excluded)
        return [seen for seen in files if seen.name not in left_out]

    def _go_on(self) -> None:
        """Keep the thread at work."""
        if self._flight is not None:
            self._land(self._flight)
        if len(self._next) >= _WORTH_A_THREAD and self._waiting < _MOST_WAITING:
            self._launch(None)

    def _launch(self, wanted: bytes | None) -> None:
        """List the next folders, ``wanted`` first; in the thread if there are many."""
        asked = [] if wanted is None else [wanted]
        if wanted is not None and self._next and self._next[-1] == wanted:
            self._next.pop()
        is_many = len(self._next) >= _WORTH_A_THREAD
        if self._waiting < _MOST_WAITING:
            asked += reversed(self._next[-_FOLDERS_IN_CALL:])
            del self._next[-_FOLDERS_IN_CALL:]
        self._asked = asked
        if not is_many:
            self._arrived(self._batch.list(asked))
            return
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "list")
        self._flight = self._executor.submit(self._batch.list, asked)

    def _land(self, flight: Future[Found]) -> None:
        self._flight = None
        self._arrived(flight.result())

    def _arrived(self, found: Found) -> None:
        """Keep what was found, and learn which folders come next."""
        asked, counts = self._asked, found.counts
        others = zip(found.others, found.kinds, strict=False)
        early, following = self._early, list[bytes]()
        first = 0
        for folder, (status, file_count, other_count) in zip(asked, counts, strict=False):
            if status != LISTED:
                early[folder] = None
                continue
            subfolders, skips = self._sort_out(folder, islice(others, other_count)) if other_count else ([], [])
            early[folder] = Early(found, first, file_count, other_count, subfolders, skips)
            following += self._allowed(subfolders)
            first += file_count
        self._waiting += first
        following += asked[len(counts) :]
        following.reverse()
        self._next += following

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

    def _allowed(self, folders: Sequence[bytes]) -> Sequence[bytes]:
        return [folder for folder in folders if folder not in self._avoid] if self._avoid else folders
