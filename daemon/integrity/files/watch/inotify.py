"""
Read the events of one inotify instance, and advise on the kernel limits that apply.

watchdog's reader provides the binding, the parsing of the queue and a stoppable thread. Its higher-level watch groups
are not used: they also watch excluded folders, enter other mounts, queue events without a bound, and rebuild themselves
after an overflow, whose events overflow the queue again. So its table of watches stays empty, and each event goes
directly to a handler in the reader's thread: a slow handler makes the kernel's queue overflow, which is reported, and
uses no memory here.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import NamedTuple, Protocol

from watchdog.observers.inotify_c import InotifyConstants as Flags
from watchdog.observers.inotify_c import InotifyEvent, InotifyFD, WatchDescriptor, inotify_add_watch, inotify_rm_watch

_QUEUE = "fs.inotify.max_queued_events"

# A limit for all users, and one of the user namespace (containers); the smaller one applies.
_WATCHES = ("fs.inotify.max_user_watches", "user.max_inotify_watches")
_INSTANCES = ("fs.inotify.max_user_instances", "user.max_inotify_instances")

_WATCH_STEP = 65_536


class KernelLimit(NamedTuple):
    """A kernel setting."""

    name: str  # as in sysctl(8)
    value: int


def get_watch_limit() -> KernelLimit:
    """Return how many folders this user's programs may watch in total."""
    return _get_smallest(_WATCHES)


def advise_watches(unwatched: int) -> str:
    """Return advice for watching this many more folders."""
    limit = get_watch_limit()
    # Rounded up: each new folder needs one more, at a cost of at most about 1 KiB of kernel memory.
    needed = -(-(limit.value + unwatched) // _WATCH_STEP) * _WATCH_STEP
    return f"all watches that this user may have are used: {_advise(limit, needed)}"


def advise_instances() -> str:
    """Return advice for opening one more event queue."""
    limit = _get_smallest(_INSTANCES)
    return (
        f"this user's programs have no inotify instance left, or this one no file descriptor (LimitNOFILE=): "
        f"{_advise(limit, limit.value * 2)}"
    )


def advise_queue() -> str:
    """Return advice for keeping longer bursts of changes."""
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
        return None  # a kernel without user namespaces lacks their limits


# No events caused by reading (IN_OPEN, IN_CLOSE_NOWRITE, IN_ACCESS): a scrub would report itself. No IN_MODIFY: one
# event per write(2); the close reports it once.
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
    """Handle events, in the reader's thread. ``watch`` is what ``EventReader.add`` returned."""

    def named(self, watch: int, name: bytes, *, is_folder: bool) -> None:
        """Handle an event for a name in a watched folder that none of the other methods covers."""

    def folder_came(self, watch: int, name: bytes, *, is_moved: bool) -> None:
        """Handle a folder that was made in a watched folder, or moved there from anywhere."""

    def folder_left(self, watch: int, name: bytes) -> None:
        """Handle a folder that was moved out of a watched folder, to anywhere."""

    def top_moved(self) -> None:
        """Handle a rename of the folder that was added as the top."""

    def unmounted(self, watch: int) -> None:
        """Handle the unmount of a watched folder's file system; ``ended`` follows."""

    def ended(self, watch: int) -> None:
        """Handle the end of a watch: removed by ``EventReader.remove``, or with its folder."""

    def overflowed(self) -> None:
        """Handle the loss of events."""


class EventReader(InotifyFD):
    """
    Pass the events of one inotify instance to a handler.

    ``start`` begins; ``stop`` ends it and frees all watches; ``join`` waits until the last handler call has returned.

    Raises:
        OSError: EMFILE: no inotify instance or file descriptor is left.
    """

    def __init__(self, handler: EventHandler) -> None:
        super().__init__()
        # InotifyFD leaves its descriptors to a reading thread; stopped before the first read, it would leak them.
        self._is_reading = False
        self._handler = handler

    def add(self, fd: int, *, is_top: bool = False) -> int:
        """
        Watch an open folder.

        Takes a descriptor: the path may be too long for a system call, or lead elsewhere by now.

        Returns:
            The same number for the same folder, even after a move.

        Raises:
            OSError: ENOSPC at the watch limit, EBADF if the reader was stopped.
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
        """Stop watching a folder; do nothing if its watch has already ended."""
        with self._lock:
            if not self._closed:
                inotify_rm_watch(self._inotify_fd, WatchDescriptor(watch))

    def handle_event(self, event: InotifyEvent) -> None:
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
