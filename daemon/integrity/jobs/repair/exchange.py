"""
Put a new file in the place of a damaged one, so that one of the two is always there, whole (see ``Placer``).

Also finds and makes the folders above a lost file if they are gone as well. ``recover`` finishes or undoes an exchange
after a kill: it removes the new file as long as no name leads to it, and goes on as soon as one does.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from integrity.errors import RepairFailed, show_path
from integrity.files.open_beneath import make_folder_at, open_beneath, stat_beneath
from integrity.files.replace_file import UNSUPPORTED, exchange, is_locked, may_exchange, rename_to_free

if TYPE_CHECKING:
    from integrity.catalog.root_meta import JournalPlace
    from integrity.model import Capability


_FOLDER = os.O_RDONLY | os.O_DIRECTORY


class NewFolder(NamedTuple):
    """A folder to make: its path in the root, and its permission bits; None for those of its parent."""

    path: bytes
    mode: int | None


def find_gone_folders(root_fd: int, path: bytes) -> list[bytes]:
    """
    Return the missing folders above a path, the outermost first.

    Raises:
        OSError: something other than a folder is in the place of one, or it can't be examined.
    """
    gone: list[bytes] = []
    folder = path.rpartition(b"/")[0]
    while folder:
        try:
            there = stat_beneath(root_fd, folder)
        except FileNotFoundError:
            gone.append(folder)
            folder = folder.rpartition(b"/")[0]
            continue
        if not stat.S_ISDIR(there.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        break
    return gone[::-1]


@contextmanager
def making_folders(root_fd: int, folders: Sequence[NewFolder]) -> Iterator[None]:
    """
    Make folders, and remove them again if the body fails; folders that are not empty by then stay.

    Each gets the owner of its parent. A folder that exists by now is left unchanged.

    Raises:
        OSError: one can't be made.
    """
    with ExitStack() as undoing:
        for one in folders:
            if _make(root_fd, one):
                undoing.callback(_remove_files, root_fd, one.path)
        yield
        undoing.pop_all()


def _make(root_fd: int, new: NewFolder) -> bool:
    above, _, name = new.path.rpartition(b"/")
    above_fd = open_beneath(root_fd, above, _FOLDER)
    try:
        return make_folder_at(above_fd, name, mode=new.mode)
    finally:
        os.close(above_fd)


def _remove_files(root_fd: int, path: bytes) -> None:
    above, _, name = path.rpartition(b"/")
    with suppress(OSError):  # an empty folder left behind does no harm
        above_fd = open_beneath(root_fd, above, _FOLDER)
        try:
            os.rmdir(name, dir_fd=above_fd)
        finally:
            os.close(above_fd)


class ParentFolders:
    """
    The open folders of some places; a context manager.

    Args:
        places: places whose folders are opened.

    Raises:
        OSError: (on entering) one can't be opened, or its path contains a symbolic link.
    """

    def __init__(self, root_fd: int, places: Sequence[JournalPlace]) -> None:
        self._root_fd = root_fd
        self._wanted = dict.fromkeys(place.folder for place in places)
        self._fds: dict[bytes, int] = {}
        self._stack = ExitStack()

    def __enter__(self) -> ParentFolders:
        try:
            for folder in self._wanted:
                fd = open_beneath(self._root_fd, folder, os.O_RDONLY | os.O_DIRECTORY)
                self._stack.callback(os.close, fd)
                self._fds[folder] = fd
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __getitem__(self, place: JournalPlace) -> int:
        """Return the descriptor of a place's folder; this object keeps ownership."""
        return self._fds[place.folder]

    def sync(self) -> None:
        """Flush all changes in the folders to the disk."""
        for fd in self._fds.values():
            os.fsync(fd)

    def require_unlocked(self) -> None:
        """
        Check that names in the folders can be changed.

        Raises:
            RepairFailed: a folder is immutable or append-only. In an append-only one a new file could be created, but
                never removed.
        """
        for folder, fd in self._fds.items():
            if is_locked(fd):
                raise RepairFailed(
                    f"{show_path(folder or b'.')}: this folder is immutable or append-only, so nothing was changed;"
                    " remove the attribute first: chattr -i -a FOLDER"
                )

    def require_same(self) -> None:
        """
        Check that the paths still lead to these folders.

        Raises:
            RepairFailed: one was moved or replaced.
        """
        for folder, fd in self._fds.items():
            ours = os.fstat(fd)
            try:
                there = stat_beneath(self._root_fd, folder)
            except OSError as error:
                raise RepairFailed(f"{show_path(folder)}: no longer exists: {error.strerror}") from error
            if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
                raise RepairFailed(f"{show_path(folder)}: another folder has its name now; nothing was changed")


