"""
A copy that is a folder on this machine: on another disk, or mounted from a server.

An unmounted disk looks like an empty folder (R5), so a folder that does not exist or has no files is unreachable.
Callers that keep ``identity`` decide whether it is the same folder as last time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from stat import S_ISDIR, S_ISREG
from types import TracebackType
from typing import Self

from integrity.copies.base import BaseCopy
from integrity.copies.filenames import find_fault, require_harmless
from integrity.copies.protocol import CopyEntry, Trouble
from integrity.errors import CopyUnreachable, RootSuspended, Vanished, show_path
from integrity.files.block_devices import find_counters
from integrity.files.buffers import Buffers
from integrity.files.capability import find_capability, identify
from integrity.files.excludes import Excludes
from integrity.files.open_beneath import open_noatime, open_root, stat_beneath
from integrity.files.random_access import RandomAccessFile
from integrity.files.read import Reader
from integrity.files.read_errors import ErrorBudget, describe_failure
from integrity.files.span import UNLIMITED, Pace, ReadMode
from integrity.files.stamps import witness_of
from integrity.files.walk import walk
from integrity.model import Capability, RootIdentity, SkipReason

_BUFFER_BYTES = 1 << 20  # the default block size of catalogs
_NOTHING = Excludes(builtin=False)


def identify_folder(path: bytes) -> RootIdentity:
    """
    Return what identifies a folder and its disk.

    Raises:
        CopyUnreachable: it can't be opened, or its disk does not answer.
    """
    try:
        fd = open_root(path)
    except OSError as error:
        raise CopyUnreachable(f"{show_path(path)}: can't be opened: {error.strerror}; mount its disk") from error
    try:
        return identify(fd, path)
    except RootSuspended as error:
        raise CopyUnreachable(str(error)) from error
    finally:
        os.close(fd)


def is_empty_folder(folder: int | bytes) -> bool:
    """
    Return whether a folder contains only what systems create by themselves.

    Raises:
        OSError: it can't be listed.
    """
    builtin = Excludes()
    with os.scandir(folder) as entries:
        names = ((os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries)
        return all(builtin.matches(name, name, is_folder) for name, is_folder in names)


class TreeCopy(BaseCopy):
    """
    A folder of this machine as a copy; see ``Copy`` and ``LocalFolder``.

    Args:
        path: absolute; symbolic links in it are followed.
        excludes: folders that are not walked: those of the root, so that snapshots beside the copy cost nothing.
    """

    keeps_times = True

    def __init__(self, path: bytes, *, excludes: Excludes = _NOTHING) -> None:
        super().__init__(os.fsdecode(path), show_path(path))
        self._path = path
        self._excludes = excludes
        self._budget = ErrorBudget()
        self._root_fd = -1
        self._capability: Capability | None = None
        self._buffers: Buffers | None = None

    def __enter__(self) -> Self:
        """Open the folder; see ``Copy``."""
        try:
            self._root_fd = open_root(self._path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CopyUnreachable(
                f"{self.shown}: can't be opened: {reason}; mount the copy's disk, or correct the path"
            ) from error
        try:
            self._capability = find_capability(self._root_fd, self._path)
            self._budget = ErrorBudget(counters=find_counters(self._root_fd, self._capability.fs_type))
            self._refuse_empty()
        except RootSuspended as error:
            self._close()
            raise CopyUnreachable(str(error)) from error
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Close the folder; open files stay open."""
        self._close()

    @property
    def folder(self) -> TreeCopy:
        """Return itself."""
        return self

    @property
    def root_fd(self) -> int:
        """Return the descriptor of the folder, for reading many files at once; it remains the copy's."""
        return self._root_fd

    @property
    def capability(self) -> Capability:
        """Return what the copy's file system supports; known after entering."""
        assert self._capability is not None, "the copy was not entered"
        return self._capability

    def identity(self) -> RootIdentity:
        """
        Return what identifies this folder and its disk, to be compared with what was recorded last time.

        Raises:
            CopyUnreachable: the disk does not answer.
        """
        try:
            return identify(self._root_fd, self._path)
        except RootSuspended as error:
            raise CopyUnreachable(str(error)) from error

    @property
    def budget(self) -> ErrorBudget:
        """Return the budget of read errors of the copy's device."""
        return self._budget

    @property
    def has_ctime(self) -> bool:
        """Return whether ctimes show writes, also those through a mapping."""
        return self.capability.has_ctime and self.capability.shows_mapped_writes

    @property
    def has_stable_inodes(self) -> bool:
        """Return whether inode numbers name files for good."""
        return self.capability.has_stable_inodes

    def reader(self, pace: Pace = UNLIMITED, mode: ReadMode = ReadMode.DISK) -> Reader:
        """Return a reader of the copy's files; see ``LocalFolder``."""
        return Reader(self._root_fd, self.capability, mode=mode, pace=pace, budget=self._budget)

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """List the files, folder by folder; see ``Copy``."""
        if prefix:
            found = self._look_at(prefix)
            if found is not None:
                yield found
            if found is not None or not self._is_folder(prefix):
                return
        is_stable = self.has_stable_inodes
        for listing in walk(self._root_fd, prefix, excludes=self._excludes, cross_mounts=True):
            above = listing.folder + b"/" if listing.folder else b""
            for seen in listing.files:
                yield CopyEntry(
                    above + seen.name, seen.size_bytes, seen.mtime_ns, (), seen.inode if is_stable else None
                )
            for skip in listing.skips:
                if skip.reason is SkipReason.MOUNT:
                    yield Trouble(skip.path, "what is mounted here stands elsewhere in the copy, too; it is seen there")
            if listing.error is not None:
                if not listing.error.path:
                    raise CopyUnreachable(f"{self.shown}: {listing.error.message}")
                yield Trouble(listing.error.path, listing.error.message)

    def open(self, path: bytes) -> RandomAccessFile:
        """Open one file past the page cache, as far as its file system allows; see ``Copy``."""
        require_harmless(path)
        if self._look_at(path) is None:
            raise Vanished(f"cannot open {show_path(path)}: no such file in {self.shown}")
        if self._buffers is None:
            self._buffers = Buffers(_BUFFER_BYTES, 1)
        return RandomAccessFile(self.reader(), path, self._buffers)

    def _look_at(self, prefix: bytes) -> CopyEntry | Trouble | None:
        """Return the entry of one path; a Trouble if it can't be examined, None if it is not a regular file."""
        fault = find_fault(prefix)
        if fault is not None:
            return Trouble(prefix, fault)
        try:
            stat = stat_beneath(self._root_fd, prefix)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return (
                None if error.errno == errno.ELOOP else Trouble(prefix, str(describe_failure(prefix, "look at", error)))
            )
        if not S_ISREG(stat.st_mode):
            return None
        seen = witness_of(stat)
        return CopyEntry(prefix, seen.size_bytes, seen.mtime_ns, (), seen.inode if self.has_stable_inodes else None)

    def _is_folder(self, path: bytes) -> bool:
        try:
            return S_ISDIR(stat_beneath(self._root_fd, path).st_mode)
        except OSError:
            return False  # _look_at has yielded the Trouble

    def _refuse_empty(self) -> None:
        """Raise CopyUnreachable for a folder that contains only what systems create by themselves."""
        try:
            fd = open_noatime(self._root_fd, b"", os.O_RDONLY | os.O_DIRECTORY)
            try:
                is_empty = is_empty_folder(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise CopyUnreachable(
                f"{self.shown}: can't be listed: {error.strerror}; let the user that integrity runs as read it,"
                " or look at its disk"
            ) from error
        if is_empty:
            raise CopyUnreachable(
                f"{self.shown}: is empty: its disk is not mounted, or nothing was ever copied there;"
                " mount it, or make the first backup"
            )

    def _close(self) -> None:
        if self._buffers is not None:
            self._buffers.close()
            self._buffers = None
        if self._root_fd >= 0:
            fd, self._root_fd = self._root_fd, -1
            os.close(fd)
