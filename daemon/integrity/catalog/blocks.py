"""
Digests of blocks, packed 1,024 to a row; and checkpoints: how much of a large file was read, to resume there (R7).

A row is either literal (16 bytes for each block and digest, 8 for a CRC) or uniform: any number of blocks with equal
digests, which are stored once. A hole of 1 TiB in a sparse file costs one row, without special treatment of zeros. A
row covers ``block_count`` blocks from block 1,024 * ``run`` on; the next row's ``run`` follows from it.

A checkpoint for recording holds the MD5 state and the digests of the blocks so far; one for verifying holds the
mismatching blocks. A copy's checkpoint holds for one version of the baseline. A checkpoint is void if the witness
changed: the caller compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from integrity.catalog.db import Connection
from integrity.catalog.rows import read_numbers
from integrity.model import CRC64NVME_BYTES, MD5_BYTES, XXH3_128_BYTES, Blocks, CopyId, FileId, RootId, Witness

BLOCKS_PER_RUN = 1024
"""Blocks in one ``block_run``: 40 KiB of digests, so that appending a window of 1 GiB costs one small row."""

PACKED = "run, block_count, md5, xxh3_128, crc64nvme"  # columns of ``BlockRun``
LACKS_BLOCKS = """
block_size_bytes NOT NULL AND (size_bytes + block_size_bytes - 1) / block_size_bytes IS NOT (
    SELECT coalesce(sum(block_count), 0) FROM block_run WHERE file_id = file.id AND block_run.version = file.version)"""
"""Whether the stored digests of a file's blocks do not cover it."""


class BlockRun(NamedTuple):
    """One stored row; or, unpacked, with 16 bytes for each block, and 8 for its CRC. Empty digests: none were taken."""

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


def pack_runs(blocks: Blocks, first_run: int = 0) -> Iterator[BlockRun]:
    """Pack digests into rows; adjacent uniform runs with equal digests share one row."""
    uniform: BlockRun | None = None
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


