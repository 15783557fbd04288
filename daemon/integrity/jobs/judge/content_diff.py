"""
Compare a reading with the recorded content.

One-block files are compared by whole-file digests, larger files block by block, which locates the damage. A record that
contradicts itself makes the catalog suspect, never the file (R9).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import blocks as block_store
from integrity.catalog.blocks import BLOCKS_PER_RUN
from integrity.catalog.rows import FileRecord
from integrity.catalog.versions import FileVersion
from integrity.model import XXH3_128_BYTES, Blocks, ByteRange, Digests, Policy, Reading
from integrity.verdict import Pair

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.hashing.tasks import Done


class Difference(NamedTuple):
    """
    How a reading differs from the baseline.

    Args:
        bad_blocks: indexes of mismatched blocks, in files of several blocks.
        is_catalog_damaged: the record contradicts itself or lacks blocks, so nothing is known about the file.
    """

    is_same: bool
    bad_blocks: tuple[int, ...] = ()
    is_catalog_damaged: bool = False


def compare_content(connection: Connection, record: FileRecord, reading: Reading, first_block: int = 0) -> Difference:
    """Compare a reading whose blocks begin with block ``first_block``; earlier blocks were already compared."""
    pairs = _common(record.digests, reading.digests)
    if record.block_size_bytes is None:
        matches = [old == new for old, new in pairs]
        # Resumed and very sparse files have blocks; one-block files always have digests.
        is_same, is_contradiction = bool(matches) and all(matches), not matches or len(set(matches)) > 1
        return Difference(is_same, is_catalog_damaged=is_contradiction)
    if reading.blocks is None:  # the file shrank below one block
        return Difference(is_same=False)
    bad = compare_blocks(connection, record, reading.blocks, first_block)
    if bad is None:
        return Difference(is_same=False, is_catalog_damaged=True)
    is_same = not bad and reading.witness.size_bytes == record.witness.size_bytes
    if pairs and is_same != all(old == new for old, new in pairs):
        return Difference(is_same=False, is_catalog_damaged=True)
    return Difference(is_same, tuple(bad))


def compare_blocks(connection: Connection, record: FileRecord, blocks: Blocks, first_block: int) -> list[int] | None:
    """
    Compare some blocks of a file by XXH3, and by MD5 where both sides have it.

    Returns:
        The indexes of mismatched blocks; None if they are not recorded (any more).
    """
    end = min(first_block + len(blocks), -(-record.witness.size_bytes // (record.block_size_bytes or 1)))
    bad: list[int] = []
    for run in range(first_block // BLOCKS_PER_RUN, -(-end // BLOCKS_PER_RUN)) if first_block < end else ():
        known = block_store.load_run(connection, record.id, record.version, run)
        if known is None:
            return None
        offset = run * BLOCKS_PER_RUN
        some = range(max(first_block, offset), min(end, offset + BLOCKS_PER_RUN))
        bad += [i for i in some if not _is_equal(known, i - offset, blocks, i - first_block)]
    return bad


def is_candidate(connection: Connection, candidate: FileVersion, reading: Reading, first_block: int) -> bool:
    """Return whether a reading equals the candidate of a file, by whole-file digests or by all blocks."""
    if candidate.holds(reading):
        return True
    if candidate.is_gone or candidate.witness.size_bytes != reading.witness.size_bytes:
        return False
    if reading.blocks is None or first_block or candidate.block_size_bytes != reading.blocks.block_size_bytes:
        return False
    size, number = candidate.block_size_bytes, candidate.number
    known = block_store.load_blocks(connection, candidate.file_id, number, size)
    return known is not None and known.xxh3_128 == reading.blocks.xxh3_128


def is_complete(done: Done) -> bool:
    """Return whether a reading has every digest that a baseline needs."""
    reading = done.reading
    if reading.blocks is not None:
        return done.first_block == 0 and len(reading.blocks.md5) == len(reading.blocks.xxh3_128)
    return reading.digests.md5 is not None and reading.digests.xxh3_128 is not None


def as_record(record: FileRecord, candidate: FileVersion) -> FileRecord:
    """Convert a file's candidate to a record, to compare later readings with it."""
    if candidate.is_gone:
        return record
    return record._replace(
        witness=candidate.witness,
        digests=candidate.digests,
        block_size_bytes=candidate.block_size_bytes,
        version=candidate.number,
        boot_id=candidate.boot_id,
        stored=record.stored or record,
    )


