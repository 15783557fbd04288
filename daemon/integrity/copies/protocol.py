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
        computed over there, ends when the job is to (``Interruptible``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self, runtime_checkable


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
    """

    @property
    def size_bytes(self) -> int:
        """Tell the size as it was when the file was opened."""

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


@runtime_checkable
class LimitedNames(Protocol):
    """What a kind of copy has, besides being one, that can't carry all names that a file system can."""

    def find_name_fault(self, path: bytes) -> str | None:
        """
        Tell why a root's file of this path can't be there under its name; None if it can.

        Such a file is not comparable: its absence from the listing says nothing.
        """


@runtime_checkable
class CloseLook(Protocol):
    """What a kind of copy has, besides being one, whose listing does not tell all that it states of a file."""

    def look_closer(self, path: bytes, *, every_part: bool = False) -> CopyEntry | Trouble:
        """
        Ask for all that is stated of one file: before it is said to differ.

        Args:
            path: of a file that ``list`` has named.
            every_part: ask for the size of each part, too, at the cost of a question for each.

        Raises:
            CopyUnreachable: at any time.
        """


@runtime_checkable
class Interruptible(Protocol):
    """What a kind of copy has, besides being one, that may have to be waited for."""

    def interrupt_when(self, is_asked: Callable[[], bool]) -> None:
        """
        Have all waiting end with ReadInterrupted as soon as this is true.

        To be called before entering; whoever waits asks it several times a second. What needs no waiting goes on.
        """


class Copy(Protocol):
    """
    A backup copy: a context manager, which connects on entering and lets go of everything on leaving.

    Used by one thread at a time; several files may be open. May be entered once.

    Attributes:
        shown: its URL, without secrets, for people.
        has_bytes: whether ``open`` gives bytes; a manifest has digests only.
        remote_kinds: digests that can be computed over there without sending the bytes; known after entering.
    """

    @property
    def shown(self) -> str:
        """Show its URL, without secrets."""

    @property
    def has_bytes(self) -> bool:
        """Say whether files can be opened."""

    @property
    def remote_kinds(self) -> frozenset[Kind]:
        """Name the digests that ``digest`` can have computed."""

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

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """
        List all files, or those below one folder, in any order.

        Args:
            prefix: a folder's path without a slash at its end, or the path of one file; whole names count, so ``a/b``
                has nothing of ``a/bc``. What is not there has no entries: that is no trouble.

        Raises:
            CopyUnreachable: before or in mid-listing.
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