def _pack(run: int, blocks: Blocks, start: int, end: int) -> BlockRun:
    """Make a row of the blocks from ``start`` to ``end``."""
    count = end - start
    values = (
        blocks.md5[start * MD5_BYTES : end * MD5_BYTES],
        blocks.xxh3_128[start * XXH3_128_BYTES : end * XXH3_128_BYTES],
        blocks.crc64nvme[start * CRC64NVME_BYTES : end * CRC64NVME_BYTES],
    )
    if all(value == value[: len(value) // count] * count for value in values):
        return BlockRun(run, count, *(value[: len(value) // count] for value in values))
    return BlockRun(run, count, *values)


def unpack(row: BlockRun) -> BlockRun:
    """Return a row with the digests of all of its blocks."""
    times = row.block_count if len(row.xxh3_128) == XXH3_128_BYTES else 1
    return row._replace(md5=row.md5 * times, xxh3_128=row.xxh3_128 * times, crc64nvme=row.crc64nvme * times)


def unpack_all(block_size_bytes: int, rows: Iterable[BlockRun]) -> Blocks:
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
    row = c.one(BlockRun, query, file_id, version, run)
    count = 0 if row is None else min(BLOCKS_PER_RUN, row.block_count - (run - row.run) * BLOCKS_PER_RUN)
    return None if row is None or count <= 0 else unpack(row._replace(block_count=count))


def load_blocks(c: Connection, file_id: FileId, version: int, block_size_bytes: int) -> Blocks | None:
    """Load the digests of all blocks of a file: 40 MiB for 1 TiB. None if none are recorded."""
    query = f"SELECT {PACKED} FROM block_run WHERE file_id = ? AND version = ? ORDER BY run"
    rows = c.all(BlockRun, query, file_id, version)
    return unpack_all(block_size_bytes, rows) if rows else None


def drop_runs(c: Connection, file_id: FileId, version: int) -> None:
    """Delete the blocks of one version of a file."""
    c.run("DELETE FROM block_run WHERE file_id = ? AND version = ?", file_id, version)


class Purpose(StrEnum):
    """Why the file is read."""

    RECORD = "record"
    VERIFY = "verify"


class Checkpoint(NamedTuple):
    """How much of a file was read."""

    id: int
    witness: Witness
    offset_bytes: int  # everything before it is done
    md5_state: bytes | None
    bad_blocks: tuple[int, ...]
    block_size_bytes: int


def save_checkpoint(
    c: Connection,
    root_id: RootId,
    path: bytes,
    purpose: Purpose,
    *,
    witness: Witness,
    offset_bytes: int,
    block_size_bytes: int,
    now: int,
    md5_state: bytes | None = None,
    bad_blocks: tuple[int, ...] = (),
) -> int:
    """Store how much of a file was read, and return the id; blocks stay unless witness or block size changed."""
    of_other_content = """
        DELETE FROM checkpoint_run WHERE checkpoint_id IN (
            SELECT id FROM checkpoint WHERE root_id = ? AND path = ? AND purpose = ? AND NOT (
                size_bytes = ? AND mtime_ns = ? AND ctime_ns = ? AND inode = ? AND is_racy = ? AND block_size_bytes = ?
            )
        )"""
    c.run(of_other_content, root_id, path, purpose, *witness, block_size_bytes)
    query = """
        INSERT INTO checkpoint (
            root_id, path, purpose, size_bytes, mtime_ns, ctime_ns, inode, is_racy,
            block_size_bytes, offset_bytes, md5_state, bad_blocks, saved_at
        ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (root_id, path, purpose) DO UPDATE SET
            size_bytes = excluded.size_bytes, mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns,
            inode = excluded.inode, is_racy = excluded.is_racy, block_size_bytes = excluded.block_size_bytes,
            offset_bytes = excluded.offset_bytes, md5_state = excluded.md5_state, bad_blocks = excluded.bad_blocks,
            saved_at = excluded.saved_at
        RETURNING id"""
    progress = block_size_bytes, offset_bytes, md5_state, json.dumps(bad_blocks), now
    return c.value(query, root_id, path, purpose, *witness, *progress)


def append_runs(c: Connection, checkpoint_id: int, blocks: Blocks) -> None:
    """Append the digests of the blocks that follow the stored ones."""
    query = f"SELECT {PACKED} FROM checkpoint_run WHERE checkpoint_id = ? ORDER BY run DESC LIMIT 1"
    last, first_run = c.one(BlockRun, query, checkpoint_id), 0
    if last is not None:
        whole, rest = divmod(last.block_count, BLOCKS_PER_RUN)
        first_run = last.run + whole
        if rest:
            size = blocks.block_size_bytes
            blocks = join_blocks(size, (unpack_all(size, [last._replace(block_count=rest)]), blocks))
            c.run("DELETE FROM checkpoint_run WHERE checkpoint_id = ? AND run = ?", checkpoint_id, last.run)
            if whole:
                _insert_runs(c, checkpoint_id, [last._replace(block_count=whole * BLOCKS_PER_RUN)])
    _insert_runs(c, checkpoint_id, pack_runs(blocks, first_run))


def _insert_runs(c: Connection, checkpoint_id: int, rows: Iterable[BlockRun]) -> None:
    query = """
        INSERT INTO checkpoint_run (checkpoint_id, run, block_count, md5, xxh3_128, crc64nvme)
        VALUES (?, ?, ?, ?, ?, ?)"""
    c.run_many(query, ((checkpoint_id, *row) for row in rows))


def load_checkpoint(c: Connection, root_id: RootId, path: bytes, purpose: Purpose) -> Checkpoint | None:
    """Load the checkpoint of a file; None if there is none, or if blocks of it are missing."""
    query = """
        SELECT id, size_bytes, mtime_ns, ctime_ns, inode, is_racy, offset_bytes, md5_state, bad_blocks, block_size_bytes
        FROM checkpoint WHERE root_id = ? AND path = ? AND purpose = ?"""
    row = c.row(query, root_id, path, purpose)
    if row is None:
        return None
    checkpoint_id, *stamps, is_racy, offset_bytes, md5_state, bad_blocks, block_size_bytes = row
    if purpose is Purpose.RECORD:
        stored = "SELECT coalesce(sum(block_count), 0) FROM checkpoint_run WHERE checkpoint_id = ?"
        if c.value(stored, checkpoint_id) * block_size_bytes != offset_bytes:
            return None
    witness = Witness._make((*stamps, bool(is_racy)))
    return Checkpoint(checkpoint_id, witness, offset_bytes, md5_state, read_numbers(bad_blocks), block_size_bytes)


def load_checkpoint_blocks(c: Connection, found: Checkpoint) -> Blocks:
    """Load the digests of all blocks that were appended to a checkpoint."""
    query = f"SELECT {PACKED} FROM checkpoint_run WHERE checkpoint_id = ? ORDER BY run"
    return unpack_all(found.block_size_bytes, c.all(BlockRun, query, found.id))


def drop_checkpoint(c: Connection, root_id: RootId, path: bytes, purpose: Purpose) -> None:
    """Delete the checkpoint of a file and its blocks."""
    c.run("DELETE FROM checkpoint WHERE root_id = ? AND path = ? AND purpose = ?", root_id, path, purpose)


class CopyReading(NamedTuple):
    """Progress of reading one file of a copy. ``witness`` is that of the copy's file."""

    file_id: FileId
    version: int  # of the baseline
    witness: Witness
    offset_bytes: int  # everything before it is done
    bad_blocks: tuple[int, ...]


def save_reading(c: Connection, copy_id: CopyId, reading: CopyReading) -> None:
    """Store the progress of reading a copy's file, replacing an older one."""
    query = """
        INSERT OR REPLACE INTO copy_reading (
            copy_id, file_id, version, size_bytes, mtime_ns, ctime_ns, inode, is_racy, offset_bytes, bad_blocks
        ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
    progress = reading.offset_bytes, json.dumps(reading.bad_blocks)
    c.run(query, copy_id, reading.file_id, reading.version, *reading.witness, *progress)


def load_reading(c: Connection, copy_id: CopyId, file_id: FileId, version: int) -> CopyReading | None:
    """Load the progress for this version of the baseline; None if there is none."""
    query = """
        SELECT size_bytes, mtime_ns, ctime_ns, inode, is_racy, offset_bytes, bad_blocks
        FROM copy_reading WHERE copy_id = ? AND file_id = ? AND version = ?"""
    for *stamps, is_racy, offset_bytes, bad_blocks in c.rows(query, copy_id, file_id, version):
        witness = Witness._make((*stamps, bool(is_racy)))
        return CopyReading(file_id, version, witness, offset_bytes, read_numbers(bad_blocks))
    return None


def drop_reading(c: Connection, copy_id: CopyId, file_id: FileId) -> None:
    """Delete the progress of a reading that is finished or void."""
    c.run("DELETE FROM copy_reading WHERE copy_id = ? AND file_id = ?", copy_id, file_id)
