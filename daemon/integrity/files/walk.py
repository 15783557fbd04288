"""
List a root folder by folder, without leaving it.

Decides what belongs to a root: regular files by their own names. It does not follow symbolic links, enters mounts only
on request, and only names FIFOs, sockets and devices. What a missing name means is for others. The C core lists
ordinary folders, many per call and ahead of their turn (``prefetch``); all others, and all without the C core, are
listed here.

Invariants:
    I1  Every name of a listed folder is in exactly one of: a listing's ``files``, its ``skips``, its ``error``; or it
        is a folder with listings (or an error) of its own. Names that vanish meanwhile are in none.
    I2  A folder that could not be listed to its end is never reported as whole: absence proves nothing there.
    I3  Memory does not grow with the number of files, nor descriptors with the depth: one folder is open at a time,
        plus a bounded number of its ancestors and of folders listed ahead.
    I4  Mounts are recognized by mount, not by device number: btrfs subvolumes belong to the tree, bind mounts of the
        tree into itself do not, and no set of mounts makes the walk endless.
    I5  The order of folders depends only on the tree, each before its subfolders: depth first and by name, unless there
        are enough to list ahead. The files of a listing are sorted by name; those of consecutive listings need not be.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from integrity.files.excludes import Excludes
from integrity.files.listing import FolderError, FolderListing, Seen, Skip
from integrity.files.mounts import find_mounts_beneath
from integrity.files.open_beneath import GONE, STAY_ON_MOUNT, DeepFolders, open_beneath, stat_beneath, was_removed
from integrity.files.stamps import MOST, witness_of
from integrity.model import SkipReason

if TYPE_CHECKING:
    from integrity.files.prefetch import FolderPrefetcher

_Begin = Callable[[bytes, int, list[bytes]], Generator[FolderListing, None, bool]]


# To undo os.fsdecode of names; constants, because os.fsencode would cost a tenth of the walk.
_ENCODING = sys.getfilesystemencoding()
_ERRORS = sys.getfilesystemencodeerrors()

_FOLDER = os.O_RDONLY | os.O_DIRECTORY

_DAMAGED = "the file system is damaged or its disk fails: see the kernel's log, then check the file system"
_REMEDIES = {
    errno.EACCES: "let the user that integrity runs as read and enter it, or exclude it",
    errno.EPERM: "let the user that integrity runs as read and enter it, or exclude it",
    errno.EIO: _DAMAGED,
    errno.EBADMSG: _DAMAGED,
    errno.EUCLEAN: _DAMAGED,
    errno.ESTALE: "the server has forgotten it: mount the share again",
    errno.EXDEV: "something was mounted here, or on the way here, while the tree was walked: scan again",
    errno.EMFILE: "too many files are open: raise the limit (ulimit -n, LimitNOFILE=)",
}

# Fewer inodes than this lie close together.
_WORTH_SORTING = 64


def walk(
    root_fd: int,
    start: bytes = b"",
    *,
    excludes: Excludes,
    cross_mounts: bool = False,
    leave_out: frozenset[tuple[int, int]] = frozenset(),
    chunk: int = 4096,
) -> Iterator[FolderListing]:
    """
    Walk a root, or one folder of it and everything below.

    A folder that vanishes before it is opened has no listing; neither has ``start`` if it does not exist.

    Args:
        root_fd: from ``open_root``; stays open and is the caller's.
        start: the folder to begin with, relative to the root; excludes do not apply to it or its parents.
        cross_mounts: whether to enter other file systems.
        leave_out: (st_dev, st_ino) of files to skip as the catalog's own.
        chunk: maximum number of names per listing.
    """
    tree = _Tree(root_fd, excludes, cross_mounts, leave_out, chunk)
    with closing(tree.folders):
        ahead = tree.open_ahead(start)
        if ahead is None:
            yield from tree.walk_in_turn(start)
            return
        with closing(ahead):
            for folder, early, is_large in ahead.find_folders():
                if early is not None:
                    yield from ahead.find_listings(folder, early)
                else:
                    ahead.add((yield from tree.find_listings(folder, ahead.begin_large if is_large else None)))


class _Tree:
    """The state of one walk."""

    def __init__(
        self, root_fd: int, excludes: Excludes, cross_mounts: bool, leave_out: frozenset[tuple[int, int]], chunk: int
    ) -> None:
        self._root_fd = root_fd
        self._excludes = excludes
        self._cross_mounts = cross_mounts
        self._leave_out = leave_out
        self._chunk = chunk
        self.folders = DeepFolders(root_fd, _FOLDER if cross_mounts else _FOLDER | STAY_ON_MOUNT)
        # Candidates for mounts; checking every folder would cost two more system calls each.
        self._maybe_mounts = find_mounts_beneath(root_fd)
        self._entered: set[tuple[int, int]] = set()

    def walk_in_turn(self, start: bytes) -> Iterator[FolderListing]:
        """Walk without the C core."""
        pending = [start]
        while pending:
            subfolders = yield from self.find_listings(pending.pop())
            pending += reversed(subfolders)

    def open_ahead(self, start: bytes) -> FolderPrefetcher | None:
        """Start listing with the C core; return None if it is switched off or cannot be loaded."""
        if os.environ.get("INTEGRITY_NATIVE") == "off":
            return None
        try:
            from integrity.files.prefetch import FolderPrefetcher
        except ImportError:
            return None  # `integrity --version` shows why
        return FolderPrefetcher(
            self._root_fd,
            start,
            self._excludes,
            stays_on_mount=not self._cross_mounts,
            leave_out=self._leave_out,
            avoid=frozenset(point.rpartition(b"/")[0] for point in self._maybe_mounts),
            # Of several views of one folder the walk must always enter the same, whatever the rest of the tree (I4).
            is_in_turn=self._cross_mounts and bool(self._maybe_mounts),
            chunk=self._chunk,
        )

    def find_listings(self, folder: bytes, begin: _Begin | None = None) -> Generator[FolderListing, None, list[bytes]]:
        """
        List a folder unless it is gone, without updating its atime if the kernel permits.

        A mount that appeared after the parent folder was listed is an error of the folder.

        Args:
            begin: lists what it can of the open folder and returns whether that was all; the rest is listed here.

        Returns:
            The paths of its subfolders to walk, sorted by name.
        """
        try:
            fd = self.folders.open(folder)
        except OSError as error:
            if error.errno not in GONE and not self._is_gone(folder, error):
                yield FolderListing(folder, [], False, True, [], _describe(folder, error))
            return []
        subfolders: list[bytes] = []
        try:
            is_done = begin is not None and (yield from begin(folder, fd, subfolders))
            if not is_done:
                yield from self._read_listings(folder, fd, subfolders, is_first=begin is None)
        except OSError as error:
            if not self._is_gone(folder, error):
                yield FolderListing(folder, [], False, True, [], _describe(folder, error))
        finally:
            os.close(fd)
        return sorted(subfolders)

    def _is_gone(self, folder: bytes, error: OSError) -> bool:
        """Return whether an error means that an open folder was removed, and so was empty."""
        return error.errno == errno.ENOENT or was_removed(self._root_fd, folder, error)

    def _read_listings(
        self, folder: bytes, fd: int, subfolders: list[bytes], *, is_first: bool
    ) -> Generator[FolderListing, None, None]:
        """List an open folder from its current position; add the folders to walk to ``subfolders``."""
        with os.scandir(fd) as entries:
            while True:
                batch, error = _read(entries, self._chunk)
                broken = None if error is None or self._is_gone(folder, error) else _describe(folder, error)
                if self._cross_mounts:
                    # Of several views of one folder the first by name is entered, whatever the listing order.
                    batch.sort(key=attrgetter("name"))
                is_last = len(batch) < self._chunk or error is not None
                files, skips, failures = self._sort_out(folder, batch, subfolders)
                for failure in failures:
                    yield FolderListing(folder, [], False, False, [], failure)
                is_whole = is_first and is_last and broken is None and not failures
                yield FolderListing(folder, files, is_whole, is_last, skips, broken)
                if is_last:
                    return
                is_first = False

    def _sort_out(
        self, folder: bytes, batch: list[os.DirEntry[str]], subfolders: list[bytes]
    ) -> tuple[list[Seen], list[Skip], list[FolderError]]:
        """
        Classify each name; add the folders to walk to ``subfolders``.

        Longer than usual for a function: this loop runs once per file, where every call costs.
        """
        prefix = folder + b"/" if folder else b""
        is_excluded, maybe_mounts, leave_out = self._excludes.matches, self._maybe_mounts, self._leave_out
        files: list[Seen] = []
        new = tuple.__new__  # same as Seen(...), without a Python call per file
        skips: list[Skip] = []
        failures: list[FolderError] = []
        for entry in batch:
            name = entry.name.encode(_ENCODING, _ERRORS)
            path = prefix + name
            try:
                if entry.is_file(follow_symlinks=False):
                    if is_excluded(path, name, False):
                        skips.append(Skip(path, SkipReason.EXCLUDED, False))
                        continue
                    stat = entry.stat(follow_symlinks=False)
                    if leave_out and (stat.st_dev, stat.st_ino) in leave_out:
                        skips.append(Skip(path, SkipReason.CATALOG, False))
                    elif maybe_mounts and path in maybe_mounts and self._is_barred(path, False):
                        skips.append(Skip(path, SkipReason.MOUNT, False))
                    else:
                        mtime_ns, inode = stat.st_mtime_ns, stat.st_ino
                        if inode > MOST or not -MOST < mtime_ns < MOST:
                            _, mtime_ns, _, inode, _ = witness_of(stat)
                        numbers = stat.st_size, mtime_ns, stat.st_ctime_ns, inode, stat.st_nlink
                        files.append(new(Seen, (name, *numbers)))
                elif entry.is_dir(follow_symlinks=False):
                    if is_excluded(path, name, True):
                        skips.append(Skip(path, SkipReason.EXCLUDED, True))
                    elif maybe_mounts and path in maybe_mounts and self._is_barred(path, True):
                        skips.append(Skip(path, SkipReason.MOUNT, True))
                    else:
                        subfolders.append(path)
                elif entry.is_symlink():
                    skips.append(Skip(path, SkipReason.SYMLINK, False))
                else:
                    skips.append(Skip(path, SkipReason.SPECIAL, False))
            except FileNotFoundError:
                continue  # gone since the folder was read
            except OSError as error:
                failures.append(_describe_name(path, error))
        files.sort()  # no two names are equal, so nothing else is compared
        return files, skips, failures

    def _is_barred(self, path: bytes, is_folder: bool) -> bool:
        """Return whether a name is left out because it is a mount point; a mount is entered only once (I4)."""
        try:
            os.close(open_beneath(self._root_fd, path, os.O_PATH | STAY_ON_MOUNT))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        else:
            return False  # that mount lies above the root, so it is not visible from inside
        if not (self._cross_mounts and is_folder):
            return not self._cross_mounts
        if not self._entered:
            root = os.fstat(self._root_fd)
            self._entered.add((root.st_dev, root.st_ino))
        stat = stat_beneath(self._root_fd, path)
        top = (stat.st_dev, stat.st_ino)
        if top in self._entered:
            return True
        self._entered.add(top)
        return False


def _read(entries: Iterator[os.DirEntry[str]], count: int) -> tuple[list[os.DirEntry[str]], OSError | None]:
    """Read the next names of a folder; on an error, return the names before it."""
    batch: list[os.DirEntry[str]] = []
    error = None
    try:
        for entry in islice(entries, count):
            batch.append(entry)  # noqa: PERF402 - a comprehension would lose what was read before an error
    except OSError as failure:
        error = failure
    if len(batch) > _WORTH_SORTING:
        # lstat in inode order: in the order of a hashed folder a rotational disk would seek for each file.
        batch.sort(key=os.DirEntry.inode)
    return batch, error


def _describe_name(path: bytes, error: OSError) -> FolderError:
    """Return the error for a name whose lstat failed, though its folder was listed."""
    if error.errno not in (errno.EACCES, errno.EPERM):
        return _describe(path, error, "looked at")
    cause = os.strerror(error.errno)
    remedy = "let the user that integrity runs as enter the folder that it lies in, or exclude it"
    return FolderError(path, error.errno, f"can't be looked at: {cause}; {remedy}")


def _describe(path: bytes, error: OSError, doing: str = "listed") -> FolderError:
    code = error.errno or 0
    remedy = _REMEDIES.get(code, "see the kernel's log for the cause, then scan again")
    return FolderError(path, code, f"can't be {doing}: {os.strerror(code)}; {remedy}")
