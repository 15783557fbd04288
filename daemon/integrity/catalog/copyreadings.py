"""
How far the reading of a large file's copy has come, so that the next comparison goes on there (R7).

It holds for one version of the baseline and one version of the copy's file: void if either moved. It is sealed, for it
becomes a verdict; a damaged one is as good as none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import sqlalchemy as sa

from integrity.catalog.row_seals import is_sealed
from integrity.catalog.schema import copy_reading
from integrity.catalog.words import read_numbers
from integrity.model import CopyId, FileId, Witness


@dataclass(frozen=True, slots=True)
class CopyReading:
    """The reading of one file of a copy; ``witness``: of the copy's file."""

    file_id: FileId
    version: int  # of the baseline
    witness: Witness
    offset_bytes: int  # everything before it is done
    bad_blocks: tuple[int, ...]


def save_reading(c: sa.Connection, copy_id: CopyId, reading: CopyReading) -> None:
    """Write down how far a reading has come."""
    drop_reading(c, copy_id, reading.file_id)
    values = {
        "copy_id": copy_id,
        "file_id": reading.file_id,
        "version": reading.version,
        **reading.witness._asdict(),
        "offset_bytes": reading.offset_bytes,
        "bad_blocks": json.dumps(reading.bad_blocks),
        "seal": bytes(16),  # until its trigger writes it
    }
    c.execute(sa.insert(copy_reading).values(values))


def load_reading(c: sa.Connection, copy_id: CopyId, file_id: FileId, version: int) -> CopyReading | None:
    """Find how far the reading of a file has come, for this version of its baseline; None if it is to be begun."""
    mine = copy_reading.c.copy_id == copy_id, copy_reading.c.file_id == file_id, copy_reading.c.version == version
    row = c.execute(sa.select(copy_reading).where(*mine, is_sealed(copy_reading))).one_or_none()
    if row is None:
        return None
    witness = Witness(row.size_bytes, row.mtime_ns, row.ctime_ns, row.inode, bool(row.is_racy))
    return CopyReading(row.file_id, row.version, witness, row.offset_bytes, read_numbers(row.bad_blocks))


def drop_reading(c: sa.Connection, copy_id: CopyId, file_id: FileId) -> None:
    """Forget how far a reading has come: it is over, or void."""
    c.execute(sa.delete(copy_reading).where(copy_reading.c.copy_id == copy_id, copy_reading.c.file_id == file_id))
