"""
Watch the folders of one tree, and keep track of their paths.

A folder is stored as its name and its parent's watch: a move changes one entry, and parent paths cost no memory. Each
folder is watched before it is listed, so a name made meanwhile is either listed or reported. What cannot be repaired
here (lost events, another folder at the root's path) is reported, and the owner makes a new watch.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from integrity.files.excludes import Excludes
from integrity.files.mounts import Mount, get_mount_id
from integrity.files.open_beneath import STAY_ON_MOUNT, open_noatime, open_root
from integrity.files.watch.inotify import EventReader


class BlindReason(StrEnum):
    """Why changes are not seen."""

    OVERFLOW = "overflow"  # events were lost: the kernel's queue overflowed, or its reader stopped
    WATCH_LIMIT = "watch_limit"  # some folders have no watch: the user's limit is reached
    INSTANCE_LIMIT = "instance_limit"  # the root has no watch: the user's limit of event queues is reached
    UNREADABLE = "unreadable"  # a folder cannot be opened or listed, so nothing below it is watched
    UNMOUNTED = "unmounted"  # the watched file system was unmounted
    ROOT_GONE = "root_gone"  # the root's folder was removed, renamed or replaced, or never existed
    REMOTE = "remote"  # others can write without this machine's kernel: changes are invisible, which is no fault


class Blindness(NamedTuple):
    """What is not seen, and why."""

    reason: BlindReason
    path: bytes  # relative to the root; empty for the root itself
    message: str  # what happened, where, and the remedy


class WatchSink(Protocol):
    """
    Receive a watcher's reports.

    Called concurrently from the watcher's threads and from those that call ``watch`` and ``tend``. Implementations
    return at once, raise nothing, and may call ``blindness`` but not ``watch``, ``tend`` or ``close``.
    """

    def touched(self, root: bytes, path: bytes) -> None:
        """
        Receive a hint that a name changed and must be checked.

        Everything below a folder may be new, too: it may have been filled before it was watched. A path may be
        outdated: a folder that was moved away is reported under its old path until the next ``tend``.

        Args:
            root: its absolute path.
            path: of a file or folder that was created, written and closed, deleted or moved; relative to the root,
                empty for the root itself. Excluded names are not reported.
        """

    def went_blind(self, root: bytes, blindness: Blindness) -> None:
        """
        Receive a report that changes were or may have been missed, so that the whole root must be scanned.

        Called once when it happens, and again when the root is watched again: every change that a scan started then
        misses is reported by ``touched``. ``Watcher.blindness`` returns the current state.
        """


class WatchedRoot(NamedTuple):
    """A root to watch."""

    path: bytes  # absolute, real
    excludes: Excludes
    is_remote: bool  # from its file system's capability
    cross_mounts: bool = False  # whether file systems mounted below belong to it


class WatchCoverage(NamedTuple):
    """The folder that a path leads to. Compared only within the lifetime of a watch, and never stored."""

    device: int
    inode: int
    mount_id: int
    mount_point: bytes
    beneath: frozenset[tuple[int, bytes]]  # id and path, relative to the root, of each mount below it

    def is_same_folder(self, other: WatchCoverage) -> bool:
        return self._replace(beneath=other.beneath) == other

    def is_at(self, fd: int) -> bool:
        """Return whether an open folder is this one."""
        status = os.fstat(fd)
        return (status.st_dev, status.st_ino) == (self.device, self.inode)


def look(path: bytes, mounts: Sequence[Mount]) -> WatchCoverage:
    """
    Return the folder that a path leads to.

    Closes the descriptor at once: an open one would prevent an unmount of the root, and hide the removal of its folder.

    Raises:
        OSError: there is no folder, or it cannot be queried.
    """
    fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        mount_id = get_mount_id(fd)
    finally:
        os.close(fd)
    point = next((mount.mount_point for mount in mounts if mount.mount_id == mount_id), None)
    if point is None:
        raise FileNotFoundError(errno.ENOENT, "its mount went away in this moment", path)
    top = path.rstrip(b"/") + b"/"
    beneath = frozenset(
        (mount.mount_id, mount.mount_point[len(top) :]) for mount in mounts if mount.mount_point.startswith(top)
    )
    return WatchCoverage(status.st_dev, status.st_ino, mount_id, point, beneath)


_NO_PARENT = -1


class WatchedPlaces:
    """
    The watched folders of one tree, by watch.

    A folder whose chain of parents does not end at the top is an orphan and has no path; one that was moved away stays
    an orphan until it is dropped.
    """

    __slots__ = ("_places", "_top")

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, bytes]] = {}
        self._top = _NO_PARENT

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, watch: int) -> bool:
        return watch in self._places

    def put_top(self, watch: int) -> bool:
        """Record the folder at which all paths begin; return whether that is new."""
        self._top = watch
        return self.put(watch, _NO_PARENT, b"")

    def is_top(self, watch: int) -> bool:
        return watch == self._top

    def put(self, watch: int, above: int, name: bytes) -> bool:
        """Record a folder's parent and name; return whether that is new."""
        place = (above, name)
        if self._places.get(watch) == place:
            return False
        self._places[watch] = place
        return True

    def drop(self, watch: int) -> None:
        """Remove a folder; those below it become orphans."""
        self._places.pop(watch, None)

    def find_path(self, watch: int) -> bytes | None:
        names: list[bytes] = []
        # Moves recorded one by one can form a temporary cycle.
        for _ in range(len(self._places) + 1):
            if watch == self._top:
                return b"/".join(reversed(names))
            place = self._places.get(watch)
            if place is None:
                return None
            watch = place[0]
            names.append(place[1])
        return None

    def find_at(self, places: Collection[tuple[int, bytes]]) -> list[int]:
        """Return the watches recorded at these places, each a parent's watch and a name."""
        return [watch for watch, place in self._places.items() if place in places]

    def find_orphans(self) -> list[int]:
        """Return the watches of folders without a path."""
        is_placed = {self._top: self._top in self._places}
        orphans = []
        for watch in self._places:
            way: list[int] = []
            step = watch
            while step not in is_placed:
                is_placed[step] = False  # until its end is known; a cycle has none
                way.append(step)
                place = self._places.get(step)
                if place is None:
                    break
                step = place[0]
            is_good = is_placed.get(step, False)
            is_placed.update(dict.fromkeys(way, is_good))
            if not is_placed[watch]:
                orphans.append(watch)
        return orphans


