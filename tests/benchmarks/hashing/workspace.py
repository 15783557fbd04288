"""
Create the files to hash, and describe the machine, without which figures can't be compared.

Files have random content, are created when first needed, and removed at the end. Each is flushed to the disk and read
once before the measurement, so that the page cache serves all contenders alike, as far as it is large enough.
"""

from __future__ import annotations

import os
import platform
import shutil
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from hashing.measure import Table
from integrity.config import format_size
from integrity.errors import ConfigError, show_path


@dataclass(frozen=True, slots=True)
class Machine:
    """
    A machine and its software.

    Args:
        processor: name; the architecture if the system does not give one.
        processors: number that this process may use.
        python: version.
        openssl: version that hashlib uses.
    """

    processor: str
    processors: int
    python: str
    openssl: str


def describe_machine() -> Machine:
    """Query the system."""
    processors = len(os.sched_getaffinity(0))
    return Machine(_find_processor() or platform.machine(), processors, platform.python_version(), ssl.OPENSSL_VERSION)


def _find_processor() -> str | None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
            return next(names, None)
    except FileNotFoundError:  # no /proc
        return None


_CHUNK_BYTES = 1 << 20
_FILES_A_FOLDER = 100
_SMALL_FILE_BYTES = (0, 120, 700, 1500, 3000, 6000, 12_000, 25_000, 60_000, 250_000)
"""Sizes of small files, in rotation: many small and few larger ones, as in a home folder; 36 KB on average."""
_ALGORITHMS_SHARE = 4
"""All algorithms are measured on one file, so a quarter of the large file must do."""
_SPARE_BYTES = 64 << 20
"""Bytes left free on the disk for folders, partial blocks and other users."""


@dataclass(frozen=True, slots=True)
class Settings:
    """
    What to measure, and on which files.

    Args:
        size_bytes: of the large file.
        runs: number of runs; the median counts.
        files: number of small files.
        folder: where they are created; None for $TMPDIR or /var/tmp.
        tree: folder of the user, used instead of small files; it is only read.
    """

    size_bytes: int
    runs: int
    files: int
    folder: bytes | None = None
    tree: bytes | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """A folder and its regular files; links are not followed."""

    path: bytes
    files: int
    size_bytes: int


class Workspace:
    """The files of one call; created by ``open_workspace``."""

    def __init__(self, folder: bytes, settings: Settings) -> None:
        self._folder = folder
        self.settings = settings

    @cached_property
    def large_file(self) -> bytes:
        """Return the path of the large file."""
        return self._make("large", self.settings.size_bytes)

    @cached_property
    def quarter_file(self) -> bytes:
        """Return the path of a file a quarter as large."""
        return self._make("quarter", self.quarter_bytes)

    @property
    def quarter_bytes(self) -> int:
        """Return the size of that file."""
        return _quarter(self.settings)

    @cached_property
    def tree(self) -> Tree:
        """Return the folder of small files, or the user's own."""
        path = self.settings.tree
        if path is None:
            path = os.path.join(self._folder, b"tree")
            _write_tree(path, self.settings.files)
        return _survey(path)

    def _make(self, name: str, size_bytes: int) -> bytes:
        path = os.path.join(self._folder, os.fsencode(name))
        with open(path, "xb") as file:
            for offset in range(0, size_bytes, _CHUNK_BYTES):
                file.write(os.urandom(min(_CHUNK_BYTES, size_bytes - offset)))
            file.flush()
            os.fsync(file.fileno())
        read_through(path)
        return path


@contextmanager
def open_workspace(settings: Settings, tables: Sequence[Table]) -> Iterator[Workspace]:
    """
    Create a folder for files, and remove it with its contents at the end.

    Raises:
        ConfigError: there is no such folder, or not enough space for the files of these tables.
    """
    parent = settings.folder or os.fsencode(os.environ.get("TMPDIR") or _default_folder())
    if settings.tree is not None and not os.path.isdir(settings.tree):
        raise ConfigError(f"{show_path(settings.tree)}: there is no such folder to hash")
    try:
        _check_space(parent, _needed_bytes(settings, tables))
        folder = tempfile.mkdtemp(prefix=b"integrity-bench-", dir=os.path.abspath(parent))
    except OSError as error:
        text = f"can't make files in {show_path(parent)}: {error.strerror}; name another folder with --folder"
        raise ConfigError(text) from error
    try:
        yield Workspace(folder, settings)
    finally:
        shutil.rmtree(folder)


def read_through(path: bytes) -> None:
    """Read a whole file, so that the page cache contains it."""
    with open(path, "rb", buffering=0) as file:
        while file.read(_CHUNK_BYTES):
            pass


def is_cacheable(size_bytes: int) -> bool:
    """Return whether available memory can cache a file of this size; True if unknown."""
    try:
        with open("/proc/meminfo", "rb") as lines:
            available = next(int(line.split()[1]) << 10 for line in lines if line.startswith(b"MemAvailable:"))
    except (FileNotFoundError, StopIteration):
        return True
    return size_bytes < available


def describe_file(size_bytes: int) -> str:
    """Describe what a table about one file measures."""
    text = f"one file of {format_size(size_bytes)}"
    return text if is_cacheable(size_bytes) else f"{text}, more than fits into memory: the disk is measured as well"


def _default_folder() -> str:
    """Return the folder for large temporary files: /tmp is often in memory."""
    return "/var/tmp" if os.path.isdir("/var/tmp") else tempfile.gettempdir()


def _quarter(settings: Settings) -> int:
    return max(settings.size_bytes // _ALGORITHMS_SHARE, 1)


def _needed_bytes(settings: Settings, tables: Sequence[Table]) -> int:
    needed = settings.size_bytes if {Table.LARGE, Table.TOOLS} & set(tables) else 0
    if Table.ALGORITHMS in tables:
        needed += _quarter(settings)
    if Table.TOOLS in tables and settings.tree is None:
        needed += sum(_small_sizes(settings.files))
    return needed


def _check_space(folder: bytes, needed_bytes: int) -> None:
    if not needed_bytes:
        return
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + _SPARE_BYTES:
        raise ConfigError(
            f"{show_path(folder)}: the files to hash take {format_size(needed_bytes)}, and {format_size(free)} are free"
            f" ({format_size(_SPARE_BYTES)} are left alone); choose a smaller --size or another --folder"
        )


def _small_sizes(count: int) -> Iterator[int]:
    return (_SMALL_FILE_BYTES[number % len(_SMALL_FILE_BYTES)] for number in range(count))


def _write_tree(path: bytes, count: int) -> None:
    os.mkdir(path)
    for number, size in enumerate(_small_sizes(count)):
        folder = os.path.join(path, b"%03d" % (number // _FILES_A_FOLDER))
        if number % _FILES_A_FOLDER == 0:
            os.mkdir(folder)
        with open(os.path.join(folder, b"%06d" % number), "xb") as file:
            file.write(os.urandom(size))
    # Otherwise write-back would continue while the first tool is measured.
    os.sync()


def _survey(path: bytes) -> Tree:
    """Count regular files, and read each once."""
    files = size_bytes = 0
    pending = [os.path.abspath(path)]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    read_through(entry.path)
                    files += 1
                    size_bytes += entry.stat(follow_symlinks=False).st_size
    return Tree(os.path.abspath(path), files, size_bytes)
