"""
What an S3 store states of an object's content, as digests that can be compared with those of a file. No I/O.

An ETag is the MD5 of the bytes, or the MD5 of the MD5s of the parts, unless the object is encrypted with keys of the
owner's: then it means nothing and looks the same. A listing does not state the encryption, so a matching ETag proves
equality at once, and a differing one proves a difference only after the headers were requested.

The ETag of an upload in parts follows from the catalog's block digests where each part is one block. Otherwise one pass
over the file computes the ETags for several sizes of parts: MD5s of adjacent ranges can't be combined.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from integrity.copies.protocol import DIGEST_BYTES, Kind, Published
from integrity.hashing import Md5

if TYPE_CHECKING:
    from typing_extensions import Buffer


MIB: Final = 1 << 20
_MD5_BYTES = 16
_MOST_GUESSES = 8
_USUAL_MIB = (8, 16, 5, 64, 15, 10, 100, 50, 32, 128, 25, 20, 6, 7, 256, 512, 1024)
"""Parts that programs upload, the most usual first: aws, its console, rclone and s3cmd, Duplicati, Cyberduck, ..."""


def join_parts(part_md5s: Iterable[bytes]) -> bytes:
    """Return the 16 bytes of the ETag from the MD5s of the parts."""
    return Md5(b"".join(part_md5s)).digest()


def list_parts(size_bytes: int, published: Published) -> tuple[int, ...] | None:
    """
    Return the size of each part of an object; None if it is unknown, or the sizes do not add up.

    Args:
        size_bytes: of the object.
        published: an MD5 of parts.
    """
    sizes = published.part_sizes
    if len(sizes) == 1 and published.parts > 1:
        sizes = split_evenly(size_bytes, sizes[0])
    if not sizes or len(sizes) != published.parts or sum(sizes) != size_bytes:
        return None
    return sizes


def split_evenly(size_bytes: int, part_bytes: int) -> tuple[int, ...]:
    """Cut a size into parts of one size, of which the last may be smaller; 0 bytes are one empty part."""
    whole, rest = divmod(size_bytes, part_bytes)
    return (part_bytes,) * whole + ((rest,) if rest or not whole else ())


def derive_from_blocks(parts: Sequence[int], file_md5: bytes, block_bytes: int, packed: bytes) -> bytes | None:
    """
    Derive an ETag from the digests in the catalog, without the file.

    Args:
        parts: the size of each.
        file_md5: of the whole file.
        block_bytes: of each block.
        packed: the concatenated MD5s of the blocks; empty for a file of at most one block.

    Returns:
        None where the parts are not the blocks, so that the file has to be read.
    """
    if len(parts) == 1:
        return join_parts([file_md5])
    if tuple(parts) != split_evenly(sum(parts), block_bytes) or len(packed) != _MD5_BYTES * len(parts):
        return None
    return join_parts([packed])


def guess_part_bytes(size_bytes: int, parts: int) -> tuple[int, ...]:
    """
    List up to 8 part sizes that an upload of so many parts may have had, the likeliest first.

    For stores that do not state it. All parts but the last are taken to have one size: common ones, and multiples of a
    MiB if few fit.
    """
    if parts < 2 or size_bytes < parts:
        return (size_bytes,) if parts == 1 else ()
    least = -(-size_bytes // parts)
    most = (size_bytes - 1) // (parts - 1)
    usual = (mib * MIB for mib in _USUAL_MIB)
    fitting = range(-(-least // MIB) * MIB, most + 1, MIB)
    # For programs that cut a file into equal parts, or into decimal megabytes.
    odd = (least, -(-least // 1_000_000) * 1_000_000)
    found = dict.fromkeys(size for size in chain(usual, fitting[:_MOST_GUESSES], odd) if least <= size <= most)
    return tuple(found)[:_MOST_GUESSES]


class PartsHasher:
    """Compute an ETag from the bytes of a file, fed in order in pieces of any size."""

    __slots__ = ("_done", "_left_bytes", "_part", "_sizes")

    def __init__(self, parts: Sequence[int]) -> None:
        """Start; ``parts`` has the size of each."""
        self._sizes = iter(parts)
        self._done: list[bytes] = []
        self._part: Md5 | None = None
        self._left_bytes = 0
        self._begin_part()

    def _begin_part(self) -> None:
        self._left_bytes = next(self._sizes, -1)
        self._part = Md5() if self._left_bytes >= 0 else None

    def update(self, data: Buffer) -> None:
        """
        Append bytes.

        Raises:
            ValueError: there are more than the parts have.
        """
        view = memoryview(data).cast("B")
        while view.nbytes:
            if self._part is None:
                raise ValueError("there are more bytes than all parts have")
            piece = view[: self._left_bytes]
            self._part.update(piece)
            self._left_bytes -= piece.nbytes
            view = view[piece.nbytes :]
            if self._left_bytes == 0:
                self._end_part(self._part)

    def _end_part(self, part: Md5) -> None:
        self._done.append(part.digest())
        self._begin_part()

    def digest(self) -> bytes:
        """
        Return the 16 bytes of the ETag.

        Raises:
            ValueError: bytes are missing.
        """
        while self._part is not None and self._left_bytes == 0:
            self._end_part(self._part)
        if self._part is not None:
            raise ValueError("there are fewer bytes than all parts have")
        return join_parts(self._done)


MOST_PARTS: Final = 10_000  # of one upload; the limit of S3

_ETAG = re.compile(r"([0-9a-f]{32})(?:-([1-9][0-9]{0,4}))?")

_CHECKSUMS = {
    "CRC64NVME": Kind.CRC64NVME,
    "CRC32C": Kind.CRC32C,
    "CRC32": Kind.CRC32,
    "SHA1": Kind.SHA1,
    "SHA256": Kind.SHA256,
    "SHA512": Kind.SHA512,
    "MD5": Kind.MD5,
    "XXHASH64": Kind.XXH64,
    "XXHASH128": Kind.XXH3_128,
}
"""S3's names of what an uploader can have an object checked with; XXHASH3, of 64 bits, is kept by nobody here."""

