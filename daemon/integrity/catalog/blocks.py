"""
Digests of blocks, packed 1,024 to a row.

A row is either literal (16 bytes for each block and digest, 8 for a CRC) or uniform: any number of blocks with equal
digests, which are stored once. A hole of 1 TiB in a sparse file costs one row, without special treatment of zeros. A
row covers ``block_count`` blocks from block 1,024 * ``run`` on; the next row's ``run`` follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from integrity.catalog.db import Connection
from integrity.model import CRC64NVME_BYTES, MD5_BYTES, XXH3_128_BYTES, Blocks, FileId

BLOCKS_PER_RUN = 1024
"""Blocks in one ``block_run``: 40 KiB of digests, so that appending a window of 1 GiB costs one small row."""

PACKED = "run, block_count, md5, xxh3_128, crc64nvme"  # columns of ``PackedRun``
LACKS_BLOCKS = """
block_size_bytes NOT NULL AND (size_bytes + block_size_bytes - 1) / block_size_bytes IS NOT (
    SELECT coalesce(sum(block_count), 0) FROM block_run WHERE file_id = file.id AND block_run.version = file.version)"""
"""Whether the stored digests of a file's blocks do not cover it."""


class BlockRun(NamedTuple):
    """The digests of up to 1,024 blocks, 16 bytes each, and their CRCs, 8 bytes each."""

    md5: bytes  # empty: none were taken
    xxh3_128: bytes
    crc64nvme: bytes = b""  # empty: none were taken, as in older versions


class PackedRun(NamedTuple):
    """One stored row."""

    run: int
    block_count: int
    md5: bytes
    xxh3_128: bytes
    crc64nvme: bytes = b""


def join_blocks(block_size_bytes: int, parts: Sequence[Blocks]) -> Blocks:
    """Concatenate digests of adjacent blocks. A kind of digest that one part lacks is dropped."""
    has_md5 = all(len(part.md5) == len(part) * MD5_BYTES for part in parts)
    has_crc64nvme = all(len(part.crc64nvme) == len(part) * CRC64NVME_BYTES for part in parts)
    return Blocks(
        block_size_bytes,
        b"".join(part.xxh3_128 for part in parts),
        b"".join(part.md5 for part in parts) if has_md5 else b"",
        b"".join(part.crc64nvme for part in parts) if has_crc64nvme else b"",
    )


def pack_runs(blocks: Blocks, first_run: int = 0) -> Iterator[PackedRun]:
    """Pack digests into rows; adjacent uniform runs with equal digests share one row."""
    uniform: PackedRun | None = None
    for number, start in enumerate(range(0, len(blocks), BLOCKS_PER_RUN), first_run):
        row = _pack(number, blocks, start, min(start + BLOCKS_PER_RUN, len(blocks)))
        if uniform is not None and uniform[2:] == row[2:]:
            uniform = uniform._replace(block_count=uniform.block_count + row.block_count)
            continue
        if uniform is not None:
            yield uniform
        uniform = row if len(row.xxh3_128) == XXH3_128_BYTES else None
        if uniform is None:
            yield row
    if uniform is not None:
        yield uniform


def _pack(run: int, blocks: Blocks, start: int, end: int) -> PackedRun:
    """Make a row of the blocks from ``start`` to ``end``."""
    count = end - start
    values = (
        blocks.md5[start * MD5_BYTES : end * MD5_BYTES],
        blocks.xxh3_128[start * XXH3_128_BYTES : end * XXH3_128_BYTES],
        blocks.crc64nvme[start * CRC64NVME_BYTES : end * CRC64NVME_BYTES],
    )
    if all(value == value[: len(value) // count] * count for value in values):
        return PackedRun(run, count, *(value[: len(value) // count] for value in values))
    return PackedRun(run, count, *values)


def unpack(row: PackedRun) -> BlockRun:
    """Return the digests of all blocks of a row."""
    times = row.block_count if len(row.xxh3_128) == XXH3_128_BYTES else 1
    return BlockRun(row.md5 * times, row.xxh3_128 * times, row.crc64nvme * times)


def unpack_all(block_size_bytes: int, rows: Iterable[PackedRun]) -> Blocks:
    """Return the digests of all blocks of adjacent rows."""
    parts = map(unpack, rows)
    return join_blocks(
        block_size_bytes, [Blocks(block_size_bytes, one.xxh3_128, one.md5, one.crc64nvme) for one in parts]
    )


def save_runs(c: Connection, file_id: FileId, version: int, blocks: Blocks) -> None:
    """Store the digests of all blocks of a file."""
    query = """
        INSERT INTO block_run (file_id, version, run, block_count, md5, xxh3_128, crc64nvme)
        VALUES (?, ?, ?, ?, ?, ?, ?)"""
    c.run_many(query, ((file_id, version, *row) for row in pack_runs(blocks)))


def load_run(c: Connection, file_id: FileId, version: int, run: int) -> BlockRun | None:
    """Load the digests of blocks 1,024 * ``run`` and following; None if none are recorded."""
    query = f"SELECT {PACKED} FROM block_run WHERE file_id = ? AND version = ? AND run <= ? ORDER BY run DESC LIMIT 1"
    row = c.one(PackedRun, query, file_id, version, run)
    count = 0 if row is None else min(BLOCKS_PER_RUN, row.block_count - (run - row.run) * BLOCKS_PER_RUN)
    return None if row is None or count <= 0 else unpack(row._replace(block_count=count))


def load_blocks(c: Connection, file_id: FileId, version: int, block_size_bytes: int) -> Blocks | None:
    """Load the digests of all blocks of a file: 40 MiB for 1 TiB. None if none are recorded."""
    query = f"SELECT {PACKED} FROM block_run WHERE file_id = ? AND version = ? ORDER BY run"
    rows = c.all(PackedRun, query, file_id, version)
    return unpack_all(block_size_bytes, rows) if rows else None


def drop_runs(c: Connection, file_id: FileId, version: int) -> None:
    """Delete the blocks of one version of a file."""
    c.run("DELETE FROM block_run WHERE file_id = ? AND version = ?", file_id, version)
