"""
What an S3 store states of an object's content, as digests that can be compared with those of a file. No I/O.

An ETag is the MD5 of the bytes, or the MD5 of the MD5s of the parts, unless the object is encrypted with keys of the
owner's: then it means nothing and looks the same. A listing does not state the encryption, so a matching ETag proves
equality at once, and a differing one proves a difference only after the headers were requested.

What follows from the parts of an upload is in ``copies.part_digests``.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from integrity.copies.protocol import DIGEST_BYTES, Kind, Published

MOST_PARTS: Final = 10_000  # of one upload; the limit of S3

_TAG = re.compile(r'(?:W/)?"?(.*?)"?')  # RFC 9110 section 8.8.3; some stores leave the quotation marks out
_DIGEST = re.compile(r"([0-9a-fA-F]{32})(?:-([1-9][0-9]{0,4}))?")

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
        etag: as the store writes it.
        has_own_keys: the object is encrypted such that its ETag is no MD5.
        checksums: by S3's name: base64, with "-N" after a digest of digests.
        is_composite: the checksums are of the parts' checksums.
        uploader_md5: the MD5 that rclone stores with an upload in parts: base64.
        parts: the number of parts, if stated.
        encryption: S3's name of the kind of encryption.
        mtime_ns: the time of the upload, if stated.
    """

    size_bytes: int
    etag: str
    has_own_keys: bool = False
    checksums: Mapping[str, str] = {}
    is_composite: bool = False
    uploader_md5: str = ""
    parts: int = 0
    encryption: str = ""
    mtime_ns: int | None = None


def unquote_etag(etag: str) -> str:
    """Return what an ETag says, without quotation marks and without the mark of weak ones."""
    found = _TAG.fullmatch(etag)
    return etag if found is None else found[1]


def read_etag(etag: str, size_bytes: int, bucket: str) -> Published | None:
    """
    Interpret an ETag as what it most probably is; None if no upload has such an ETag.

    It does not contain the sizes of the parts, except that of a single one.
    """
    found = _DIGEST.fullmatch(unquote_etag(etag))
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