_DIRECTORY_BUCKET = "--x-s3"  # ends the names of buckets whose ETags are random


class StatedChecksums(NamedTuple):
    """
    The answer to HEAD.

    Attributes:
        size_bytes: of the object; of the part, where a part was requested.
        etag: without quotation marks.
        has_own_keys: the object is encrypted such that its ETag is no MD5.
        checksums: by S3's name: base64, with "-N" after a digest of digests.
        is_composite: the checksums are of the parts' checksums.
        uploader_md5: the MD5 that rclone stores with an upload in parts: base64.
        parts: the number of parts, if stated.
    """

    size_bytes: int
    etag: str
    has_own_keys: bool = False
    checksums: Mapping[str, str] = {}
    is_composite: bool = False
    uploader_md5: str = ""
    parts: int = 0


def read_etag(etag: str, size_bytes: int, bucket: str) -> Published | None:
    """
    Interpret an ETag as what it most probably is; None if no upload has such an ETag.

    It does not contain the sizes of the parts, except that of a single one.
    """
    found = _ETAG.fullmatch(etag)
    if found is None or bucket.endswith(_DIRECTORY_BUCKET):
        return None
    value = bytes.fromhex(found[1])
    if found[2] is None:
        return Published(Kind.MD5, value)
    parts = int(found[2])
    if parts > MOST_PARTS or parts > max(size_bytes, 1):
        return None
    return Published(Kind.MD5_OF_PARTS, value, (size_bytes,) if parts == 1 else (), parts)


def read_stated(stated: StatedChecksums, bucket: str) -> tuple[Published, ...]:
    """List everything that can be compared in an answer to HEAD."""
    return tuple(_find_all(stated, bucket))


def _find_all(stated: StatedChecksums, bucket: str) -> Iterator[Published]:
    tag = None if stated.has_own_keys else read_etag(stated.etag, stated.size_bytes, bucket)
    kinds = set()
    if tag is not None:
        kinds.add(tag.kind)
        yield tag
    for name, text in _whole(stated):
        kind = _CHECKSUMS[name]
        value = _decode(text, kind)
        if value is not None and kind not in kinds:
            kinds.add(kind)
            yield Published(kind, value)
    noted = _decode(stated.uploader_md5, Kind.MD5)
    if noted is not None and Kind.MD5 not in kinds:
        yield Published(Kind.MD5, noted)


def _whole(stated: StatedChecksums) -> Iterable[tuple[str, str]]:
    """Leave out digests of digests: only that of MD5s can be compared, and the ETag is that."""
    if stated.is_composite:
        return ()
    return ((name, text) for name, text in stated.checksums.items() if name in _CHECKSUMS and "-" not in text)


def _decode(text: str, kind: Kind) -> bytes | None:
    try:
        value = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    return value if len(value) == DIGEST_BYTES[kind] else None
