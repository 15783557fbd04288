"""
Checkpoints: how much of a large file, or of a copy's large file, was read, so that the next run resumes there (R7).

A checkpoint for recording holds the MD5 state and the digests of the blocks so far; one for verifying holds the
mismatching blocks. A copy's checkpoint holds for one version of the baseline. All are sealed, because they become a
baseline or a verdict. A checkpoint is void if the witness changed: the caller compares. A damaged one is ignored, which
only costs reading from the start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from integrity.catalog.blocks import (
    BLOCKS_PER_RUN,
    PackedRun,
    expand,
    is_run_sealed,
    join_blocks,
    pack_runs,
    packed_run,
)
from integrity.catalog.row_seals import is_sealed
from integrity.catalog.rows import read_numbers
from integrity.catalog.schema import checkpoint, checkpoint_run, copy_reading
from integrity.catalog.seal import Sealer
from integrity.model import Blocks, CopyId, FileId, RootId, Witness

_SEALED_AS = -1  # version in the seals of a checkpoint's runs; no baseline has it


class Purpose(StrEnum):
    """Why the file is read."""

    RECORD = "record"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How much of a file was read."""

    id: int
    witness: Witness
    offset_bytes: int  # everything before it is done
    md5_state: bytes | None
    bad_blocks: tuple[int, ...]
    block_size_bytes: int


