"""
List what is in a root, folder by folder, without leaving it.

The walk decides what belongs to a root: regular files under their own names. Symbolic links are not followed, what is
mounted inside is not entered unless asked for, FIFOs, sockets and devices are named and left. Whether a name was
excluded, and what it means that one is gone, is for others.

Folders about which there is nothing to decide are listed by the C core, many at a time and before it is their turn
(``prefetch``); all others, and all of them without the C core, are listed here.

Invariants:
    I1  Every name of a folder that was listed is in exactly one of: a listing's ``files``, its ``skips``, its
        ``error``, or it is a folder that gets listings (or an error) of its own. What vanishes meanwhile is in none.
    I2  A folder that could not be listed to its end is never reported as whole: absence proves nothing there.
    I3  Memory does not grow with the number of files, nor descriptors with the depth: one folder is open at a time, and
        one more that the C core lists ahead.
    I4  Another mount is told by mount, not by device number: the subvolumes of btrfs belong to the tree, bind mounts of
        the tree into itself don't, and no set of mounts makes the walk endless.
    I5  Folders come in an order that follows from what is in the tree alone, a folder before what is in it: depth first
        and by name, where there are not so many that they are listed ahead. The files of a listing come by name, but
        those of one listing need not stand before those of the next.
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
from integrity.files.open_beneath import STAY_ON_MOUNT, DeepFolders, open_beneath, stat_beneath, was_removed
from integrity.files.stamps import MOST, witness_of
from integrity.model import SkipReason

if TYPE_CHECKING:
    from integrity.files.prefetch import FolderPrefetcher

_Begin = Callable[[bytes, int, list[bytes]], Generator[FolderListing, None, bool]]


# What os.fsdecode made of the names, undone; as constants, for os.fsencode would cost a tenth of the walk.
_ENCODING = sys.getfilesystemencoding()
_ERRORS = sys.getfilesystemencodeerrors()

_FOLDER = os.O_RDONLY | os.O_DIRECTORY

# The folder is not what the listing above it said, any more: it is gone, and that is all.
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})

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

# Fewer inodes than this lie close together anyway.
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
    Walk a root, or one folder of it and what lies below.

    A folder that vanishes before it can be opened has no listing, and neither has ``start`` if it is not there.

    Args:
        root_fd: from ``open_root``; stays open and is the caller's.
        start: the folder to begin with, relative to the root; its parents are not looked at.
        excludes: what to leave out.
        cross_mounts: whether to go into other file systems.
        leave_out: (st_dev, st_ino) of files to skip as the catalog's own.
        chunk: the most names in one listing.
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
    """What one walk knows of its root."""

    def __init__(
        self, root_fd: int, excludes: Excludes, cross_mounts: bool, leave_out: frozenset[tuple[int, int]], chunk: int
    ) -> None:
        self._root_fd = root_fd
        self._excludes = excludes
        self._cross_mounts = cross_mounts
        self._leave_out = leave_out
        self._chunk = chunk
        self.folders = DeepFolders(root_fd, _FOLDER if cross_mounts else _FOLDER | STAY_ON_MOUNT)
        # Where to ask the kernel; asked everywhere, it would cost two more system calls for each folder.
        self._maybe_mounts = find_mounts_beneath(root_fd)
        self._entered: set[tuple[int, int]] = set()

    def walk_in_turn(self, start: bytes) -> Iterator[FolderListing]:
        """Walk without the C core."""
        pending = [start]
        while pending:
            subfolders = yield from self.find_listings(pending.pop())
            pending += reversed(subfolders)

    def open_ahead(self, start: bytes) -> FolderPrefetcher | None:
        """Start listing with the C core, unless it is switched off or can't be loaded."""
        if os.environ.get("INTEGRITY_NATIVE") == "off":
            return None
        try:
            from integrity.files.prefetch import FolderPrefetcher
        except ImportError:
            return None  # the program says why where it shows its version
        return FolderPrefetcher(
            self._root_fd,
            start,
            self._excludes,
            stays_on_mount=not self._cross_mounts,
            leave_out=self._leave_out,
            avoid=frozenset(point.rpartition(b"/")[0] for point in self._maybe_mounts),
            # Of several views of one folder always the same is to be entered, whatever else there is in the tree (I4).
            is_in_turn=self._cross_mounts and bool(self._maybe_mounts),
            chunk=self._chunk,
        )

    def find_listings(self, folder: bytes, begin: _Begin | None = None) -> Generator[FolderListing, None, list[bytes]]:
        """
        List a folder, unless it is gone; without moving its atime where the kernel lets us.

        It is an error of the folder if something was mounted there after the folder above it had been listed.

        Args:
            folder: its path.
            begin: lists what it can of the open folder, and says whether that was all; the rest is listed here.

        Returns:
            The paths of the folders in it that are to be walked, too, by name.
        """
        try:
            fd = self.folders.open(folder)
        except OSError as error:
            if error.errno not in _GONE and not self._is_gone(folder, error):
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
        """Say whether an error means that an open folder was removed, with all that was in it before."""
        return error.errno == errno.ENOENT or was_removed(self._root_fd, folder, error)

    def _read_listings(
        self, folder: bytes, fd: int, subfolders: list[bytes], *, is_first: bool
    ) -> Generator[FolderListing, None, None]:
        """List an open folder from its position on; folders to be walked are added to ``subfolders``."""
        with os.scandir(fd) as entries:
            while True:
                batch, error = _read(entries, self._chunk)
                broken = None if error is None or self._is_gone(folder, error) else _describe(folder, error)
                if self._cross_mounts:
                    # Of several views of one folder the first by name is entered, in whatever order they are listed.
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
        Tell what each name is; folders to be walked are added to ``subfolders``.

        Longer than a function should be: this loop runs once for each file, where every call is felt.
        """
        prefix = folder + b"/" if folder else b""
        is_excluded, maybe_mounts, leave_out = self._excludes.matches, self._maybe_mounts, self._leave_out
        files: list[Seen] = []
        new = tuple.__new__  # what Seen(...) does, without a call of Python for each file
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
        """Tell whether a name is left out because something is mounted on it; a mount is entered only once (I4)."""
        try:
            os.close(open_beneath(self._root_fd, path, os.O_PATH | STAY_ON_MOUNT))
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        else:
            return False  # what is mounted there is mounted over the root, too, and can't be seen from in here
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
    """Read the next names of a folder; with an error, those before it."""
    batch: list[os.DirEntry[str]] = []
    error = None
    try:
        for entry in islice(entries, count):
            batch.append(entry)  # noqa: PERF402 - a comprehension would lose what was read before an error
    except OSError as failure:
        error = failure
    if len(batch) > _WORTH_SORTING:
        # lstat in the order of the inodes: in that of a hashed folder a spindle would seek for each file.
        batch.sort(key=os.DirEntry.inode)
    return batch, error


def _describe_name(path: bytes, error: OSError) -> FolderError:
    """Say why a name can't be looked at, though its folder can be listed."""
    if error.errno not in (errno.EACCES, errno.EPERM):
        return _describe(path, error, "looked at")
    cause = os.strerror(error.errno)
    remedy = "let the user that integrity runs as enter the folder that it lies in, or exclude it"
    return FolderError(path, error.errno, f"can't be looked at: {cause}; {remedy}")


def _describe(path: bytes, error: OSError, doing: str = "listed") -> FolderError:
    code = error.errno or 0
    remedy = _REMEDIES.get(code, "see the kernel's log for the cause, then scan again")
    return FolderError(path, code, f"can't be {doing}: {os.strerror(code)}; {remedy}")
