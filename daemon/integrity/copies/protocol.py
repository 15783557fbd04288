"""
What a copy is: the one thing that comparing and repairing know of disks, servers and stores.

Invariants of every kind of copy, each with its test in tests/contract/copysuite.py:
    C1  Only regular files are listed. Symbolic links, FIFOs, sockets and devices are neither listed nor followed.
    C2  A path that is listed is relative, with "/" between its names, and harmless (``names.find_fault``); any other,
        and all that could not be looked at, is a ``Trouble``: never left out in silence, never taken for missing.
    C3  If the copy as a whole can't be reached, or not any more, that is ``CopyUnreachable``, also in mid-listing: a
        listing that ends without it is whole, but for its Troubles. A copy without any file is unreachable, too, on
        entering or at the end of listing all of it: a disk that is not mounted looks just so.
    C4  Nothing is written, and nothing outside of the copy is read, whatever a listing, a link or a caller's path says.
    C5  Memory does not grow with the number of files. So a path that a careless store lists twice comes twice: the
        caller, who has to find each one anyway, notices.
    C6  No secret is in ``shown``, in a message or in the log.
    C7  Nothing waits for ever: 30 seconds without a byte are an end. What has to be waited for longer, because it is
        computed over there, ends when the job is to (``interrupt_when``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from integrity.files.span import UNLIMITED, Pace

if TYPE_CHECKING:
    import os

    from integrity.files.read import Reader
    from integrity.files.read_errors import ErrorBudget
    from integrity.model import RootIdentity


class Kind(StrEnum):
    """What a digest that a copy gives is of, and how it is computed."""

    MD5 = "md5"
    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA512 = "sha512"
    XXH64 = "xxh64"
    XXH3_128 = "xxh3_128"  # what xxhsum calls XXH128
    BLAKE3 = "blake3"
    CRC32 = "crc32"  # of zip and SFV
    CRC32C = "crc32c"
    CRC64NVME = "crc64nvme"  # of the whole object, however it was uploaded
    MD5_OF_PARTS = "md5_of_parts"  # the MD5 of the parts' MD5s: the ETag of what was uploaded to S3 in parts


DIGEST_BYTES: Final[Mapping[Kind, int]] = {
    Kind.MD5: 16,
    Kind.SHA1: 20,
    Kind.SHA256: 32,
    Kind.SHA512: 64,
    Kind.XXH64: 8,
    Kind.XXH3_128: 16,
    Kind.BLAKE3: 32,
    Kind.CRC32: 4,
    Kind.CRC32C: 4,
    Kind.CRC64NVME: 8,
    Kind.MD5_OF_PARTS: 16,
}


class Published(NamedTuple):
    """
    One digest that a copy states, without any byte of the file having been read for it now.

    Attributes:
        kind: see there.
        value: raw; CRCs with the most significant byte first.
        part_sizes: of a digest of digests, in bytes: each part's size, or only the first one's where all but the last
            are equal; empty when not known, or when the digest is of the whole.
        parts: how many parts there are; 0 for a digest of the whole.
    """

    kind: Kind
    value: bytes
    part_sizes: tuple[int, ...] = ()
    parts: int = 0


class CopyEntry(NamedTuple):
    """
    One file of a copy, as far as listing it tells.

    Attributes:
        path: relative to the copy, bytes as they stand there, without ``..``, never absolute.
        size_bytes: None where the listing does not say.
        mtime_ns: None where the listing does not say, or says only when the file was uploaded.
        published: what the copy states of the content.
    """

    path: bytes
    size_bytes: int | None
    mtime_ns: int | None
    published: tuple[Published, ...] = ()


class Trouble(NamedTuple):
    """
    What could not be looked at, or a name that can't be carried: never to be taken for missing.

    Attributes:
        path: of a file; or of a folder, of which not all may have been seen then; empty for the whole copy, where from
            now on no absence proves anything. As it stands in the listing, so only to be shown or compared.
        message: what happened and what to do, without the path.
    """

    path: bytes
    message: str


class CopyFile(Protocol):
    """
    One file of a copy, open for reading; used by one thread.

    Attributes:
        size_bytes: when it was opened.
        stat: when it was opened, with the owner, mode and times to restore; None for files of other machines.
    """

    @property
    def size_bytes(self) -> int:
        """Tell the size as it was when the file was opened."""

    @property
    def stat(self) -> os.stat_result | None:
        """Return the metadata of a file on this machine."""

    def read(self, offset: int, length: int) -> bytes:
        """
        Read from anywhere in the file.

        Returns:
            ``length`` bytes; fewer only where the file ends, none behind its end.

        Raises:
            ReadError: of the kind that fits: Unreadable, Vanished, Unstable.
            CopyUnreachable: it is not the file but the copy.
        """

    def close(self) -> None:
        """Let go of the file; may be called twice."""


class LocalFolder(Protocol):
    """
    The open folder of a copy that is mounted on this machine, for jobs that read many of its files at once.

    Attributes:
        root_fd: the folder; belongs to the copy, which closes it.
        budget: the read errors that the folder's device is allowed.
    """

    @property
    def root_fd(self) -> int:
        """Return the descriptor of the folder."""

    @property
    def budget(self) -> ErrorBudget:
        """Return the budget of read errors."""

    def reader(self, pace: Pace = UNLIMITED, /) -> Reader:
        """Return a reader that opens the folder's files past the page cache and asks ``pace`` before each read."""

    def is_exact(self, path: bytes, /) -> bool:
        """
        Return whether the names of a path are listed exactly as written: some file systems take ``UP`` for ``up``.

        Raises:
            OSError: a folder on the way can't be listed.
        """