def save_checkpoint(
    c: sa.Connection,
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
    values = {
        **witness._asdict(),
        "is_racy": int(witness.is_racy),
        "offset_bytes": offset_bytes,
        "md5_state": md5_state,
        "bad_blocks": json.dumps(bad_blocks),
        "block_size_bytes": block_size_bytes,
        "saved_at": now,
    }
    same = {"root_id": root_id, "path": path, "purpose": purpose.value}
    old = _find(c, root_id, path, purpose)
    if old is None:
        key = c.execute(sa.insert(checkpoint).values(**same, **values, seal=bytes(16))).inserted_primary_key
        assert key is not None
        return int(key[0])
    if (_witness(old), old["block_size_bytes"]) != (witness, block_size_bytes):
        c.execute(sa.delete(checkpoint_run).where(checkpoint_run.c.checkpoint_id == old["id"]))
    c.execute(sa.update(checkpoint).where(checkpoint.c.id == old["id"]).values(**values))
    return int(old["id"])


def append_runs(c: sa.Connection, sealer: Sealer, checkpoint_id: int, blocks: Blocks) -> None:
    """Append the digests of the blocks that follow the stored ones."""
    last = _rows(c, checkpoint_id, newest=1)
    first_run = 0
    if last:
        row = last[0][0]
        whole, rest = divmod(row.block_count, BLOCKS_PER_RUN)
        first_run = row.run + whole
        if rest:
            blocks = join_blocks(blocks.block_size_bytes, (_expand(row, first_run, blocks.block_size_bytes), blocks))
            this = checkpoint_run.c.checkpoint_id == checkpoint_id, checkpoint_run.c.run == row.run
            c.execute(sa.delete(checkpoint_run).where(*this))
            if whole:
                _insert(c, sealer, checkpoint_id, [row._replace(block_count=whole * BLOCKS_PER_RUN)])
    _insert(c, sealer, checkpoint_id, list(pack_runs(blocks, first_run)))


def load_checkpoint(
    c: sa.Connection, sealer: Sealer, root_id: RootId, path: bytes, purpose: Purpose
) -> Checkpoint | None:
    """Load the checkpoint of a file; None if there is none, or if it is damaged or incomplete."""
    row = _find(c, root_id, path, purpose)
    if row is None or not row["is_sealed"]:
        return None
    if (
        purpose is Purpose.RECORD
        and _sealed_blocks(c, sealer, row["id"]) * row["block_size_bytes"] != row["offset_bytes"]
    ):
        return None
    return Checkpoint(
        id=row["id"],
        witness=_witness(row),
        offset_bytes=row["offset_bytes"],
        md5_state=row["md5_state"],
        bad_blocks=read_numbers(row["bad_blocks"]),
        block_size_bytes=row["block_size_bytes"],
    )


def load_checkpoint_blocks(c: sa.Connection, found: Checkpoint) -> Blocks:
    """Load the digests of all blocks that were appended to a checkpoint."""
    parts = [
        _expand(row, run, found.block_size_bytes)
        for row, _ in _rows(c, found.id)
        for run in range(row.run, row.run - (-row.block_count // BLOCKS_PER_RUN))
    ]
    return join_blocks(found.block_size_bytes, parts)


def _expand(row: PackedRun, run: int, block_size_bytes: int) -> Blocks:
    """Return the blocks of one run from a stored row."""
    digests = expand(row, run)
    assert digests is not None
    md5, xxh3_128, crc64nvme = digests
    return Blocks(block_size_bytes, xxh3_128, md5, crc64nvme)


def drop_checkpoint(c: sa.Connection, root_id: RootId, path: bytes, purpose: Purpose) -> None:
    """Delete the checkpoint of a file and its blocks."""
    these = _of(root_id, path, purpose)
    ids = sa.select(checkpoint.c.id).where(*these)
    c.execute(sa.delete(checkpoint_run).where(checkpoint_run.c.checkpoint_id.in_(ids)))
    c.execute(sa.delete(checkpoint).where(*these))


def _find(c: sa.Connection, root_id: RootId, path: bytes, purpose: Purpose) -> Any:
    query = sa.select(checkpoint, is_sealed(checkpoint).label("is_sealed")).where(*_of(root_id, path, purpose))
    return c.execute(query).mappings().one_or_none()


def _of(root_id: RootId, path: bytes, purpose: Purpose) -> tuple[sa.ColumnElement[bool], ...]:
    return checkpoint.c.root_id == root_id, checkpoint.c.path == path, checkpoint.c.purpose == purpose.value


def _rows(c: sa.Connection, checkpoint_id: int, newest: int | None = None) -> list[tuple[PackedRun, bytes]]:
    """Load stored rows with their seals: all in order, or the newest few."""
    query = sa.select(checkpoint_run).where(checkpoint_run.c.checkpoint_id == checkpoint_id)
    if newest is None:
        query = query.order_by(checkpoint_run.c.run)
    else:
        query = query.order_by(checkpoint_run.c.run.desc()).limit(newest)
    return [(packed_run(row), row.seal) for row in c.execute(query)]


def _insert(c: sa.Connection, sealer: Sealer, checkpoint_id: int, rows: list[PackedRun]) -> None:
    values = [
        {"checkpoint_id": checkpoint_id, **row._asdict(), "seal": sealer.seal_run(checkpoint_id, _SEALED_AS, *row)}
        for row in rows
    ]
    if values:
        c.execute(sa.insert(checkpoint_run), values)


def _sealed_blocks(c: sa.Connection, sealer: Sealer, checkpoint_id: int) -> int:
    """Count the blocks from the first on that are stored without a gap and undamaged."""
    blocks = 0
    for row, seal in _rows(c, checkpoint_id):
        if row.run * BLOCKS_PER_RUN != blocks or not is_run_sealed(sealer, checkpoint_id, _SEALED_AS, row, seal):
            break
        blocks += row.block_count
    return blocks


def _witness(row: Any) -> Witness:
    return Witness(row["size_bytes"], row["mtime_ns"], row["ctime_ns"], row["inode"], bool(row["is_racy"]))


@dataclass(frozen=True, slots=True)
class CopyReading:
    """Progress of reading one file of a copy. ``witness`` is that of the copy's file."""

    file_id: FileId
    version: int  # of the baseline
    witness: Witness
    offset_bytes: int  # everything before it is done
    bad_blocks: tuple[int, ...]


def save_reading(c: sa.Connection, copy_id: CopyId, reading: CopyReading) -> None:
    """Store the progress of reading a copy's file, replacing an older one."""
    drop_reading(c, copy_id, reading.file_id)
    values = {
        "copy_id": copy_id,
        "file_id": reading.file_id,
        "version": reading.version,
        **reading.witness._asdict(),
        "offset_bytes": reading.offset_bytes,
        "bad_blocks": json.dumps(reading.bad_blocks),
        "seal": bytes(16),  # replaced by its trigger
    }
    c.execute(sa.insert(copy_reading).values(values))


def load_reading(c: sa.Connection, copy_id: CopyId, file_id: FileId, version: int) -> CopyReading | None:
    """Load the progress for this version of the baseline; None if there is none or it is damaged."""
    mine = copy_reading.c.copy_id == copy_id, copy_reading.c.file_id == file_id, copy_reading.c.version == version
    row = c.execute(sa.select(copy_reading).where(*mine, is_sealed(copy_reading))).one_or_none()
    if row is None:
        return None
    witness = Witness(row.size_bytes, row.mtime_ns, row.ctime_ns, row.inode, bool(row.is_racy))
    return CopyReading(row.file_id, row.version, witness, row.offset_bytes, read_numbers(row.bad_blocks))


def drop_reading(c: sa.Connection, copy_id: CopyId, file_id: FileId) -> None:
    """Delete the progress of a reading that is finished or void."""
    c.execute(sa.delete(copy_reading).where(copy_reading.c.copy_id == copy_id, copy_reading.c.file_id == file_id))
