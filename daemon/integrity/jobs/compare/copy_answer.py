"""
What a copy says of a file, held against what is recorded: by digests that it states, or by its bytes.

Decides what each digest proves, and which former baseline a copy may still be. Nothing is read here but the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import blocks as block_store
from integrity.catalog.copy_listing import CompareRow
from integrity.catalog.history import HistoryRecord
from integrity.catalog.rows import FileRecord
from integrity.catalog.seal import Sealer
from integrity.copies.protocol import Kind, Published
from integrity.copies.s3.checksums import derive_from_blocks, list_parts, split_evenly
from integrity.jobs.judge.content_diff import Difference
from integrity.model import Digests, Reading
from integrity.verdict import CopyVote

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection


UNNAMED = {Kind.MD5: Kind.XXH3_128, Kind.SHA256: Kind.BLAKE3}
"""What a digest in a list that names no algorithms may be instead, for it has as many digits."""


class Level(StrEnum):
    """How a copy was looked at."""

    PUBLISHED = "published"  # what it states of its content: what was stored there once
    READ = "read"  # its bytes, as they are now


class CopyAnswer(NamedTuple):
    """
    What a copy says of a file.

    Attributes:
        vote: held against the catalog.
        level: how it was found out; None where nothing was.
        reason: why it can't be compared or read, for people.
        stated: digests of the copy's content.
        bad_blocks: that differ, where its bytes were read and have the recorded size.
        size_bytes: of the copy's file, where it is known.
        is_proven: the file was read to find out that what the copy states is right, now or at an earlier comparison.
        doubts_file: the file was read for it, and is not what was recorded, or could not be read.
        wants_read: nothing was found out, but its bytes would tell.
        found_as: path in the root of what the copy has under another name.
        content_of: path in the root of the file whose content the copy has under this name.
    """

    vote: CopyVote
    level: Level | None = None
    reason: str = ""
    stated: tuple[Published, ...] = ()
    bad_blocks: tuple[int, ...] = ()
    size_bytes: int | None = None
    is_proven: bool = False
    doubts_file: bool = False
    wants_read: bool = False
    found_as: bytes | None = None
    content_of: bytes | None = None


Take = Callable[[CompareRow, CopyAnswer | None], None]
"""Takes what a copy says of a file; None where it was not asked."""


def cannot(reason: str, *, wants_read: bool = False) -> CopyAnswer:
    """Say why nothing can be said, and whether reading the copy would help."""
    return CopyAnswer(CopyVote.NOT_COMPARABLE, reason=reason, wants_read=wants_read)


def vote_by_digests(
    connection: Connection | None, sealer: Sealer, record: FileRecord, published: Iterable[Published]
) -> CopyVote | None:
    """
    Hold stated digests against the recorded ones.

    Args:
        connection: may be None where no digest is one of parts.
        sealer: of the catalog.
        record: of the file.
        published: what is stated.

    Returns:
        SAME or DIFFERS; None where none of them follows from what is recorded.
    """
    matches = [match for one in published if (match := _is_match(connection, sealer, record, one)) is not None]
    if not matches:
        return None
    return CopyVote.SAME if all(matches) else CopyVote.DIFFERS


def _is_match(connection: Connection | None, sealer: Sealer, record: FileRecord, published: Published) -> bool | None:
    """Say whether a stated digest is what follows from what is recorded; None where nothing does."""
    expected = _expect(connection, sealer, record, published)
    if expected == published.value or _is_unnamed(record.digests, published):
        return True
    return None if expected is None else False


def _is_unnamed(digests: Digests, published: Published) -> bool:
    """
    Say whether a digest is the kept one of another kind.

    Lists without the names of algorithms are read as MD5 or SHA-256 by the length of the digests; what xxh128sum and
    b3sum write looks the same. That a digest is the other one by chance is as likely as that it is a forged one.
    """
    other = UNNAMED.get(published.kind)
    return other is not None and whole_digest(digests, other) == published.value


def _expect(connection: Connection | None, sealer: Sealer, record: FileRecord, published: Published) -> bytes | None:
    """Derive what a digest should be; None where that takes the file."""
    if published.kind is not Kind.MD5_OF_PARTS:
        return whole_digest(record.digests, published.kind)
    size, block_bytes = record.witness.size_bytes, record.block_size_bytes
    parts = list_parts(size, published)
    if parts is None and block_bytes is not None:
        # Not told yet. If they are the blocks, there is no need to ask; if that makes it differ, they are not.
        expected = _expect_parts(connection, sealer, record, split_evenly(size, block_bytes))
        return expected if expected == published.value else None
    return None if parts is None else _expect_parts(connection, sealer, record, parts)


def _expect_parts(
    connection: Connection | None, sealer: Sealer, record: FileRecord, parts: tuple[int, ...]
) -> bytes | None:
    """Derive the MD5 of the MD5s of parts; None where these are not the blocks."""
    block_bytes, md5 = record.block_size_bytes, record.digests.md5
    if md5 is None:
        return None
    if len(parts) == 1 or block_bytes is None:
        return derive_from_blocks(parts, md5, max(record.witness.size_bytes, 1), b"")
    if parts[0] != block_bytes:
        return None
    assert connection is not None
    kept = block_store.load_blocks(connection, sealer, record.id, record.version, block_bytes)
    return None if kept is None else derive_from_blocks(parts, md5, block_bytes, kept.md5)


def pick_checksums(published: Iterable[Published]) -> tuple[Published, ...]:
    """Leave out what may be an ETag, which is no digest of the content in every store."""
    return tuple(one for one in published if one.kind not in (Kind.MD5, Kind.MD5_OF_PARTS))


def whole_digest(digests: Digests, kind: Kind) -> bytes | None:
    """Take the digest of a kind out of those that are kept of whole files; None where there is none."""
    return {
        Kind.MD5: digests.md5,
        Kind.XXH3_128: digests.xxh3_128,
        Kind.BLAKE3: digests.blake3,
        Kind.CRC64NVME: digests.crc64nvme,
    }.get(kind)


def is_older(history: Iterable[HistoryRecord], size_bytes: int | None, stated: Sequence[Published]) -> bool:
    """Say whether a copy's content is that of a former baseline."""
    return any(
        (size_bytes is None or one.size_bytes == size_bytes)
        and (whole_digest(one.digests, digest.kind) == digest.value or _is_unnamed(one.digests, digest))
        for one in history
        for digest in stated
    )


def hear_reading(difference: Difference, reading: Reading, history: Iterable[HistoryRecord]) -> CopyAnswer:
    """Take what was read of a copy's file, and how it differs from the baseline."""
    size = reading.witness.size_bytes
    if difference.is_catalog_damaged:
        reason = "what is recorded of the file is damaged; see integrity catalog check"
        return CopyAnswer(CopyVote.NOT_COMPARABLE, reason=reason, doubts_file=True)
    if difference.is_same:
        return CopyAnswer(CopyVote.SAME, Level.READ, size_bytes=size)
    whole = reading.digests.xxh3_128
    stated = () if whole is None else (Published(Kind.XXH3_128, whole),)
    vote = CopyVote.OLDER if is_older(history, size, stated) else CopyVote.DIFFERS
    bad_blocks = difference.bad_blocks if vote is CopyVote.DIFFERS else ()  # in an older version no block is bad
    return CopyAnswer(vote, Level.READ, stated=stated, bad_blocks=bad_blocks, size_bytes=size)
