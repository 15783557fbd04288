"""
The table of all algorithms, by their names in options, files and objects.

``stored_digests`` has those that the catalog stores, in a module of their own: asking OpenSSL which of the others it
has takes as long as a small scan.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from functools import partial
from typing import TYPE_CHECKING

from integrity.hashing.stored_digests import BLAKE3, MD5, STORED, XXH128, Algorithm, Hasher, find_xxhash

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from integrity.model import Digests


class _Crc32:
    """CRC-32 as in zip and SFV, most significant byte first."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: Buffer) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


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


def _blake2b(digest_bytes: int) -> Algorithm:
    """``b2sum -l``: a digest of another length is no prefix of the longer one."""
    bits = 8 * digest_bytes
    make = partial(hashlib.blake2b, digest_size=digest_bytes)
    return Algorithm(f"blake2b-{bits}", b"BLAKE2b-%d" % bits, digest_bytes, lambda: make)


def _openssl(name: str, tag: bytes, digest_bytes: int, name_there: str = "") -> Algorithm:
    """Return an algorithm that only OpenSSL has."""
    return Algorithm(name, tag, digest_bytes, lambda: partial(hashlib.new, name_there or name))


XXH3 = Algorithm("xxh3", b"XXH3", 8, lambda: find_xxhash("xxh3_64"), b"XXH3_")
XXH64 = Algorithm("xxh64", b"XXH64", 8, lambda: find_xxhash("xxh64"))
SHA1 = Algorithm("sha1", b"SHA1", 20, lambda: hashlib.sha1)
SHA256 = Algorithm("sha256", b"SHA256", 32, lambda: hashlib.sha256)
SHA512 = Algorithm("sha512", b"SHA512", 64, lambda: hashlib.sha512)
SHA224 = Algorithm("sha224", b"SHA224", 28, lambda: hashlib.sha224)
SHA384 = Algorithm("sha384", b"SHA384", 48, lambda: hashlib.sha384)
SHA3_224 = Algorithm("sha3-224", b"SHA3-224", 28, lambda: hashlib.sha3_224)
SHA3_256 = Algorithm("sha3-256", b"SHA3-256", 32, lambda: hashlib.sha3_256)
SHA3_384 = Algorithm("sha3-384", b"SHA3-384", 48, lambda: hashlib.sha3_384)
SHA3_512 = Algorithm("sha3-512", b"SHA3-512", 64, lambda: hashlib.sha3_512)
BLAKE2B = Algorithm("blake2b", b"BLAKE2b", 64, lambda: hashlib.blake2b)
BLAKE2S = Algorithm("blake2s", b"BLAKE2s", 32, lambda: hashlib.blake2s)
CRC32 = Algorithm("crc32", b"CRC32", 4, lambda: _Crc32)
XXH32 = Algorithm("xxh32", b"XXH32", 4, lambda: find_xxhash("xxh32"))
CRC32C = Algorithm("crc32c", b"CRC32C", 4, lambda: _Crc32c)

_OPENSSL = (
    _openssl("sha512-224", b"SHA512-224", 28, "sha512_224"),
    _openssl("sha512-256", b"SHA512-256", 32, "sha512_256"),
    _openssl("sm3", b"SM3", 32),
    _openssl("ripemd160", b"RIPEMD160", 20),
    _openssl("whirlpool", b"WHIRLPOOL", 64),
)


def _is_available(algorithm: Algorithm) -> bool:
    try:
        algorithm.find_constructor()()
    except ValueError:
        return False
    return True


ALGORITHMS = (
    *(MD5, XXH3, XXH64, XXH128, BLAKE3, SHA1, SHA256, SHA512),
    *(SHA224, SHA384, SHA3_224, SHA3_256, SHA3_384, SHA3_512, BLAKE2B, BLAKE2S),
    *(_blake2b(16), _blake2b(20), _blake2b(28), _blake2b(32), _blake2b(48)),
    *(one for one in _OPENSSL if _is_available(one)),  # its builds differ in what they leave out
    *(CRC32, XXH32),
)
"""Every algorithm that manifests may contain, in the order in which several are written, the most common one of each
length first; CRC32C and CRC64NVME occur in S3 only."""

CHOICES = tuple(algorithm for algorithm in ALGORITHMS if algorithm is not CRC32)
"""Algorithms with an option; CRC32 is only read, for SFV."""

SHORT = frozenset({CRC32, XXH32})
"""Too short to tell that a file is right: one of four billion wrong ones has the same digest."""

BY_NAME = {algorithm.name: algorithm for algorithm in ALGORITHMS}

_drop_marks = re.compile(r"[-_/. ]").sub


def _key(word: str) -> str:
    return _drop_marks("", word.lower())


def _find_family(*beginnings: str) -> tuple[Algorithm, ...]:
    return tuple(one for one in ALGORITHMS if _key(one.name).startswith(beginnings))


_BY_WORD: dict[str, tuple[Algorithm, ...]] = {
    **{_key(one.name): (one,) for one in ALGORITHMS},
    **{f"sha2{_key(one.name)[3:]}": (one,) for one in ALGORITHMS if one.name.startswith(("sha2", "sha384", "sha512"))},
    **{f"sha512t{bits}": _find_family(f"sha512{bits}") for bits in (224, 256)},  # FreeBSD; before: OpenSSL's SHA2-256
    **dict.fromkeys(("b2", "blake2b"), _find_family("blake2b")),
    **dict.fromkeys(("xxh", "xxhash"), _find_family("xxh")),
    **dict.fromkeys(("rmd160", "ripemd"), _find_family("ripemd")),
    "blake2": _find_family("blake2"),
    "blake2b512": (BLAKE2B,),
    "blake2s256": (BLAKE2S,),
    "b3": (BLAKE3,),
    "sha": _find_family("sha"),
    "sha2": (SHA224, SHA256, SHA384, SHA512),
    "sha3": _find_family("sha3"),
    "xxh364": (XXH3,),
    "xxh3128": (XXH128,),
}


def find_by_word(word: str) -> tuple[Algorithm, ...]:
    """Return the algorithms that a word of a tag, a file name or an option may mean; ``b2`` is of any length."""
    return _BY_WORD.get(_key(word), ())


UNNAMED = {
    length: Algorithm(f"digest of {2 * length} digits", b"", length, lambda: _refuse_unnamed)
    for length in sorted({one.digest_bytes for one in ALGORITHMS})
}
"""By length in bytes, what stands for the algorithm of a list that does not name it, until ``ListAlgorithms`` does."""


def _refuse_unnamed() -> Hasher:
    raise ValueError("a digest of an algorithm that is not known yet can't be computed")


def name_digests(digests: Digests) -> dict[Algorithm, bytes]:
    """Return the stored digests of a file that manifests may contain, by algorithm."""
    pairs = zip(STORED, digests, strict=True)
    return {one.algorithm: digest for one, digest in pairs if digest is not None and one.algorithm in ALGORITHMS}
