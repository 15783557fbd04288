"""
The digest tree of a root: three digests of each folder, by which a box and the hub find what differs.

``own`` covers all that the hub keeps of the files that lie directly in the folder. ``subtree`` covers ``own`` and the
subtrees below, so an equal ``subtree`` on both sides means that nothing below needs to be sent. ``content`` covers only
names, sizes and digests: it is equal on two boxes that hold the same files, whenever they were written or verified.

Format 1. All numbers are little-endian. Files and folders are in the order of the bytes of their names.

    own      XXH3-128 of, for each file: name length (4), name, packed row (below)
    content  XXH3-128 of, for each file: name length (4), name, size (8), MD5 (16), XXH3-128 (16)
    subtree  XXH3-128 of: own (16), then for each folder in it: name length (4), name, its subtree (16)

    packed row   OFFSET  SIZE  DESCRIPTION
                      0     8  size in bytes
                      8     8  mtime, nanoseconds
                     16    16  MD5; zeros: none
                     32    16  XXH3-128; zeros: none
                     48     8  recorded_at, seconds UTC
                     56     8  verified_at, seconds UTC; 0: never re-read
                     64     1  how it was last read: index in READ_HOWS
                     65     1  flags: 1 frozen, 2 suspect

Of a folder with many files both sides find those that differ by *buckets*: the first bits of the XXH3-64 of a name are
the number of its bucket. Digest of a bucket: the XXH3-64 of each file's name length, name and packed row, combined by
XOR; of that the lower 48 bits.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import xxhash

from integrity.model import ReadHow
from integrity.reporting.protocol import to_text

FROZEN = 1
"""A finding on the content of the file is open on its box: the digests are those of the content as recorded before."""

SUSPECT = 2
"""The inode was touched since: the next scrub of its box reads the file early."""

READ_HOWS = (None, ReadHow.DIRECT, ReadHow.DROPPED, ReadHow.CACHE_POSSIBLE)
_NO_DIGEST = bytes(16)
_LENGTH = struct.Struct("<I")
_ROW = struct.Struct("<Qq16s16sqqBB")
_CONTENT = struct.Struct("<Q16s16s")
MOST_BITS = 14
"""Of the number of a bucket: all digests are 96 KiB."""

_IN_BUCKET = 8
_BUCKET_BYTES = 6
_BUCKET_MASK = (1 << 8 * _BUCKET_BYTES) - 1


class ReportedFile(NamedTuple):
    """
    What a box reports of one file of a replica set. Times are seconds UTC.

    Attributes:
        name: in its folder, any bytes without "/" and NUL.
        md5, xxh3_128: 16 bytes, or None.
        recorded_at: when this content was recorded.
        verified_at: when it was last found equal to the record; None: never re-read.
        read_how: index in ``READ_HOWS``.
        flags: ``FROZEN`` and ``SUSPECT``, added.
    """

    name: bytes
    size_bytes: int
    mtime_ns: int
    md5: bytes | None
    xxh3_128: bytes | None
    recorded_at: int
    verified_at: int | None
    read_how: int
    flags: int


class FolderDigests(NamedTuple):
    """Digests of the files of one folder."""

    own: bytes
    content: bytes


class FilesDigest:
    """The digests of the files of one folder, which are added in the order of their names."""

    def __init__(self) -> None:
        self._own, self._content = xxhash.xxh3_128(), xxhash.xxh3_128()

    def add(self, file: ReportedFile) -> None:
        name = _LENGTH.pack(len(file.name)) + file.name
        self._own.update(name + _pack_row(file))
        digests = file.md5 or _NO_DIGEST, file.xxh3_128 or _NO_DIGEST
        self._content.update(name + _CONTENT.pack(file.size_bytes, *digests))

    def digests(self) -> FolderDigests:
        return FolderDigests(self._own.digest(), self._content.digest())


def _pack_row(file: ReportedFile) -> bytes:
    digests = file.md5 or _NO_DIGEST, file.xxh3_128 or _NO_DIGEST
    times = file.recorded_at, file.verified_at or 0
    return _ROW.pack(file.size_bytes, file.mtime_ns, *digests, *times, file.read_how, file.flags)


def digest_files(files: Iterable[ReportedFile]) -> FolderDigests:
    """Digest the files of a folder, which come in the order of their names."""
    digest = FilesDigest()
    for file in files:
        digest.add(file)
    return digest.digests()


class BucketDigests:
    """Digests of the files of a folder in ``2 ** bits`` buckets."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._digests = [0] * (1 << bits)

    def add(self, file: ReportedFile) -> None:
        """Add a file; the order does not matter."""
        packed = _LENGTH.pack(len(file.name)) + file.name + _pack_row(file)
        self._digests[find_bucket(file.name, self._bits)] ^= xxhash.xxh3_64_intdigest(packed)

    def pack(self) -> bytes:
        """Return the digests, 6 bytes each."""
        return b"".join((one & _BUCKET_MASK).to_bytes(_BUCKET_BYTES, "little") for one in self._digests)

    def find_differing(self, packed: bytes) -> list[int]:
        """Return the buckets that another folder has otherwise. ``packed``: its digests, as many."""
        step, mine = _BUCKET_BYTES, self.pack()
        return [
            number
            for number in range(len(self._digests))
            if packed[number * step : (number + 1) * step] != mine[number * step : (number + 1) * step]
        ]


def find_bucket(name: bytes, bits: int) -> int:
    return int(xxhash.xxh3_64_intdigest(name)) >> (64 - bits)


class Buckets(NamedTuple):
    """Some of the buckets of a folder's files."""

    bits: int
    numbers: frozenset[int]

    def has(self, name: bytes) -> bool:
        return find_bucket(name, self.bits) in self.numbers


def choose_bits(files: int) -> int:
    """Return how many buckets so many files are put into: of a usual folder each has a few."""
    return max(1, min(MOST_BITS, (files // _IN_BUCKET).bit_length()))


def count_bits(packed: bytes) -> int | None:
    """Return how many buckets the digests are of; None: they are of no folder."""
    bits = (len(packed) // _BUCKET_BYTES).bit_length() - 1
    return bits if 1 <= bits <= MOST_BITS and len(packed) == _BUCKET_BYTES << bits else None


class SubtreeDigest:
    """The digest of a folder and all below it, while the folders in it are added in the order of their names."""

    def __init__(self, own: bytes) -> None:
        self._digest = xxhash.xxh3_128(own)

    def add(self, name: bytes, subtree: bytes) -> None:
        self._digest.update(_LENGTH.pack(len(name)) + name + subtree)

    def digest(self) -> bytes:
        return self._digest.digest()


def digest_subtree(own: bytes, folders: Iterable[tuple[bytes, bytes]]) -> bytes:
    """
    Digest a folder and all below it.

    Args:
        own: of the folder.
        folders: name and ``subtree`` of each folder in it, in the order of the names.
    """
    subtree = SubtreeDigest(own)
    for name, digest in folders:
        subtree.add(name, digest)
    return subtree.digest()


def file_values(file: ReportedFile) -> list[object]:
    return [
        to_text(file.name),
        file.size_bytes,
        file.mtime_ns,
        file.md5.hex() if file.md5 else None,
        file.xxh3_128.hex() if file.xxh3_128 else None,
        file.recorded_at,
        file.verified_at,
        file.read_how,
        file.flags,
    ]