class Copy(Protocol):
    """
    A backup copy: a context manager, which connects on entering and lets go of everything on leaving.

    Used by one thread at a time; several files may be open. May be entered once.

    Attributes:
        shown: its URL, without secrets, for people.
        url: its URL as it was given, which opens the same copy again; options that may be secrets are left out.
        has_bytes: whether ``open`` gives bytes; a manifest has digests only.
        has_details: whether ``look_closer`` states more of a file than ``list``.
        remote_kinds: digests that can be computed over there without sending the bytes; known after entering.
        folder: the folder on this machine that the copy is, to be read past the page cache; None for all other copies;
            known after entering.
    """

    @property
    def shown(self) -> str:
        """Show its URL, without secrets."""

    @property
    def url(self) -> str:
        """Return the URL to record."""

    @property
    def has_bytes(self) -> bool:
        """Say whether files can be opened."""

    @property
    def remote_kinds(self) -> frozenset[Kind]:
        """Name the digests that ``digest`` can have computed."""

    @property
    def has_details(self) -> bool:
        """Return whether a file's listing is worth a second question."""

    @property
    def folder(self) -> LocalFolder | None:
        """Return the open folder of a copy that is mounted here."""

    def interrupt_when(self, is_asked: Callable[[], bool], /) -> None:
        """
        End all waiting with ReadInterrupted as soon as ``is_asked`` returns true.

        Called before entering. ``is_asked`` is called several times a second by whatever waits for another machine or
        program; work that needs no waiting continues.
        """

    def __enter__(self) -> Self:
        """
        Connect.

        Raises:
            CopyUnreachable: what was tried, what went wrong, what to do next.
            ConfigError: what is configured can't work.
        """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Let go of everything; no program, thread or connection is left."""

    def identity(self) -> RootIdentity | None:
        """
        Return what tells this copy from another disk or folder at the same place; None where the URL is enough.

        Known for every copy that has a ``folder``.

        Raises:
            CopyUnreachable: it can't be found out.
        """

    def find_name_fault(self, path: bytes, /) -> str | None:
        """
        Return why a file of this path can't be in this kind of copy under its name; None if it can.

        Such a file is not comparable: its absence from the listing proves nothing.
        """

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """
        List all files, or those below one folder, in any order.

        Args:
            prefix: a folder's path without a slash at its end, or the path of one file; whole names count, so ``a/b``
                has nothing of ``a/bc``. What is not there has no entries: that is no trouble.

        Raises:
            CopyUnreachable: before or in mid-listing.
        """

    def look_closer(self, path: bytes, *, every_part: bool = False) -> CopyEntry | Trouble:
        """
        Ask for everything that is stated of one file, before it is reported as different.

        Args:
            path: of a file that ``list`` has named.
            every_part: ask for the size of each part, too, at the cost of a question for each.

        Raises:
            CopyUnreachable: at any time.
            ValueError: the copy has no details (``has_details``).
        """

    def digest(self, paths: Sequence[bytes], kind: Kind) -> Iterator[tuple[bytes, bytes | Trouble]]:
        """
        Have digests computed over there from the bytes, without sending those.

        Args:
            paths: of files.
            kind: one of ``remote_kinds``.

        Returns:
            Each path once, in the order asked, with the raw digest or why there is none; a file that is not there is
            a Trouble, too.

        Raises:
            CopyUnreachable: at any time; what has come until then is right.
            ValueError: the kind is none of ``remote_kinds``.
        """

    def open(self, path: bytes) -> CopyFile:
        """
        Open one file for reading.

        Args:
            path: relative to the copy.

        Returns:
            The file; the caller closes it.

        Raises:
            ReadError: Vanished if there is no regular file of this path; Unreadable for what is refused, paths that
                lead outside among them, or where there are no bytes to be had.
            CopyUnreachable: it is not the file but the copy.
        """
