"""
Everything that integrity raises.

A finding about a file is a value (``model.Finding``); an exception means that something could not be found out.
Every message names the path, the operation and the remedy: the command line prints it and nothing else.

    AppError
    ├── ConfigError             the configuration or the command line cannot be used
    ├── CatalogError            the catalog cannot be used
    │   ├── CatalogMissing
    │   ├── CatalogLocked       another job works on the root
    │   ├── CatalogCorrupt      a checksum or SQLite says that the file is damaged
    │   ├── RecordSuperseded    a file is not recorded as it was judged any more
    │   └── SchemaMismatch      the catalog is of another version
    ├── ReadError               one file could not be read as one stable version
    │   ├── Unreadable          the device or a permission refused
    │   ├── Unstable            it changed while it was read
    │   ├── Vanished            it is gone, or no regular file any more
    │   ├── DeviceFailing       its device had too many errors and is left alone
    │   ├── DeviceStalled       a read did not come back
    │   └── ReadInterrupted     the job was asked to stop before the file was read
    ├── ChannelError            an alert could not be sent
    ├── HubError                a hub was not reached, or did not take a report
    │   └── HubAway             it was not reached, or was busy; try again
    ├── ProtocolError           a box or a hub sent what the report protocol does not allow
    ├── CallRefused             a hub does not do what a box asks
    ├── HubDatabaseError        the hub's database can't be used: missing, of another version, damaged
    │   └── HubDatabaseAway     it does not answer now, or was busy; try again
    ├── CopyUnreachable         a backup copy as a whole can't be reached: nothing is said of its files
    ├── RepairFailed            a file was not repaired; it is as it was
    ├── RootSuspended           a root is not itself: unmounted, replaced, emptied (R5)
    └── NativeError             the C core refused (a saved state that is damaged, say)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integrity.model import Witness


class AppError(Exception):
    """Stand above all errors that integrity raises on purpose."""


class ConfigError(AppError):
    """Say that the configuration or a command line cannot be used; nothing was done."""


class CatalogError(AppError):
    """Say that the catalog cannot be used."""


class CatalogMissing(CatalogError):
    """Say that there is no catalog where one was expected."""


class CatalogExists(CatalogError):
    """Say that a catalog is there already, where a new one was to be made."""


class CatalogLocked(CatalogError):
    """Say that another job works on the same root, and which."""


class CopyBeingMade(CatalogLocked):
    """Say that another program makes the same copy of the catalog at this moment."""


class CatalogReplaced(CatalogError):
    """Say that another file took the place of a catalog that was open."""


class CatalogCorrupt(CatalogError):
    """Say that the catalog's file is damaged."""


class RecordSuperseded(CatalogError):
    """A file's record is not the one that it was judged against any more; the file is to be judged anew."""


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
        witness: of the file that was refused, which may have another name by now; None if it could not be looked at.
    """

    def __init__(
        self,
        message: str,
        *,
        errno: int,
        ranges: tuple[tuple[int, int], ...] = (),
        witness: Witness | None = None,
    ) -> None:
        super().__init__(message)
        self.errno = errno
        self.ranges = ranges
        self.witness = witness


class Unstable(ReadError):
    """Say that a file changed while it was read, so the digests belong to no version of it."""


class Leased(Unstable):
    """Say that another program has a lease on a file, and did not give it up: its content may change any moment."""


class Vanished(ReadError):
    """Say that a path does not lead to a regular file (any more)."""


class DeviceFailing(ReadError):
    """Say that a file was not read because its device had too many errors (R4)."""


class DeviceStalled(ReadError):
    """Say that a read did not come back, or was not begun because others had not (R4)."""


class ReadInterrupted(ReadError):
    """Say that the job was asked to stop before the file was read to its end."""


class RootSuspended(AppError):
    """Say that a root is not itself (R5), so nothing about its files can be concluded."""


class CopyUnreachable(AppError):
    """Say that a backup copy as a whole can't be reached (any more), so nothing about its files can be concluded."""


class RepairFailed(AppError):
    """Say that a file was not repaired; it is as it was, unless the message says more."""


class ChannelError(AppError):
    """
    Say that a channel did not take an alert.

    Args:
        message: what happened and, where there is something to do, what.
        is_permanent: it will not pass by itself: a wrong password, an address that nobody has.
    """

    def __init__(self, message: str, *, is_permanent: bool = False) -> None:
        super().__init__(message)
        self.is_permanent = is_permanent


class HubError(AppError):
    """
    A hub was not reached, or did not take a report.

    Attributes:
        status: status of its answer; None: there was none.
        code: machine word of its answer; empty: none.
        retry_after_s: how long it asks to wait; None: it does not say.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str = "", retry_after_s: int | None = None):
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s


class HubAway(HubError):
    """Say that the hub was not reached, or is busy: the same call may work later."""


class ProtocolError(AppError):
    """Say that a box or a hub sent what the report protocol does not allow."""


class CallRefused(AppError):
    """
    Say that a hub does not do what a box asks.

    Attributes:
        status: of the answer.
        code: for programs; docs/hub-api.md and docs/shared-trees.md list them.
        retry_after_s: when the same may be tried again; None: the hub does not say.
    """

    def __init__(self, status: int, code: str, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after_s = retry_after_s


class HubDatabaseError(AppError):
    """Say that the database of the hub can't be used."""


class HubDatabaseAway(HubDatabaseError):
    """Say that the database of the hub does not answer now; the same can be tried again."""


class NativeError(AppError):
    """Say that the C core refused its input."""


def printable(text: str) -> str:
    """Escape control characters and what can't be encoded in a line: messages contain names, and names anything."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def show_path(path: bytes) -> str:
    r"""
    Write a path for people, on one line, so that the bytes can be told again (R10).

    A backslash becomes two; what is no printable UTF-8 becomes ``\n``, ``\t`` or a ``\xNN`` for each byte, so that no
    name can break a line, move the cursor or reorder what a screen shows.
    """
    text = path.decode("utf-8", "surrogateescape")
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_ESCAPES.get(char) or (char if char.isprintable() else _escape(char)) for char in text)


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def _escape(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
