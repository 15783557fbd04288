"""
Digests of blocks, packed 1,024 to a row.

A row is either literal (16 bytes for each block and digest, 8 for a CRC) or uniform: any number of blocks with equal
digests, which are stored once. A hole of 1 TiB in a sparse file costs one row, without special treatment of zeros. A
row covers ``block_count`` blocks from block 1,024 * ``run`` on; the next row's ``run`` follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.compiled_sql import CompiledStatement
from integrity.catalog.rows import require_rising
from integrity.catalog.schema import block_run
from integrity.catalog.seal import Sealer
from integrity.model import CRC64NVME_BYTES, MD5_BYTES, XXH3_128_BYTES, Blocks, FileId

BLOCKS_PER_RUN = 1024
"""Blocks in one ``block_run``: 40 KiB of digests, so that appending a window of 1 GiB costs one small row."""

CANDIDATE_VERSION = 0
"""Version that the blocks of a candidate are stored under; baselines begin with 1."""

_PAGE = 500

_PACKED = ("run", "block_count", "md5", "xxh3_128", "crc64nvme")  # the fields of PackedRun
_NAMES = ("file_id", "version", *_PACKED, "seal")
_INSERT = CompiledStatement(sa.insert(block_run).values({name: sa.bindparam(name) for name in _NAMES}), *_NAMES)
_COVERING = CompiledStatement(
    sa.select(*(block_run.c[name] for name in (*_PACKED, "seal")))
    .where(
        block_run.c.file_id == sa.bindparam("file_id"),
        block_run.c.version == sa.bindparam("version"),
        block_run.c.run <= sa.bindparam("run"),
    )
    .order_by(block_run.c.run.desc())
    .limit(sa.literal_column("1")),
    "file_id",
    "version",
    "run",
)
_DELETE = CompiledStatement(
    sa.delete(block_run).where(
        block_run.c.file_id == sa.bindparam("file_id"), block_run.c.version == sa.bindparam("version")
    ),
    "file_id",
    "version",
)


class BlockRun(NamedTuple):
    """The digests of up to 1,024 blocks, 16 bytes each, and their CRCs, 8 bytes each."""

    md5: bytes  # empty: none were taken
    xxh3_128: bytes
    is_sealed: bool  # False: the row is damaged; do not compare with its digests
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


def expand(row: PackedRun, run: int) -> tuple[bytes, bytes, bytes] | None:
    """Return the digests (MD5, XXH3, CRC) of one run from a stored row; None if the row ends before it."""
    count = min(BLOCKS_PER_RUN, row.block_count - (run - row.run) * BLOCKS_PER_RUN)
    if count <= 0:
        return None
    if len(row.xxh3_128) == XXH3_128_BYTES:
        return row.md5 * count, row.xxh3_128 * count, row.crc64nvme * count
    return row.md5, row.xxh3_128, row.crc64nvme


def save_runs(c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, blocks: Blocks) -> None:
    """Store the digests of all blocks of a file."""
    insert_packed(c, sealer, file_id, version, pack_runs(blocks))


def insert_packed(c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, rows: Iterable[PackedRun]) -> None:
    """Seal and store packed rows."""
    _INSERT.run_many(c, ((file_id, version, *row, sealer.seal_run(file_id, version, *row)) for row in rows))


def load_run(c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, run: int) -> BlockRun | None:
    """Load the digests of blocks 1,024 * ``run`` and following; None if none are recorded."""
    found = _COVERING.run(c, file_id, version, run).fetchone()
    if found is None:
        return None
    *values, seal = found
    row = PackedRun(*values)
    if not is_run_sealed(sealer, file_id, version, row, seal):
        return BlockRun(b"", b"", is_sealed=False)
    digests = expand(row, run)
    if digests is None:
        return None
    md5, xxh3_128, crc64nvme = digests
    return BlockRun(md5, xxh3_128, is_sealed=True, crc64nvme=crc64nvme)


def is_run_sealed(sealer: Sealer, owner_id: int, version: int, row: PackedRun, seal: bytes) -> bool:
    """Return whether the seal of a row is right."""
    return has_sound_shape(row) and sealer.seal_run(owner_id, version, *row) == seal


def has_sound_shape(row: PackedRun) -> bool:
    """Return whether the fields of a row have the types and the lengths of ``block_count`` digests."""
    if not (all(isinstance(value, bytes) for value in row[2:]) and isinstance(row.block_count, int)):
        return False
    stored, rest = divmod(len(row.xxh3_128), XXH3_128_BYTES)
    if rest or row.block_count <= 0 or stored not in (1, row.block_count):
        return False
    return len(row.md5) in (0, stored * MD5_BYTES) and len(row.crc64nvme) in (0, stored * CRC64NVME_BYTES)


def load_blocks(
    c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, block_size_bytes: int
) -> Blocks | None:
    """Load the digests of all blocks of a file: 40 MiB for 1 TiB. None if a row is damaged or none are recorded."""
    parts: list[Blocks] = []
    while (found := load_run(c, sealer, file_id, version, len(parts))) is not None:
        if not found.is_sealed:
            return None
        parts.append(Blocks(block_size_bytes, found.xxh3_128, found.md5, found.crc64nvme))
    return join_blocks(block_size_bytes, parts) if parts else None


def find_rows(c: sa.Connection) -> Iterator[sa.Row[Any]]:
    """Yield all rows of all files in order of their key, page by page."""
    key = sa.tuple_(*block_run.primary_key.columns)
    query = sa.select(block_run).order_by(*block_run.primary_key.columns).limit(_PAGE)
    page = c.execute(query).all()
    while page:
        require_rising((row.file_id, row.version, row.run) for row in page)
        yield from page
        last = page[-1]
        page = c.execute(query.where(key > sa.tuple_(last.file_id, last.version, last.run))).all()


def packed_run(row: sa.Row[Any]) -> PackedRun:
    """Return the packed fields of a row."""
    return PackedRun(row.run, row.block_count, row.md5, row.xxh3_128, row.crc64nvme)


def drop_runs(c: sa.Connection, file_id: FileId, version: int) -> None:
    """Delete the blocks of one version of a file."""
    _DELETE.run(c, file_id, version)


def move_runs(c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, to_version: int) -> bool:
    """
    Move the blocks of one version to another, and seal them again.

    Returns:
        False if one row is damaged; nothing is changed then.
    """
    query = sa.select(block_run).where(block_run.c.file_id == file_id, block_run.c.version == version)
    rows = c.execute(query.order_by(block_run.c.run)).all()
    packed = [packed_run(row) for row in rows]
    if not all(is_run_sealed(sealer, file_id, version, one, row.seal) for one, row in zip(packed, rows, strict=True)):
        return False
    insert_packed(c, sealer, file_id, to_version, packed)
    drop_runs(c, file_id, version)
    return True
