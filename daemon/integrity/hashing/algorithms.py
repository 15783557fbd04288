"""
The table of algorithms: names in options, files and objects, digest length, and implementation.

An algorithm's implementation is loaded only when its constructor is requested.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from integrity.model import BLAKE3_BYTES, CRC64NVME_BYTES, MD5_BYTES, XXH3_128_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Hasher(Protocol):
    """Compute one digest of a byte stream. One object belongs to one thread at a time."""

    def update(self, data: Buffer, /) -> object:
        """Append bytes; release the interpreter lock for large ones."""

    def digest(self) -> bytes:
        """Return the raw digest of everything so far, in its written byte order."""


@dataclass(frozen=True, slots=True, eq=False)
class Algorithm:
    """
    One row of the table. Rows are compared by identity: each exists once.

    Attributes:
        name: of the option and the JSON key.
        tag: in BSD lines: ``TAG (name) = hex``.
        digest_bytes: length of the raw digest.
        find_constructor: loads the implementation and returns a function that makes a ``Hasher``.
        bare_prefix: precedes the digits in GNU lines.
    """

    name: str
    tag: bytes
    digest_bytes: int
    find_constructor: Callable[[], Callable[[], Hasher]]
    bare_prefix: bytes = b""


class _Crc32:
    """CRC-32 as in zip and SFV, most significant byte first."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Buffer) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


class _Crc64Nvme:
    """CRC-64/NVME as S3 stores it, most significant byte first."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Buffer) -> None:
        from integrity.hashing.crc64 import crc64

        self._value = crc64(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(CRC64NVME_BYTES, "big")


class _Crc32c:
    """CRC-32C, most significant byte first; its package comes with the extra for the stores that use it."""

    __slots__ = ("_checksum",)

    def __init__(self) -> None:
        from google_crc32c import Checksum

        self._checksum = Checksum()

    def update(self, data: Buffer) -> None:
        self._checksum.update(bytes(data))  # the package accepts only bytes

    def digest(self) -> bytes:
        value: bytes = self._checksum.digest()
        return value


def _find_md5() -> Callable[[], Hasher]:
    from integrity.hashing.md5 import Md5

    return Md5


def _find_xxhash(name: str) -> Callable[[], Hasher]:
    import xxhash

    found: Callable[[], Hasher] = getattr(xxhash, name)
    return found


def _find_blake3() -> Callable[[], Hasher]:
    from blake3 import blake3

    return blake3


MD5 = Algorithm("md5", b"MD5", MD5_BYTES, _find_md5)
XXH3 = Algorithm("xxh3", b"XXH3", 8, lambda: _find_xxhash("xxh3_64"), b"XXH3_")
XXH64 = Algorithm("xxh64", b"XXH64", 8, lambda: _find_xxhash("xxh64"))
XXH128 = Algorithm("xxh128", b"XXH128", XXH3_128_BYTES, lambda: _find_xxhash("xxh3_128"))
BLAKE3 = Algorithm("blake3", b"BLAKE3", BLAKE3_BYTES, _find_blake3)
SHA1 = Algorithm("sha1", b"SHA1", 20, lambda: hashlib.sha1)
SHA256 = Algorithm("sha256", b"SHA256", 32, lambda: hashlib.sha256)
SHA512 = Algorithm("sha512", b"SHA512", 64, lambda: hashlib.sha512)
CRC32 = Algorithm("crc32", b"CRC32", 4, lambda: _Crc32)
CRC32C = Algorithm("crc32c", b"CRC32C", 4, lambda: _Crc32c)
CRC64NVME = Algorithm("crc64nvme", b"CRC64NVME", CRC64NVME_BYTES, lambda: _Crc64Nvme)

ALGORITHMS = (MD5, XXH3, XXH64, XXH128, BLAKE3, SHA1, SHA256, SHA512, CRC32)
"""Every algorithm that manifests may contain, in the order in which several are written; CRC32C and CRC64NVME occur in
S3 only."""

CHOICES = tuple(algorithm for algorithm in ALGORITHMS if algorithm is not CRC32)
"""Algorithms with an option; CRC32 is only read, for SFV."""

BY_NAME = {algorithm.name: algorithm for algorithm in ALGORITHMS}


class StoredDigest(NamedTuple):
    """
    A digest that the catalog stores of each file.

    Attributes:
        name: of the column in ``file``, ``candidate`` and ``history``, and of the field of ``Digests`` and ``Want``.
        algorithm: computes it, and declares its length.
        title: its name for people.
        is_null_if: when it is not computed.
        judges: whether it decides if a file is intact; False: copies only.
        is_appended: added to the catalog later: its column and its bytes in a seal follow all others.
    """

    name: str
    algorithm: Algorithm
    title: str
    is_null_if: str
    judges: bool = True
    is_appended: bool = False


STORED = (
    StoredDigest("md5", MD5, "MD5", "for very sparse files"),
    StoredDigest("xxh3_128", XXH128, "XXH3-128", "if resumed in mid-file"),
    StoredDigest("blake3", BLAKE3, "BLAKE3", "unless configured"),
    StoredDigest(
        *("crc64nvme", CRC64NVME, "CRC-64/NVME", "if older than it, or not computed"), judges=False, is_appended=True
    ),
)
"""In the order of ``Digests``; ``want_to_record`` and its neighbors in ``digests.py`` decide when each is computed."""
