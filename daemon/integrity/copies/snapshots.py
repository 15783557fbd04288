"""
Folders of which each is a backup at another time, as a copy: the newest one.

Snapshots of btrfs (snapper, Timeshift, btrbk), of ZFS and of Synology, and the folders of rsnapshot, Time Machine and
scripts around ``rsync --link-dest``. A date in the name says when one was made; without one, the time of its folder.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Self

from integrity.copies.filenames import require_harmless
from integrity.copies.folder import TreeCopy, identify_folder, is_empty_folder
from integrity.copies.protocol import CopyEntry
from integrity.copies.versions import CopyVersion, sort_versions
from integrity.errors import ConfigError, CopyUnreachable, printable, show_path
from integrity.files.excludes import Excludes
from integrity.files.open_beneath import stat_beneath
from integrity.model import RootIdentity

_PREFIX = "snapshots:"
DATE = re.compile(r"(?<!\d)(\d{4})[-._]?(\d\d)[-._]?(\d\d)(?:[-._ T@]*(\d\d)[-._:]?(\d\d)(?:[-._:]?(\d\d))?)?(?!\d)")
"""A date in a name, with or without a time."""

_ESCAPED = re.compile(r"\[([*?[])\]")
"""A star, a question mark or a bracket that stands for itself."""

_UNFINISHED = (".incomplete", ".inprogress", ".partial", ".tmp", "-partial", "-inprogress")
_NOTHING = Excludes(builtin=False)


class SnapshotsCopy(TreeCopy):
    """
    Folders of which each is a version; see ``Copy``.

    Args:
        url: ``snapshots:PATTERN``, an absolute path with ``*``, ``?`` or ``[...]`` in one or more of its names.
        excludes: see ``TreeCopy``.
    """

    def __init__(self, url: str, *, excludes: Excludes = _NOTHING) -> None:
        super().__init__(b"", excludes=excludes)
        self.url = self.shown = url
        self._pattern = url.removeprefix(_PREFIX)
        if not self._pattern.startswith("/") or not glob.has_magic(re.sub(_ESCAPED, "", self._pattern)):
            raise ConfigError(f"{url}: give an absolute path with a * in it, as in snapshots:/backup/daily.*/home")
        self._versions: list[CopyVersion] = []
        self._folders: dict[CopyVersion, bytes] = {}

    def __enter__(self) -> Self:
        """Find the folders, and open the newest that is not empty; see ``Copy``."""
        folders = sorted(self._find_folders(), key=lambda folder: (len(folder), folder))  # 9 before 10
        self._folders = {self._read_version(folder): os.fsencode(folder) for folder in folders}
        self._versions = sort_versions(self._folders)
        if not self._versions:
            raise CopyUnreachable(f"{self.shown}: there is no such folder; mount the disk, or correct the pattern")
        self._path = self._folders[next(self.versions(), self._versions[-1])]
        return super().__enter__()

    def describe(self) -> Iterator[str]:
        """Say which of them was taken if the newest is empty; see ``Copy``."""
        newest, taken = self._versions[-1], next(self.versions())
        if newest != taken:
            yield f"{printable(newest.name)} is empty, so {printable(taken.name)} was compared; look at that backup"

    def identity(self) -> RootIdentity:
        """Identify the folder that they all lie in: each may be a subvolume, or a mount of its own."""
        top = os.path.dirname(cut_at_versions(self._pattern)) or "/"
        return identify_folder(os.fsencode(re.sub(_ESCAPED, r"\1", top)))

    def versions(self) -> Iterator[CopyVersion]:
        """Yield the folders, the newest first, without empty ones, as of backups that failed; see ``Copy``."""
        for version in reversed(self._versions):
            with suppress(OSError):  # whoever chooses it learns why
                if is_empty_folder(self._folders[version]):
                    continue
            yield version

    def choose(self, version: CopyVersion) -> None:
        """Be another folder from now on; see ``Copy``."""
        fd, path = self._root_fd, self._path
        self._path = self._folders[version]
        try:
            super().__enter__()
        except CopyUnreachable:
            self._root_fd, self._path = fd, path
            raise
        os.close(fd)  # files that are open stay so

    def look_at(self, path: bytes) -> CopyEntry | None:
        """Return the entry of one file in the chosen folder; see ``Copy``."""
        require_harmless(path)
        found = self._look_at(path)
        return found if isinstance(found, CopyEntry) else None

    def find_changes(self, older: CopyVersion, newer: CopyVersion, prefix: bytes = b"") -> Iterator[bytes]:
        """
        Yield the files of both folders that are not one file by size, times and inode; see ``Copy``.

        Snapshots of one file system keep inodes, and folders of rsync link what did not change.
        """
        self.choose(newer)
        with SnapshotsCopy(self.url, excludes=self._excludes) as before:
            before.choose(older)
            for path in (one.path for one in self.list(prefix) if isinstance(one, CopyEntry)):
                try:
                    was, now = (stat_beneath(fd, path) for fd in (before.root_fd, self._root_fd))
                except (FileNotFoundError, NotADirectoryError):
                    continue  # only one of them has it
                except OSError:
                    yield path  # who lists or reads it learns why
                else:
                    if _may_differ(was, now):
                        yield path

    def _find_folders(self) -> Iterator[str]:
        for folder in glob.glob(self._pattern, include_hidden=True):
            if not is_unfinished(folder) and os.path.isdir(folder) and not os.path.islink(folder.rstrip("/")):
                yield folder.rstrip("/")

    def _read_version(self, folder: str) -> CopyVersion:
        """Return the version that a folder is: what the pattern leaves open in its path, and when it was made."""
        parts = [
            (name, "/".join(folder.split("/")[: number + 1]))
            for number, (name, of) in enumerate(zip(folder.split("/"), self._pattern.split("/"), strict=False))
            if glob.has_magic(of)
        ]
        name = "/".join(name for name, _ in parts)
        found = _read_date(name)
        try:
            return CopyVersion(name, int(os.stat(parts[0][1]).st_mtime) if found is None else found)
        except OSError as error:
            raise CopyUnreachable(
                f"{show_path(os.fsencode(folder))}: can't be looked at: {error.strerror}; look at its disk"
            ) from error


def cut_at_versions(pattern: str) -> str:
    """Return a pattern up to the first name that stands for several folders, which are the versions."""
    names = pattern.split("/")
    is_open = [glob.has_magic(re.sub(_ESCAPED, "", name)) for name in names]
    return "/".join(names[: is_open.index(True) + 1])


def is_unfinished(folder: str) -> bool:
    """Return whether a program names a folder like this while it still writes to it."""
    return folder.lower().rstrip("/").endswith(_UNFINISHED)


def _may_differ(was: os.stat_result, now: os.stat_result) -> bool:
    """Return whether two stats may be of different contents; links to one file have its content."""
    if (was.st_ino, was.st_size, was.st_mtime_ns) != (now.st_ino, now.st_size, now.st_mtime_ns):
        return True
    return was.st_ctime_ns != now.st_ctime_ns and was.st_nlink == now.st_nlink == 1


def _read_date(name: str) -> int | None:
    """Return the time in a name, in seconds UTC, taken for local time; None if it has none."""
    for found in DATE.finditer(name):
        try:
            return int(datetime(*(int(part or 0) for part in found.groups())).timestamp())  # type: ignore[arg-type]
        except ValueError:
            continue
    return None
