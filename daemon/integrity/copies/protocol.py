"""
The interface of a backup copy: the only thing that comparing and repairing know of disks, servers and stores.

Invariants of every kind of copy, each with its test in tests/contract/copysuite.py:
    C1  Only regular files are listed. Symbolic links, FIFOs, sockets and devices are neither listed nor followed.
    C2  A listed path is relative, separated by "/", and harmless (``filenames.find_fault``). Every other path, and
        everything that could not be examined, is a ``Trouble``: never omitted silently, never counted as missing.
    C3  A copy that can't be reached as a whole, or no longer, raises ``CopyUnreachable``, also during a listing. A
        listing that ends without it is complete except for its Troubles. A copy without any file is unreachable, too,
        on entering or at the end of a full listing: a disk that is not mounted looks the same.
    C4  Nothing is written, and nothing outside the copy is read, whatever a listing, a link or a caller's path says.
    C5  Memory does not grow with the number of files. A path that a store lists twice is therefore yielded twice; the
        caller, which looks up every path, notices.
    C6  ``shown``, messages and the log contain no secret.
    C7  No wait is endless: 30 seconds without a byte end it. Longer waits, for what is computed on the other side, end
        when the job is asked to stop (``interrupt_when``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self

from integrity.copies.part_digests import split_evenly
from integrity.files.span import UNLIMITED, Pace, ReadMode
from integrity.hashing.algorithms import ALGORITHMS, CRC32C
from integrity.hashing.stored_digests import CRC64NVME, XXH128, Algorithm
from integrity.same_time import is_same_time

if TYPE_CHECKING:
    import os

    from integrity.copies.versions import CopyVersion
    from integrity.files.read import Reader
    from integrity.files.read_errors import ErrorBudget
    from integrity.lists.entries import Digests
    from integrity.lists.unnamed import ListAlgorithms
    from integrity.model import RootIdentity


class Kind(StrEnum):
    """The algorithm of a digest that a copy states or computes."""

    MD5 = "md5"
    SHA1 = "sha1"
    SHA256 = "sha256"
    SHA512 = "sha512"
    XXH64 = "xxh64"
    XXH3_128 = "xxh3_128"  # what xxhsum calls XXH128
    BLAKE3 = "blake3"
    CRC32 = "crc32"  # of zip and SFV
    CRC32C = "crc32c"
    CRC64NVME = "crc64nvme"  # of the whole object, also after an upload in parts
    XXH3 = "xxh3"  # with 64 bits
    XXH32 = "xxh32"
    SHA224 = "sha224"
    SHA384 = "sha384"
    SHA512_224 = "sha512-224"
    SHA512_256 = "sha512-256"
    SHA3_224 = "sha3-224"
    SHA3_256 = "sha3-256"
    SHA3_384 = "sha3-384"
    SHA3_512 = "sha3-512"
    BLAKE2B = "blake2b"
    BLAKE2B_128 = "blake2b-128"
    BLAKE2B_160 = "blake2b-160"
    BLAKE2B_224 = "blake2b-224"
    BLAKE2B_256 = "blake2b-256"
    BLAKE2B_384 = "blake2b-384"
    BLAKE2S = "blake2s"
    SM3 = "sm3"
    RIPEMD160 = "ripemd160"
    WHIRLPOOL = "whirlpool"
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


KINDS: Final[Mapping[Algorithm, Kind]] = {
    one: Kind.XXH3_128 if one is XXH128 else Kind(one.name) for one in (*ALGORITHMS, CRC32C, CRC64NVME)
}
"""The kinds of digest that can be computed here."""


class Published(NamedTuple):
    """
    A digest that a copy states without reading the file for it.

    Attributes:
        value: raw; CRCs with the most significant byte first.
        part_sizes: for a digest of digests, in bytes: the size of each part, or only that of the first one where all
            but the last are equal; empty when unknown, or when the digest is of the whole file.
        parts: the number of parts; 0 for a digest of the whole file.
    """

    kind: Kind
    value: bytes
    part_sizes: tuple[int, ...] = ()
    parts: int = 0

    def list_parts(self, size_bytes: int) -> tuple[int, ...] | None:
        """
        Return the size of each part of a file of this size; None if it is unknown, or the sizes do not add up.

        Only for an MD5 of parts.
        """
        sizes = self.part_sizes
        if len(sizes) == 1 and self.parts > 1:
            sizes = split_evenly(size_bytes, sizes[0])
        if not sizes or len(sizes) != self.parts or sum(sizes) != size_bytes:
            return None
        return sizes


class CopyEntry(NamedTuple):
    """
    One file of a copy, as listed.

    Attributes:
        path: relative to the copy, the bytes that stand there, without ``..``, never absolute.
        size_bytes: None where the listing does not contain it.
        mtime_ns: the time that the listing shows, which ``Copy.keeps_times`` interprets; None where it shows none.
        published: the digests that the copy states.
        inode: of a file on this machine; None elsewhere, and where the file system numbers files anew.
        encryption: how the store says that it encrypts the file, in its own words; empty where it does not say.
    """

    path: bytes
    size_bytes: int | None
    mtime_ns: int | None
    published: tuple[Published, ...] = ()
    inode: int | None = None
    encryption: str = ""

    def looks_like(self, size_bytes: int | None, mtime_ns: int | None) -> bool:
        """Return whether it has a size and a time; False if one of them is not known."""
        if size_bytes is None or mtime_ns is None or self.mtime_ns is None:
            return False
        return self.size_bytes == size_bytes and is_same_time(self.mtime_ns, mtime_ns)


class Trouble(NamedTuple):
    """
    A path that could not be examined, or a name that can't be carried: never counted as missing.

    Attributes:
        path: of a file; or of a folder, which may have been listed in part; empty for the whole copy, of which no
            absence proves anything from then on. Unchecked, so only to be shown or compared.
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
        """Return the size that the file had when it was opened."""

    @property
    def stat(self) -> os.stat_result | None:
        """Return the metadata of a file on this machine."""

    def read(self, offset: int, length: int) -> bytes:
        """
        Read from any offset.

        Returns:
            ``length`` bytes; fewer only at the end of the file, none beyond it.

        Raises:
            ReadError: Unreadable, Vanished or Unstable.
            CopyUnreachable: the whole copy failed, not only the file.
        """

    def close(self) -> None:
        """Close the file; may be called twice."""


