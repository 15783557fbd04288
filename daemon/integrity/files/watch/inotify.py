"""
Say which limits of the kernel hold here, and what they would have to be.

Read the events of one inotify instance.

watchdog's reader brings the binding, the parsing of the queue and a thread that can be stopped. Its groups of watches
above it are not used: they watch excluded folders as well, walk into other mounts, keep what they have read in queues
without a bound, and rebuild themselves after an overflow, whose events overflow the queue again. So its table of
watches stays empty, and every event goes straight to a handler, in the reader's thread: who is too slow makes the
kernel's queue overflow, which is told, and no memory of ours grow.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import NamedTuple, Protocol

from watchdog.observers.inotify_c import InotifyConstants as Flags
from watchdog.observers.inotify_c import InotifyEvent, InotifyFD, WatchDescriptor, inotify_add_watch, inotify_rm_watch

_QUEUE = "fs.inotify.max_queued_events"

# A limit for all users, and one of the user namespace that a container may have; the smaller one holds.
_WATCHES = ("fs.inotify.max_user_watches", "user.max_inotify_watches")
_INSTANCES = ("fs.inotify.max_user_instances", "user.max_inotify_instances")

_WATCH_STEP = 65_536


class KernelLimit(NamedTuple):
    """A setting of the kernel."""

    name: str  # as sysctl(8) takes it
    value: int


def get_watch_limit() -> KernelLimit:
    """Get how many folders this user's programs may watch together."""
    return _get_smallest(_WATCHES)


def advise_watches(unwatched: int) -> str:
    """Say what to do so that some more folders can be watched."""
    limit = get_watch_limit()
    # Rounded up: each folder that is made later needs one more, and each costs the kernel about 1 KiB at most.
    needed = -(-(limit.value + unwatched) // _WATCH_STEP) * _WATCH_STEP
    return f"all watches that this user may have are used: {_advise(limit, needed)}"


def advise_instances() -> str:
    """Say what to do so that one more queue of events can be opened."""
    limit = _get_smallest(_INSTANCES)
    return (
        f"this user's programs have no inotify instance left, or this one no file descriptor (LimitNOFILE=): "
        f"{_advise(limit, limit.value * 2)}"
    )


def advise_queue() -> str:
    """Say what to do so that a longer burst of changes is kept."""
    limit = _get_smallest((_QUEUE,))
    return f"if it happens again: {_advise(limit, limit.value * 4)}"


def _advise(limit: KernelLimit, needed: int) -> str:
    return (
        f"{limit.name} is {limit.value}, raise it: sysctl -w {limit.name}={needed} "
        "(to keep it, write it to a file in /etc/sysctl.d)"
    )


def _get_smallest(names: tuple[str, ...]) -> KernelLimit:
    return min((limit for name in names if (limit := _find(name))), key=lambda limit: limit.value)


def _find(name: str) -> KernelLimit | None:
    try:
        with open("/proc/sys/" + name.replace(".", "/"), encoding="ascii") as file:
            return KernelLimit(name, int(file.read()))
    except FileNotFoundError:
        return None  # a kernel without user namespaces has no limits of theirs


# Nothing that reading causes (IN_OPEN, IN_CLOSE_NOWRITE, IN_ACCESS): a scrub would tell of itself. Not IN_MODIFY: one
# event for each write(2); the close tells it once.
_MASK = (
    Flags.IN_CREATE
    | Flags.IN_CLOSE_WRITE
    | Flags.IN_DELETE
    | Flags.IN_MOVED_FROM
    | Flags.IN_MOVED_TO
    | Flags.IN_ONLYDIR
    | Flags.IN_EXCL_UNLINK
)


class EventHandler(Protocol):
    """Take events, in the reader's thread. ``watch`` is what ``EventReader.add`` returned."""

    def named(self, watch: int, name: bytes, *, is_folder: bool) -> None:
        """Something happened to a name in a watched folder, and it is neither of the following."""

    def folder_came(self, watch: int, name: bytes, *, is_moved: bool) -> None:
        """A folder was made in a watched folder, or moved there, from anywhere."""

    def folder_left(self, watch: int, name: bytes) -> None:
        """A folder was moved away from a watched folder, to anywhere."""

    def top_moved(self) -> None:
        """The folder that was added as the top was itself renamed."""

    def unmounted(self, watch: int) -> None:
        """A watched folder's file system was unmounted; ``ended`` follows."""

    def ended(self, watch: int) -> None:
        """A watch is no more: removed by ``EventReader.remove``, or with its folder."""

    def overflowed(self) -> None:
        """Events were lost."""


class EventReader(InotifyFD):
    """
    Hand the events of one inotify instance on.

    ``start`` begins, ``stop`` ends it and frees all watches; ``join`` waits until the handler is called no more.

    Raises:
        OSError: EMFILE, there is no instance or no file descriptor left.
    """

    def __init__(self, handler: EventHandler) -> None:
        super().__init__()
        # InotifyFD leaves its descriptors to a thread that reads; stopped before the first read, it would leak them.
        self._is_reading = False
        self._handler = handler

    def add(self, fd: int, *, is_top: bool = False) -> int:
        """
        Watch an open folder.

        By descriptor: its path may be longer than a system call takes, or lead elsewhere by now.

        Returns:
            The same number for the same folder, wherever it was moved to.

        Raises:
            OSError: ENOSPC at the limit of watches, EBADF when the reader was stopped.
        """
        mask = _MASK | Flags.IN_MOVE_SELF if is_top else _MASK
        with self._lock:
            if self._closed:
                raise OSError(errno.EBADF, "the watch was stopped")
            watch = inotify_add_watch(self._inotify_fd, b"/proc/self/fd/%d" % fd, mask)
            if watch == -1:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))
        return int(watch)

    def remove(self, watch: int) -> None:
        """Stop watching a folder; one that is not watched any more is no error."""
        with self._lock:
            if not self._closed:
                inotify_rm_watch(self._inotify_fd, WatchDescriptor(watch))

    def handle_event(self, event: InotifyEvent) -> None:
        """Sort out one event."""
        handler, watch, mask = self._handler, event.wd, event.mask
        is_folder = bool(mask & Flags.IN_ISDIR)
        if mask & Flags.IN_Q_OVERFLOW:
            handler.overflowed()
        elif mask & Flags.IN_IGNORED:
            handler.ended(watch)
        elif mask & Flags.IN_UNMOUNT:
            handler.unmounted(watch)
        elif mask & Flags.IN_MOVE_SELF:
            handler.top_moved()
        elif is_folder and mask & (Flags.IN_CREATE | Flags.IN_MOVED_TO):
            handler.folder_came(watch, event.name, is_moved=bool(mask & Flags.IN_MOVED_TO))
        elif is_folder and mask & Flags.IN_MOVED_FROM:
            handler.folder_left(watch, event.name)
        elif event.name:
            handler.named(watch, event.name, is_folder=is_folder)