# Gone, or not part of the root: an event or a check of the mounts reports when that changes.
_NOT_OURS = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV})

# Each removed watch makes an event: stay well below the 16,384 that the kernel queues.
_MOST_REMOVED = 4096

# Most moved folders remembered between two sweeps; watches of further ones stay until the next renewal.
_MOST_MOVED = 10_000

_UNPLACED = -1


class TreeObserver(Protocol):
    """Receive the reports of a tree; from any thread."""

    def touched(self, path: bytes) -> None:
        """Handle a hint that a name changed."""

    def overflowed(self) -> None:
        """Handle the loss of events."""

    def unmounted(self, point: bytes) -> None:
        """Handle the unmount of a file system: the root's (empty path), or one mounted below it."""

    def lost(self) -> None:
        """Handle the removal or rename of the root's folder."""

    def unreadable(self, path: bytes, error: OSError) -> None:
        """Handle a folder that cannot be opened, watched or listed."""

    def exhausted(self, unwatched: int) -> None:
        """Handle the watch limit: the number of folders since the start that got no watch."""


class TreeWatch:
    """
    The watches of one root.

    ``start`` makes them; ``stop`` frees them, and no report follows after it returns.

    Attributes:
        is_lost: the folder at the root's path is no longer the watched one.
        has_overflowed: events were lost since ``start``.
        unwatched: number of folders found that got no watch.

    Raises:
        OSError: EMFILE: no inotify instance is left.
    """

    def __init__(self, root: WatchedRoot, coverage: WatchCoverage, observer: TreeObserver) -> None:
        self._root = root
        self._coverage = coverage
        self._observer = observer
        self._flags = os.O_RDONLY | os.O_DIRECTORY | (0 if root.cross_mounts else STAY_ON_MOUNT)
        self._lock = threading.Lock()  # protects the places; an event waits until its folder's place is recorded
        self._places = WatchedPlaces()
        self._moved: set[tuple[int, bytes]] = set()
        self._has_orphans = False
        self._is_stopped = False
        self.is_lost = False
        self.has_overflowed = False
        self.unwatched = 0
        self._reader = EventReader(self)

    def start(self) -> None:
        """Begin to read events, then watch all folders."""
        self._reader.name = "watch"
        self._reader.start()
        self._watch_below(b"", _UNPLACED, is_sure=True)

    def stop(self) -> None:
        """Free all watches and wait for the reader's thread."""
        self._is_stopped = True
        self._reader.stop()
        self._reader.join()

    @property
    def is_alive(self) -> bool:
        return self._reader.is_alive()

    @property
    def folder_count(self) -> int:
        return len(self._places)

    def note_mounts(self, coverage: WatchCoverage) -> None:
        """Record what is now mounted below the root."""
        self._coverage = coverage

    def refresh(self, path: bytes) -> bool:
        """
        Watch a folder and its subfolders that could not be watched, or were hidden, before.

        Returns:
            Whether it lies in a watched folder and is not excluded.
        """
        folder, _, name = path.rpartition(b"/")
        if self._root.excludes.matches(path, name, True):
            return False
        try:
            above = self._get_watch(folder)
        except OSError as error:
            self._report_error(path, error)
            return False
        if above not in self._places:
            self._reader.remove(above)  # made just now, in an excluded folder
            return False
        self._watch_below(path, above, is_sure=True)
        return True

    def has_room(self) -> bool:
        """Return whether a watch is left, by making one."""
        fd = os.open(b"/", os.O_PATH | os.O_DIRECTORY)
        try:
            self._reader.remove(self._reader.add(fd))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EBADF):
                raise
            return False
        finally:
            os.close(fd)
        return True

    def sweep(self) -> None:
        """Free the watches of folders that were moved away; the number per sweep is limited."""
        # One lock over check and removal: a folder moved back meanwhile is recorded again afterwards.
        with self._lock:
            moved, self._moved = self._moved, set()
            for watch in self._places.find_at(moved) if moved else ():
                if not self._is_there(watch):
                    self._forget(watch)
                    self._has_orphans = True
            if self._has_orphans:
                orphans = self._places.find_orphans()
                for watch in orphans[:_MOST_REMOVED]:
                    self._forget(watch)
                self._has_orphans = len(orphans) > _MOST_REMOVED

    # Reports of EventReader, in its thread.

    def named(self, watch: int, name: bytes, *, is_folder: bool) -> None:
        """Report a name that was created, closed after writing, deleted or moved."""
        path = self._find_path(watch, name, is_folder)
        if path is not None:
            self._observer.touched(path)

    def folder_came(self, watch: int, name: bytes, *, is_moved: bool) -> None:
        """Watch a folder that was made or moved here, and only then report it."""
        path = self._find_path(watch, name, is_folder=True)
        if path is not None:
            # Always walk a moved folder: while its path was another, new folders in it were not found.
            self._watch_below(path, watch, is_sure=is_moved)
            self._observer.touched(path)

    def folder_left(self, watch: int, name: bytes) -> None:
        """Remember to check whether a folder left the root, and report it."""
        path = self._find_path(watch, name, is_folder=True)
        if path is not None:
            with self._lock:
                if len(self._moved) < _MOST_MOVED:
                    self._moved.add((watch, name))
            self._observer.touched(path)

    def top_moved(self) -> None:
        self.is_lost = True
        self._observer.lost()

    def unmounted(self, watch: int) -> None:
        with self._lock:
            path = self._places.find_path(watch)
        if path is None:
            return
        inside = path + b"/"
        points = [point for _, point in self._coverage.beneath if inside.startswith(point + b"/")]
        point = max(points, key=len, default=b"")
        self._observer.unmounted(point)

    def ended(self, watch: int) -> None:
        with self._lock:
            is_top = self._places.is_top(watch) and watch in self._places
            self._places.drop(watch)
        if is_top:
            self.is_lost = True
            self._observer.lost()

    def overflowed(self) -> None:
        """Report that events were lost. Keep the watches: removing them would cause as many events."""
        self.has_overflowed = True
        self._observer.overflowed()

    # End of the reports.

    def _find_path(self, watch: int, name: bytes, is_folder: bool) -> bytes | None:
        """Return the path of a name in a watched folder; None if it must not be reported."""
        with self._lock:
            folder = self._places.find_path(watch)
        if folder is None:
            return None
        path = folder + b"/" + name if folder else name
        return None if self._root.excludes.matches(path, name, is_folder) else path

    def _watch_below(self, start: bytes, above: int, *, is_sure: bool) -> None:
        """
        Watch a folder and everything below it.

        Args:
            above: the watch of its parent folder.
            is_sure: walk folders even if they are already watched at their places.
        """
        unwatched = self.unwatched
        try:
            root_fd = self._open_root()
        except OSError as error:
            self._report_error(b"", error)
            self.is_lost = self.is_lost or error.errno in _NOT_OURS
            return
        try:
            entered: set[int] = set()
            pending = [(start, above)]
            while pending and not self._is_stopped:
                path, above = pending.pop()
                pending += self._enter(root_fd, path, above, entered, is_sure=is_sure)
        finally:
            os.close(root_fd)
        if self.unwatched > unwatched:
            self._observer.exhausted(self.unwatched)

    def _enter(
        self, root_fd: int, path: bytes, above: int, entered: set[int], *, is_sure: bool
    ) -> list[tuple[bytes, int]]:
        """Watch and list one folder; return its subfolders to watch, each with this folder's watch."""
        folders: list[tuple[bytes, int]] = []
        try:
            fd = open_noatime(root_fd, path, self._flags)
        except OSError as error:
            self._report_error(path, error)
            return folders
        try:
            watch = self._place(fd, path, above, entered, is_sure=is_sure)
            if watch is not None:
                for folder in self._find_folders(fd, path):
                    folders.append((folder, watch))  # noqa: PERF401 - what was listed before an error is kept
        except OSError as error:
            self._report_error(path, error)
        finally:
            os.close(fd)
        return folders

    def _place(self, fd: int, path: bytes, above: int, entered: set[int], *, is_sure: bool) -> int | None:
        """Watch one open folder and record its place; return None if nothing below it needs watching."""
        if above == _UNPLACED and path:
            self.unwatched += 1
            return _UNPLACED
        try:
            with self._lock:
                watch = self._reader.add(fd, is_top=not path)
                if watch in entered:
                    return None  # already entered through another mount
                entered.add(watch)
                if path:
                    is_news = self._places.put(watch, above, path.rpartition(b"/")[2])
                else:
                    is_news = self._places.put_top(watch)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self.unwatched += 1
            return _UNPLACED  # walked all the same, to count the missing watches
        return watch if is_news or is_sure else None

    def _find_folders(self, fd: int, path: bytes) -> Iterator[bytes]:
        prefix = path + b"/" if path else b""
        is_excluded = self._root.excludes.matches
        with os.scandir(fd) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    name = os.fsencode(entry.name)
                    if not is_excluded(prefix + name, name, True):
                        yield prefix + name

    def _open_root(self) -> int:
        """Open the root if it is still the watched folder."""
        fd = open_root(self._root.path)
        if not self._coverage.is_at(fd):
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "another folder stands there", self._root.path)
        return fd

    def _get_watch(self, path: bytes) -> int:
        """Return the watch of the folder at a path; make one if it has none."""
        root_fd = self._open_root()
        try:
            fd = open_noatime(root_fd, path, self._flags)
            try:
                return self._reader.add(fd, is_top=not path)
            finally:
                os.close(fd)
        finally:
            os.close(root_fd)

    def _is_there(self, watch: int) -> bool:
        """Return whether a watched folder is still at its place; True if unknown."""
        path = self._places.find_path(watch)
        if path is None:
            return False
        try:
            return self._get_watch(path) == watch
        except OSError as error:
            return error.errno not in _NOT_OURS

    def _forget(self, watch: int) -> None:
        self._places.drop(watch)
        self._reader.remove(watch)

    def _report_error(self, path: bytes, error: OSError) -> None:
        if error.errno not in _NOT_OURS and not self._is_stopped:
            self._observer.unreadable(path, error)
