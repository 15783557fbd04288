"""
Compare what a copy says about a file with the record: by digests that the copy states, or by its bytes.

Decides what each digest proves, and which former version a copy may still be. Reads nothing but the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.arbitration import CopyVote, Level
from integrity.catalog import blocks as block_store
from integrity.catalog.copy_listing import CompareRow
from integrity.catalog.rows import FileRecord
from integrity.catalog.versions import FileVersion
from integrity.copies.part_digests import derive_from_blocks, split_evenly
from integrity.copies.protocol import Kind, Published
from integrity.jobs.judge.content_diff import Difference
from integrity.jobs.messages import RECORD_CONTRADICTS
from integrity.model import Digests, Reading, Witness

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection


class CopyAnswer(NamedTuple):
    """
    The copy's answer for one file.

    Attributes:
        vote: the answer compared with the catalog.
        level: how the copy was examined; None if nothing was found out.
        reason: why the copy can't be compared or read, for people.
        stated: digests of the copy's content.
        bad_blocks: blocks that differ, if the bytes were read and have the recorded size.
        size_bytes: size of the copy's file, if known.
        is_proven: the stated digests were proved right by reading the local file, now or in an earlier comparison.
        is_file_suspect: the local file was read for this answer and is unreadable or not what was recorded.
        wants_read: the answer is open, but reading the copy's bytes would decide it.
        found_as: path in the root of the file's content under another name in the copy.
        content_of: path in the root of the file whose content the copy has under this name.
        is_store_contradicted: the checksum that the store keeps is the recorded one, the data is not.
        witness: what stat said of the copy when it was read on this machine.
    """

    vote: CopyVote
    level: Level | None = None
    reason: str = ""
    stated: tuple[Published, ...] = ()
    bad_blocks: tuple[int, ...] = ()
    size_bytes: int | None = None
    is_proven: bool = False
    is_file_suspect: bool = False
    wants_read: bool = False
    found_as: bytes | None = None
    content_of: bytes | None = None
    is_store_contradicted: bool = False
    witness: Witness | None = None


Take = Callable[[CompareRow, CopyAnswer | None], None]
"""Receives the copy's answer for a file; None if the copy was not queried."""


def cannot(reason: str, *, wants_read: bool = False) -> CopyAnswer:
    """Return a NOT_COMPARABLE answer with its reason, and whether reading the copy would help."""
    return CopyAnswer(CopyVote.NOT_COMPARABLE, reason=reason, wants_read=wants_read)


def vote_by_digests(
    connection: Connection | None, record: FileRecord, published: Iterable[Published]
) -> CopyVote | None:
    """
    Compare stated digests with the recorded ones. ``connection`` may be None if no digest is an MD5 of parts.

    Returns:
        SAME or DIFFERS; None if none of the digests can be derived from the record.
    """
    matches = [match for one in published if (match := _is_match(connection, record, one)) is not None]
    if not matches:
        return None
    return CopyVote.SAME if all(matches) else CopyVote.DIFFERS


def _is_match(connection: Connection | None, record: FileRecord, published: Published) -> bool | None:
    """Return whether a stated digest equals the one derived from the record; None if none can be derived."""
    expected = _expect(connection, record, published)
    return None if expected is None else expected == published.value


def _expect(connection: Connection | None, record: FileRecord, published: Published) -> bytes | None:
    """Derive the expected digest from the record; None if that requires reading the file."""
    if published.kind is not Kind.MD5_OF_PARTS:
        return whole_digest(record.digests, published.kind)
    size, block_bytes = record.witness.size_bytes, record.block_size_bytes
    parts = published.list_parts(size)
    if parts is None and block_bytes is not None:
        # Part sizes are unknown yet. Try the block size: a match needs no query, a mismatch proves nothing.
        expected = _expect_parts(connection, record, split_evenly(size, block_bytes))
        return expected if expected == published.value else None
    return None if parts is None else _expect_parts(connection, record, parts)


def _expect_parts(connection: Connection | None, record: FileRecord, parts: tuple[int, ...]) -> bytes | None:
    """Derive the MD5 of the MD5s of parts; None if the parts are not the recorded blocks."""
    block_bytes, md5 = record.block_size_bytes, record.digests.md5
    if md5 is None:
        return None
    if len(parts) == 1 or block_bytes is None:
        return derive_from_blocks(parts, md5, max(record.witness.size_bytes, 1), b"")
    if parts[0] != block_bytes:
        return None
    assert connection is not None
    blocks = block_store.load_blocks(connection, record.id, record.version, block_bytes)
    return None if blocks is None else derive_from_blocks(parts, md5, block_bytes, blocks.md5)


def pick_checksums(published: Iterable[Published]) -> tuple[Published, ...]:
    """Return the digests without possible ETags, which are not content digests in every store."""
    return tuple(one for one in published if one.kind not in (Kind.MD5, Kind.MD5_OF_PARTS))


def whole_digest(digests: Digests, kind: Kind) -> bytes | None:
    """Return the recorded whole-file digest of a kind; None if there is none."""
    return {
        Kind.MD5: digests.md5,
        Kind.XXH3_128: digests.xxh3_128,
        Kind.BLAKE3: digests.blake3,
        Kind.CRC64NVME: digests.crc64nvme,
    }.get(kind)


def is_older(history: Iterable[FileVersion], size_bytes: int | None, stated: Sequence[Published]) -> bool:
    """Return whether a copy's content is that of a former version."""
    return any(
        (size_bytes is None or one.witness.size_bytes == size_bytes)
        and whole_digest(one.digests, digest.kind) == digest.value
        for one in history
        for digest in stated
    )


def answer_by_reading(
    difference: Difference, reading: Reading, history: Iterable[FileVersion], level: Level
) -> CopyAnswer:
    """Turn a reading of the copy's file, and its difference from the record, into an answer."""
    size = reading.witness.size_bytes
    witness = reading.witness if reading.witness.inode else None
    if difference.is_catalog_damaged:
        return CopyAnswer(CopyVote.NOT_COMPARABLE, reason=RECORD_CONTRADICTS, is_file_suspect=True)
    if difference.is_same:
        return CopyAnswer(CopyVote.SAME, level, size_bytes=size, witness=witness)
    whole = reading.digests.xxh3_128
    stated = () if whole is None else (Published(Kind.XXH3_128, whole),)
    vote = CopyVote.OLDER if is_older(history, size, stated) else CopyVote.DIFFERS
    bad_blocks = difference.bad_blocks if vote is CopyVote.DIFFERS else ()  # an older version has no bad blocks
    return CopyAnswer(vote, level, stated=stated, bad_blocks=bad_blocks, size_bytes=size, witness=witness)
