"""
The digests that the catalog stores, and what an algorithm is: name, digest length, and implementation.

``algorithms`` has the others. An algorithm's implementation is loaded only when its constructor is requested.
"""

from __future__ import annotations

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


def _find_md5() -> Callable[[], Hasher]:
    from integrity.hashing.md5 import Md5

    return Md5


def find_xxhash(name: str) -> Callable[[], Hasher]:
    """Return the constructor of a digest of this family, by its name in the package."""
    import xxhash

    found: Callable[[], Hasher] = getattr(xxhash, name)
    return found


def _find_blake3() -> Callable[[], Hasher]:
    from blake3 import blake3

    return blake3


MD5 = Algorithm("md5", b"MD5", MD5_BYTES, _find_md5)
XXH128 = Algorithm("xxh128", b"XXH128", XXH3_128_BYTES, lambda: find_xxhash("xxh3_128"))
BLAKE3 = Algorithm("blake3", b"BLAKE3", BLAKE3_BYTES, _find_blake3)
CRC64NVME = Algorithm("crc64nvme", b"CRC64NVME", CRC64NVME_BYTES, lambda: _Crc64Nvme)


class StoredDigest(NamedTuple):
    """
    A digest that the catalog stores of each file.

    Attributes:
        name: of the column in ``file``, ``candidate`` and ``history``, and of the field of ``Digests`` and ``Want``.
        algorithm: computes it, and declares its length.
        judges: whether it decides if a file is intact; False: copies only.
    """

    name: str
    algorithm: Algorithm
    judges: bool = True


STORED = (
    StoredDigest("md5", MD5),
    StoredDigest("xxh3_128", XXH128),
    StoredDigest("blake3", BLAKE3),
    StoredDigest("crc64nvme", CRC64NVME, judges=False),
)
"""In the order of ``Digests``; ``want_to_record`` and its neighbors in ``digests.py`` decide when each is computed."""
