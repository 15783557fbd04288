"""
Expand the arguments of a command into files: names as given and, with ``-r``, the regular files below folders.

Below a folder symbolic links and special files are skipped silently, as ``find -type f`` does; other file systems are
entered. Nothing is excluded. Files come in byte order of their paths, so the paths below one argument are held in
memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from integrity.errors import show_path
from integrity.files.excludes import Excludes
from integrity.files.open_beneath import open_root
from integrity.files.plain import LARGE_BYTES
from integrity.files.walk import walk
from integrity.hashing.file_sums import Hint, ListedPaths
from integrity.model import SkipReason

_AT_ONCE = 256
"""Files are passed in batches: passing one costs as much as digesting it."""

ReportError = Callable[[bytes, str], None]
"""Receives a folder, and why some files below it could not be found."""


def find_files(names: Iterable[bytes], report: ReportError) -> Iterator[bytes | ListedPaths | Hint]:
    """Yield names that are not folders; in place of each folder, hints at large files and then the files below it."""
    for name in names:
        if os.path.isdir(name):  # errors are reported when it is opened
            yield from _list_tree(name, report)
        else:
            yield name


def _list_tree(top: bytes, report: ReportError) -> Iterator[bytes | ListedPaths | Hint]:
    """Yield hints at large files below a folder while they are found, then all regular files, sorted."""
    try:
        root_fd = open_root(top)
    except OSError as error:
        report(top, os.strerror(error.errno or 0))
        return
    base = top if top.endswith(b"/") else top + b"/"
    paths: list[bytes] = []
    try:
        for listing in walk(root_fd, excludes=Excludes(builtin=False, kept=False), cross_mounts=True):
            prefix = base + listing.folder + b"/" if listing.folder else base
            paths += listing.find_paths(prefix)
            if max(listing.sizes_bytes, default=0) > LARGE_BYTES:
                large = (file for file in listing.files if file.size_bytes > LARGE_BYTES)
                yield from (Hint(prefix + file.name, file.size_bytes) for file in large)
            for skip in listing.skips:
                if skip.reason is SkipReason.MOUNT:
                    report(base + skip.path, f"not entered: it is mounted a second time below {show_path(top)}")
            if listing.error is not None:
                report(base + listing.error.path if listing.error.path else top, os.strerror(listing.error.errno))
    finally:
        os.close(root_fd)
    paths.sort()
    for start in range(0, len(paths), _AT_ONCE):
        yield ListedPaths(paths[start : start + _AT_ONCE])