class Placer:
    """
    Rename within the folders of one file.

    With an exchange of names: ``made`` becomes ``kept``, then ``kept`` and the file's name are exchanged. Without: the
    damaged file becomes ``kept``, then ``made`` becomes the file. After a kill the names show the progress:

        made  kept  name
        there   -   there   the new file is not in its place
        there there   -     the name is free for a moment
          -   there there   the new file is or is not in its place: the contents decide
          -     -   there   nothing was begun, or all was done

    Each name of a file goes through this; all get their ``kept`` before the first is exchanged. A lost file leaves
    nothing to keep: ``made`` is renamed to its name.

    Args:
        folders: open.
        capability: of the file system.
    """

    def __init__(self, folders: ParentFolders, capability: Capability) -> None:
        self._folders = folders
        self._has_flags = may_exchange(capability)

    def link_others(self, places: Sequence[JournalPlace]) -> None:
        """Link the new file, which has the first ``made`` name, to the ``made`` names of the other places."""
        first = places[0]
        for place in places[1:]:
            os.link(
                *(first.made, place.made),
                src_dir_fd=self._folders[first],
                dst_dir_fd=self._folders[place],
                follow_symlinks=False,
            )
        self._folders.sync()

    def take_free_name(self, place: JournalPlace) -> None:
        """Rename the new file to the name of a lost file."""
        rename_to_free(self._folders[place], place.made, place.name, has_flags=self._has_flags)
        self._folders.sync()

    def swap(self, places: Sequence[JournalPlace]) -> None:
        """
        Put the new file in the place of the damaged one, under each of its names.

        Raises:
            OSError: a rename failed; what was done is undone as far as possible.
        """
        done: list[JournalPlace] = []
        try:
            for place in places:
                self._rename(place, place.made, place.kept)
            self._folders.sync()
            for place in places:
                self.exchange(place)
                done.append(place)
            self._folders.sync()
        except OSError:
            for place in reversed(done):
                self.exchange(place)
            self._folders.sync()
            raise

    def exchange(self, place: JournalPlace) -> None:
        """
        Exchange the file's name with ``kept``.

        Raises:
            OSError: it failed; everything is as before.
        """
        if self._has_flags:
            try:
                exchange(self._folders[place], place.kept, place.name)
            except OSError as error:
                if error.errno not in UNSUPPORTED:
                    raise
                self._has_flags = False
            else:
                return
        self._rename(place, place.kept, place.made)
        try:
            self._rename(place, place.name, place.kept)
        except OSError:
            self._rename(place, place.made, place.kept)
            raise
        try:
            self._folders.sync()
            self._rename(place, place.made, place.name)
        except OSError:
            self._rename(place, place.kept, place.name)
            self._rename(place, place.made, place.kept)
            raise

    def remove(self, places: Sequence[JournalPlace], names: str) -> None:
        """Remove the files under their ``made`` or ``kept`` names, if they exist."""
        for place in places:
            with suppress(FileNotFoundError):
                os.unlink(getattr(place, names), dir_fd=self._folders[place])
        self._folders.sync()

    def _rename(self, place: JournalPlace, old: bytes, new: bytes) -> None:
        rename_to_free(self._folders[place], old, new, has_flags=self._has_flags)


@contextmanager
def explain_swap_errors(path: bytes) -> Iterator[None]:
    """Turn an OSError of a rename into a RepairFailed with its remedy."""
    try:
        yield
    except OSError as error:
        raise RepairFailed(
            f"{show_path(path)}: the repaired file can't be moved into place: {error.strerror};"
            " it was deleted again, and the file is as it was: check whether its folder is writable"
        ) from error