def as_former(record: FileRecord, former: FileVersion, content: Reading) -> FileRecord:
    """
    Convert a former baseline to a record, to compare later readings with it.

    ``record`` is the record of the name that its file may have now; ``content`` is the former baseline's content.
    """
    return record._replace(
        id=former.file_id,
        path=former.path,
        witness=content.witness,
        digests=content.digests,
        block_size_bytes=content.block_size_bytes,
        version=former.number,
        recorded_at=former.recorded_at,
        reason=former.reason or record.reason,
        verified_at=None,
        read_how=None,
        boot_id=None,
        is_suspect=False,
        is_frozen=False,
        stored=record.stored or record,
    )


def block_ranges(record: FileRecord, bad_blocks: tuple[int, ...]) -> tuple[ByteRange, ...]:
    """Return block indexes as byte ranges, adjacent blocks joined; a one-block file is one range."""
    size, block = record.witness.size_bytes, record.block_size_bytes
    if block is None:
        return ((0, size),)
    groups = group_adjacent(bad_blocks)
    return tuple((first * block, min(count * block, size - first * block)) for first, count in groups)


def group_adjacent(blocks: Iterable[int]) -> list[tuple[int, int]]:
    """Group ascending block indexes into (first, count) of adjacent blocks."""
    groups: list[tuple[int, int]] = []
    for index in blocks:
        if groups and index == sum(groups[-1]):
            groups[-1] = groups[-1][0], groups[-1][1] + 1
        else:
            groups.append((index, 1))
    return groups


KEEPS_BEGINNING = frozenset({Policy.GROWING, Policy.ARCHIVE})
"""Policies that ask whether a file that grew begins with its recorded content."""


def prefix_probe(record: FileRecord) -> ByteRange:
    """Return the range that ``keeps_prefix`` needs a digest of: the bytes after the last whole block."""
    size, block = record.witness.size_bytes, record.block_size_bytes
    begin = 0 if block is None else size // block * block
    return begin, size - begin


def keeps_prefix(connection: Connection, record: FileRecord, reading: Reading, probe: bytes | None) -> bool:
    """Return whether a file that grew still begins with its recorded content. ``probe``: digest of ``prefix_probe``."""
    size, block = record.witness.size_bytes, record.block_size_bytes
    if reading.witness.size_bytes < size:
        return False
    if block is None:
        return probe is not None and probe == record.digests.xxh3_128
    whole = size // block
    if reading.blocks is None or len(reading.blocks) < whole:
        return False
    first = Blocks(block, reading.blocks.xxh3_128[: whole * XXH3_128_BYTES], reading.blocks.md5[: whole * 16])
    if compare_blocks(connection, record, first, 0) != []:
        return False
    return size % block == 0 or probe == load_baseline(connection, record, whole).xxh3_128


def load_baseline(connection: Connection, record: FileRecord, index: int) -> Pair:
    """Return the recorded digests of one block, or of a one-block file; ``Pair(None, None)`` if they are lost."""
    if record.block_size_bytes is None:
        return Pair(record.digests.xxh3_128, record.digests.md5)
    known = block_store.load_run(connection, record.id, record.version, index // BLOCKS_PER_RUN)
    if known is None:
        return Pair(None, None)
    at = slice(index % BLOCKS_PER_RUN * 16, index % BLOCKS_PER_RUN * 16 + 16)
    return Pair(known.xxh3_128[at], known.md5[at] or None)


def _is_equal(known: block_store.BlockRun, at: int, blocks: Blocks, index: int) -> bool:
    old, new = slice(at * 16, at * 16 + 16), slice(index * 16, index * 16 + 16)
    if known.xxh3_128[old] != blocks.xxh3_128[new]:
        return False
    return not known.md5 or not blocks.md5 or known.md5[old] == blocks.md5[new]


def _common(old: Digests, new: Digests) -> list[tuple[bytes, bytes]]:
    both = ((old.xxh3_128, new.xxh3_128), (old.md5, new.md5), (old.blake3, new.blake3))
    return [(a, b) for a, b in both if a is not None and b is not None]
