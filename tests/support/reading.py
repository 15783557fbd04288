"""
Roots and readers of files.read as tests need them: conditions to choose, all bytes in one piece, all closed.

The one module of the rig that knows a part of the program, so that the tests of reading share one way to do it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from integrity.files.buffers import Buffers
from integrity.files.listing import FolderListing
from integrity.files.open_beneath import open_root
from integrity.files.read import OpenFile, Reader
from integrity.files.read_errors import ErrorBudget
from integrity.files.span import UNLIMITED, Pace, ReadMode
from integrity.model import Capability
from support import AnyPath
from support.waiting import wait_until


def make_capability(fs_type: str = "ext4", *, has_direct_io: bool = True, granularity_ns: int = 1) -> Capability:
    """Return what a local file system can be trusted with."""
    return Capability(
        fs_type,
        has_ctime=True,
        has_stable_inodes=True,
        granularity_ns=granularity_ns,
        has_direct_io=has_direct_io,
        is_remote=False,
    )


@contextmanager
def opened_root(folder: AnyPath) -> Iterator[int]:
    """Give a descriptor of a root; it is closed afterwards."""
    fd = open_root(os.fsencode(folder))
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def reading(
    folder: AnyPath,
    mode: ReadMode = ReadMode.RECORD,
    *,
    capability: Capability | None = None,
    pace: Pace = UNLIMITED,
    budget: ErrorBudget | None = None,
    clock_ns: Callable[[], int] = time.time_ns,
    use_holes: bool = True,
) -> Iterator[Reader]:
    """Give a reader of ``folder``; its descriptor is closed afterwards."""
    with opened_root(folder) as root_fd:
        yield Reader(
            root_fd,
            capability or make_capability(),
            mode=mode,
            pace=pace,
            budget=budget,
            clock_ns=clock_ns,
            use_holes=use_holes,
        )


def read_all(file: OpenFile, buffers: Buffers, start: int = 0) -> bytes:
    """Return all segments put together, holes as zeros."""
    return b"".join(bytes(one.length) if one.data is None else bytes(one.data) for one in file.segments(buffers, start))


def files_of(listings: Iterable[FolderListing]) -> set[bytes]:
    """Return the paths of all files in the listings of a walk."""
    return {os.path.join(listing.folder, seen.name) for listing in listings for seen in listing.files}


def let_age(path: AnyPath, age_ns: int = 50_000_000) -> None:
    """Wait until the next change of ``path`` gets another time on any kernel."""
    changed_ns = os.lstat(path).st_ctime_ns
    wait_until(lambda: time.time_ns() > changed_ns + age_ns, "age of the file")