class LocalFolder(Protocol):
    """
    The open folder of a copy that is mounted on this machine, for jobs that read many of its files at once.

    Attributes:
        root_fd: the folder; belongs to the copy, which closes it.
        budget: the read errors that the folder's device is allowed.
        has_ctime: its file system's ctime moves with every write.
        has_stable_inodes: an inode number names one file for good.
    """

    @property
    def root_fd(self) -> int:
        """Return the descriptor of the folder."""

    @property
    def budget(self) -> ErrorBudget:
        """Return the budget of read errors."""

    @property
    def has_ctime(self) -> bool:
        """Return whether ctimes show writes."""

    @property
    def has_stable_inodes(self) -> bool:
        """Return whether inode numbers name files for good."""

    def reader(self, pace: Pace = UNLIMITED, mode: ReadMode = ReadMode.DISK, /) -> Reader:
        """Return a reader that opens the folder's files past the page cache, or from memory; it asks ``pace`` first."""


class Copy(Protocol):
    """
    A backup copy: a context manager, which connects on entering and releases everything on leaving.

    Used by one thread at a time, with any number of files open. May be entered once.

    Attributes:
        shown: its URL, without secrets, for people.
        url: its URL as it was given, which opens the same copy again; options that may be secrets are left out.
        nothing_stated: why a file without a digest can't be compared, for people.
        has_bytes: whether ``open`` returns files; a manifest has digests only.
        has_details: whether ``look_closer`` states more of a file than ``list``.
        keeps_times: whether the times of entries are those that the files had where they were copied from; otherwise
            they are times of upload, or there are none; known after entering.
        remote_kinds: digests that the other side computes without sending the bytes; known after entering.
        algorithms: those of a list that may not name its algorithms; None for all other copies.
        folder: the folder on this machine that the copy is, to be read past the page cache; None for all other copies;
            known after entering.
        reads_all_at_once: ``read_all`` reads all files in one stream, which is much faster than one by one.
    """

    @property
    def shown(self) -> str:
        """Return its URL for people, without secrets."""

    @property
    def url(self) -> str:
        """Return the URL to record."""

    @property
    def nothing_stated(self) -> str:
        """Return why a file can't be compared of which nothing is stated, and which can't be read."""

    @property
    def has_bytes(self) -> bool:
        """Return whether files can be opened."""

    @property
    def remote_kinds(self) -> frozenset[Kind]:
        """Return the kinds that ``digest`` computes."""

    @property
    def has_details(self) -> bool:
        """Return whether a file's listing is worth a second question."""

    @property
    def keeps_times(self) -> bool:
        """Return whether files have the times in it that they were copied with."""

    @property
    def algorithms(self) -> ListAlgorithms | None:
        """Return the algorithms of a list, to be found before it is listed."""

    @property
    def folder(self) -> LocalFolder | None:
        """Return the open folder of a copy that is mounted here."""

    @property
    def reads_all_at_once(self) -> bool:
        """Return whether ``read_all`` is there to be used."""

    def interrupt_when(self, must_stop: Callable[[], bool], /) -> None:
        """
        End all waiting with ReadInterrupted as soon as ``must_stop`` returns true.

        Called before entering. ``must_stop`` is called several times a second by whatever waits for another machine or
        program; work that needs no waiting continues.
        """

    def __enter__(self) -> Self:
        """
        Connect.

        Raises:
            CopyUnreachable: with what was tried, what went wrong and what to do next.
            ConfigError: the URL or the configuration can't work.
        """

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Release everything; no program, thread or connection is left."""

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

    def is_expected(self, path: bytes, /) -> bool:
        """Return whether a file that is not listed is missing; False for files that this copy does not cover."""

    def sample_unnamed(self) -> Sequence[tuple[bytes, Digests]]:
        """
        Return path and digests of some files, spread over the list, of which any can show its ``algorithms``.

        Raises:
            CopyUnreachable: the list can't be read.
        """

    def describe(self) -> Iterator[str]:
        """Yield sentences about what was interpreted in the listing; complete when it was listed."""

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """
        List all files, or those below one folder, in any order.

        Args:
            prefix: the path of a folder without a slash at its end, or of one file. Whole names count: ``a/b`` excludes
                ``a/bc``. A prefix that does not exist yields nothing; that is no trouble.

        Raises:
            CopyUnreachable: before or during the listing.
        """

    def read_all(self, prefix: bytes = b"", without: Collection[bytes] = ()) -> Iterator[CopyEntry | Trouble]:
        """
        List as ``list`` does, with digests of all files, computed from their bytes.

        Args:
            prefix: as in ``list``.
            without: folders of which the files are listed without digests; not those of folders in them.

        Raises:
            CopyUnreachable: before or during the listing.
            ValueError: the copy is not read in one stream (``reads_all_at_once``).
        """

    def versions(self) -> Iterator[CopyVersion]:
        """
        Yield its versions, the newest first, each when it is asked for; none for a copy that has one state only.

        Raises:
            CopyUnreachable: it can't be told whether a version has the folder.
        """

    def is_reading(self, version: CopyVersion) -> bool:
        """Return whether a version has what was read from the folder itself, on this machine, when it was made."""

    def choose(self, version: CopyVersion) -> None:
        """
        Be this one of ``versions`` from now on; after entering, a copy is the newest.

        Raises:
            CopyUnreachable: it can't be read.
        """

    def look_at(self, path: bytes) -> CopyEntry | None:
        """Return the entry of one file of the chosen version; None if it has no such file."""

    def find_changes(self, older: CopyVersion, newer: CopyVersion, prefix: bytes = b"") -> Iterator[bytes]:
        """
        Yield the files at and below a path that both versions have, and whose content may differ.

        Raises:
            CopyUnreachable: one of them can't be read.
        """

    def look_closer(self, path: bytes, *, every_part: bool = False) -> CopyEntry | Trouble:
        """
        Ask for everything that is stated of one file, its time included, before it is reported as different.

        Args:
            path: of a file that ``list`` has named.
            every_part: ask for the size of each part, too, at the cost of a question for each.

        Raises:
            CopyUnreachable: at any time.
            ValueError: the copy has no details (``has_details``).
        """

    def digest(self, paths: Sequence[bytes], kind: Kind) -> Iterator[tuple[bytes, bytes | Trouble]]:
        """
        Compute digests of one of ``remote_kinds`` on the other side, without sending the bytes.

        Returns:
            Each path once, in the order given, with the raw digest or the reason why there is none; a file that does
            not exist is a Trouble, too.

        Raises:
            CopyUnreachable: at any time; results that were returned before are right.
            ValueError: the kind is none of ``remote_kinds``.
        """

    def open(self, path: bytes) -> CopyFile:
        """
        Open one file for reading; the caller closes it.

        Args:
            path: relative to the copy.

        Raises:
            ReadError: Vanished if no regular file has this path; Unreadable if access is refused, also to paths that
                lead outside the copy, or if the copy has no bytes.
            CopyUnreachable: the whole copy failed, not only the file.
        """
