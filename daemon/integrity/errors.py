"""
Everything that integrity raises.

A finding about a file is a value (``model.Finding``); an exception means that something could not be found out.
Every message names the path, the operation and the remedy: the command line prints it and nothing else.

    AppError
    ├── ConfigError             the configuration or the command line cannot be used
    ├── CatalogError            the catalog cannot be used
    │   ├── CatalogMissing
    │   ├── CatalogLocked       another job works on the root
    │   ├── CatalogCorrupt      SQLite or a seal says that the file is damaged
    │   └── SchemaMismatch      the catalog is of another version
    ├── ReadError               one file could not be read as one stable version
    │   ├── Unreadable          the device or a permission refused
    │   ├── Unstable            it changed while it was read
    │   └── Vanished            it is gone, or no regular file any more
    ├── RootSuspended           a root is not itself: unmounted, replaced, emptied (R5)
    ├── Interrupted             the user or the service asked to stop; what was done is kept
    └── NativeError             the C core refused (a saved state that is damaged, say)
"""

from __future__ import annotations


class AppError(Exception):
    """Stand above all errors that integrity raises on purpose."""


class ConfigError(AppError):
    """Say that the configuration or a command line cannot be used; nothing was done."""


class CatalogError(AppError):
    """Say that the catalog cannot be used."""


class CatalogMissing(CatalogError):
    """Say that there is no catalog where one was expected."""


class CatalogLocked(CatalogError):
    """Say that another job works on the same root, and which."""


class CatalogCorrupt(CatalogError):
    """Say that the catalog's file is damaged."""


class SchemaMismatch(CatalogError):
    """Say that the catalog is of a version that this program cannot use as it is."""


class ReadError(AppError):
    """Say that one file could not be read as one stable version."""


class Unreadable(ReadError):
    """
    Say that a file could not be opened or read.

    Args:
        message: what the system said, for people.
        ranges: (offset, length) in bytes of what could not be read; empty if not even opening worked.
        errno: of the first failure.
    """

    def __init__(self, message: str, *, errno: int, ranges: tuple[tuple[int, int], ...] = ()) -> None:
        super().__init__(message)
        self.errno = errno
        self.ranges = ranges


class Unstable(ReadError):
    """Say that a file changed while it was read, so the digests belong to no version of it."""


class Vanished(ReadError):
    """Say that a path does not lead to a regular file (any more)."""


class RootSuspended(AppError):
    """Say that a root is not itself (R5), so nothing about its files can be concluded."""


class Interrupted(AppError):
    """Say that a job was asked to stop; all that it had committed is kept."""


class NativeError(AppError):
    """Say that the C core refused its input."""
