"""
Checkpoints: how much of a large file, or of a copy's large file, was read, so that the next run resumes there (R7).

A checkpoint for recording holds the MD5 state and the digests of the blocks so far; one for verifying holds the
mismatching blocks. A copy's checkpoint holds for one version of the baseline. A checkpoint is void if the witness
changed: the caller compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from integrity.catalog.blocks import BLOCKS_PER_RUN, PACKED, PackedRun, join_blocks, pack_runs, unpack_all
from integrity.catalog.db import Connection
from integrity.catalog.rows import read_numbers
from integrity.model import Blocks, CopyId, FileId, RootId, Witness


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
    """
    Store how much of a file was read, replacing the last checkpoint of the same reading, and return its id.

    The blocks appended so far are kept, unless witness or block size changed: then they belong to other content.
    """
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
    last, first_run = c.one(PackedRun, query, checkpoint_id), 0
    if last is not None:
        whole, rest = divmod(last.block_count, BLOCKS_PER_RUN)
        first_run = last.run + whole
        if rest:
            size = blocks.block_size_bytes
            blocks = join_blocks(size, (unpack_all(size, [last._replace(block_count=rest)]), blocks))
            c.run("DELETE FROM checkpoint_run WHERE checkpoint_id = ? AND run = ?", checkpoint_id, last.run)
            if whole:
                _insert(c, checkpoint_id, [last._replace(block_count=whole * BLOCKS_PER_RUN)])
    _insert(c, checkpoint_id, pack_runs(blocks, first_run))


def _insert(c: Connection, checkpoint_id: int, rows: Iterable[PackedRun]) -> None:
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
    return unpack_all(found.block_size_bytes, c.all(PackedRun, query, found.id))


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
