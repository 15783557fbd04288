"""
The folders above a file that is gone, where they are gone as well: they are made anew for it.

Put a new file in the place of a damaged one, so that at no moment less than one of the two is there, whole.

With an exchange of names: ``made`` becomes ``kept``, then ``kept`` and the file's name are exchanged. Without: the
damaged file becomes ``kept``, then ``made`` becomes the file. So after a kill the names say how far it came:

    made  kept  name
    there   -   there   the new file is not in its place
    there there   -     the name is free for a moment
      -   there there   the new file is not in its place, or is: what is in the two tells
      -     -   there   nothing was begun, or all was done

Of a file with several names each goes through this; all are ``kept`` before the first is exchanged. ``recovery`` takes
the new file away as long as no name leads to it, and goes on as soon as one does. A file that was gone has no damaged
one to be kept: ``made`` just gets its name.
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
    from integrity.catalog.repair_journal import JournalPlace
    from integrity.model import Capability


_FOLDER = os.O_RDONLY | os.O_DIRECTORY


class NewFolder(NamedTuple):
    """A folder to be made: its path in the root, and its permission bits; None: as of the folder that it lies in."""

    path: bytes
    mode: int | None


def find_gone_folders(root_fd: int, path: bytes) -> list[bytes]:
    """
    List the folders above a path that are not there, the outermost first.

    Raises:
        OSError: something else stands in the place of one, or it can't be looked at.
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
    Make folders, and take them away again if what is done in them fails; one that is not empty by then stays.

    Each gets the owner of the folder that it lies in. One that somebody else has made meanwhile is left as it is.

    Raises:
        OSError: one can't be made.
    """
    with ExitStack() as undoing:
        for one in folders:
            if _make(root_fd, one):
                undoing.callback(_take_away, root_fd, one.path)
        yield
        undoing.pop_all()


def _make(root_fd: int, new: NewFolder) -> bool:
    above, _, name = new.path.rpartition(b"/")
    above_fd = open_beneath(root_fd, above, _FOLDER)
    try:
        return make_folder_at(above_fd, name, mode=new.mode)
    finally:
        os.close(above_fd)


def _take_away(root_fd: int, path: bytes) -> None:
    above, _, name = path.rpartition(b"/")
    with suppress(OSError):  # an empty folder is no loss
        above_fd = open_beneath(root_fd, above, _FOLDER)
        try:
            os.rmdir(name, dir_fd=above_fd)
        finally:
            os.close(above_fd)


class ParentFolders:
    """
    The open folders of some places; a context manager.

    Args:
        root_fd: of the root.
        places: whose folders are opened.

    Raises:
        OSError: (on entering) one can't be opened, or a symbolic link leads to it.
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
        """Give the descriptor of a place's folder; it stays ours."""
        return self._fds[place.folder]

    def sync(self) -> None:
        """Bring all of what was done in the folders to the disk."""
        for fd in self._fds.values():
            os.fsync(fd)

    def require_unlocked(self) -> None:
        """
        See that names in the folders can be changed.

        Raises:
            RepairFailed: a folder is append-only, say: a new file could be made in it, and never be taken away again.
        """
        for folder, fd in self._fds.items():
            if is_locked(fd):
                raise RepairFailed(
                    f"{show_path(folder or b'.')}: this folder is immutable or append-only, so nothing was changed;"
                    " lift that first: chattr -i -a FOLDER"
                )

    def require_same(self) -> None:
        """
        See that the paths still lead to these folders.

        Raises:
            RepairFailed: one was moved, or another stands there.
        """
        for folder, fd in self._fds.items():
            ours = os.fstat(fd)
            try:
                there = stat_beneath(self._root_fd, folder)
            except OSError as error:
                raise RepairFailed(f"{show_path(folder)}: is not there any more: {error.strerror}") from error
            if (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
                raise RepairFailed(f"{show_path(folder)}: another folder stands there now; nothing was changed")


class Placer:
    """
    Rename in the folders of one file.

    Args:
        folders: open.
        capability: of the file system.
    """

    def __init__(self, folders: ParentFolders, capability: Capability) -> None:
        self._folders = folders
        self._has_flags = may_exchange(capability)

    def link_others(self, places: Sequence[JournalPlace]) -> None:
        """Give the new file, which has the first ``made`` name, the others as well."""
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
        """Give the new file its name, where there was none."""
        rename_to_free(self._folders[place], place.made, place.name, has_flags=self._has_flags)
        self._folders.sync()

    def swap(self, places: Sequence[JournalPlace]) -> None:
        """
        Put the new file in the place of the damaged one, under each of its names.

        Raises:
            OSError: it can't be; what was done is undone, as far as it can be.
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
        Exchange what stands under the file's name with what stands under ``kept``.

        Raises:
            OSError: it can't be; all is as before.
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

    def take_away(self, places: Sequence[JournalPlace], names: str) -> None:
        """Remove files under ``made`` or ``kept`` names, those that there are."""
        for place in places:
            with suppress(FileNotFoundError):
                os.unlink(getattr(place, names), dir_fd=self._folders[place])
        self._folders.sync()

    def _rename(self, place: JournalPlace, old: bytes, new: bytes) -> None:
        rename_to_free(self._folders[place], old, new, has_flags=self._has_flags)


@contextmanager
def explaining_swap(path: bytes) -> Iterator[None]:
    """Put what the system says to renaming into words."""
    try:
        yield
    except OSError as error:
        raise RepairFailed(
            f"{show_path(path)}: the new file is whole, but can't be put in its place: {error.strerror};"
            " it was taken away again and the file is as it was: see whether its folder can be written to"
        ) from error
