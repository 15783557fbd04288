"""
Is a root itself (R5)? And did more change in it than is to be believed?

Absence is suspicious: a disk that is not mounted looks like an empty folder, without any error. So before a root's
files are looked at, the root is recognised by its file system and folder, and may be empty only if each of its files is
known to be missing; and before removals and changes are taken over, they are weighed together.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from integrity.catalog.roots import RootRecord
from integrity.config import RootSettings
from integrity.errors import RootSuspended, show_path
from integrity.files.excludes import Excludes
from integrity.files.identity import explain_unrecognised, identify, recognise
from integrity.files.open_beneath import open_noatime, open_root
from integrity.model import RootIdentity

LEAST_PATTERN = 20
"""Changed files that may be a pattern: who changes the suffix of a handful does it by hand."""

RELEASED = "released"
"""State reason of a root whose suspension a person lifted: it is believed to be itself, empty or not, for one run."""


class Guarded(NamedTuple):
    """A root that is itself."""

    fd: int  # the caller closes it
    identity: RootIdentity  # what it is to be recognised by from now on: a surer name of its file system may be seen


def open_guarded(root: RootRecord, out_of_place: Collection[bytes] = ()) -> Guarded:
    """
    Open a root's folder if it is the root that was recorded.

    Args:
        root: its record.
        out_of_place: names in its folder that hold files of it for now: with one of them it is not empty.

    Raises:
        RootSuspended: unmounted, replaced, unreadable, or empty where it had files.
    """
    try:
        root_fd = open_root(root.path)
    except OSError as error:
        never = "" if root.was_seen else "is configured, but was never there, and "
        raise RootSuspended(f"{show_path(root.path)}: {never}can't be opened: {error.strerror}") from error
    try:
        return Guarded(root_fd, _check(root, root_fd, out_of_place))
    except BaseException:
        os.close(root_fd)
        raise


def _check(root: RootRecord, root_fd: int, out_of_place: Collection[bytes]) -> RootIdentity:
    known = root.identity
    seen = identify(root_fd, root.path)
    if root.state_reason == RELEASED or not root.was_seen:
        return replace(seen, mount_point=b"")
    fs_id = recognise(known.fs_id, seen.names)
    if fs_id is None:
        raise RootSuspended(f"{show_path(root.path)}: {explain_unrecognised(known.fs_id, seen.names)}")
    if seen.folder_inode != known.folder_inode:
        raise RootSuspended(f"{show_path(root.path)}: another folder is there than the one that was recorded")
    if root.file_count > root.missing_count and _is_empty(root_fd, root.path, out_of_place):
        raise RootSuspended(f"{show_path(root.path)}: is empty, where {root.file_count} files are recorded")
    return replace(known, fs_id=fs_id, names=seen.names)


def _is_empty(root_fd: int, path: bytes, out_of_place: Collection[bytes]) -> bool:
    """Say whether nothing but what systems put there themselves is in a folder."""
    builtin = Excludes()
    try:
        fd = open_noatime(root_fd, b"", os.O_RDONLY | os.O_DIRECTORY)
        try:
            with os.scandir(fd) as entries:
                names = ((os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)) for entry in entries)
                return all(
                    name not in out_of_place and builtin.matches(name, name, is_folder) for name, is_folder in names
                )
        finally:
            os.close(fd)
    except OSError as error:
        raise RootSuspended(f"{show_path(path)}: can't be listed: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Wave:
    """What changed and went in a root, in this run and in the day before it."""

    changed: int
    removed: int
    looked_at: int

    def is_mass_change(self, settings: RootSettings) -> bool:
        """Say whether it is more than both limits: so many files, and so much of what was looked at."""
        count = self.changed + self.removed
        is_many = count > settings.mass_change_files
        return is_many and count * 100 > settings.mass_change_percent * self.looked_at
