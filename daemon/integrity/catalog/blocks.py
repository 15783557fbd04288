"""
Digests of blocks, packed 1,024 to a row.

A row is either literal (16 bytes for each of its blocks) or uniform: any number of blocks with equal digests, which
are stored once. So the holes of a sparse file of 1 TiB cost one row, and nobody needs to know what a digest of zeros
is. A row of ``block_count`` blocks begins at block 1,024 * ``run``; the next row's ``run`` follows from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.catalog.hot import Hot
from integrity.catalog.rows import require_rising
from integrity.catalog.seal import Sealer
from integrity.catalog.tables import block_run
from integrity.model import MD5_BYTES, XXH3_128_BYTES, Blocks, FileId

BLOCKS_PER_RUN = 1024
"""Blocks in one ``block_run``: 32 KiB of digests, so a window of 1 GiB costs one row of small size to append."""

CANDIDATE_VERSION = 0
"""Under which the blocks of a candidate are stored; baselines begin with 1."""

_PAGE = 500
_BYTES_PER_RUN = BLOCKS_PER_RUN * XXH3_128_BYTES

_NAMES = ("file_id", "version", "run", "block_count", "md5", "xxh3_128", "seal")
_INSERT = Hot(sa.insert(block_run).values({name: sa.bindparam(name) for name in _NAMES}), *_NAMES)
_COVERING = Hot(
    sa.select(*(block_run.c[name] for name in ("run", "block_count", "md5", "xxh3_128", "seal")))
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
_DELETE = Hot(
    sa.delete(block_run).where(
        block_run.c.file_id == sa.bindparam("file_id"), block_run.c.version == sa.bindparam("version")
    ),
    "file_id",
    "version",
)


class BlockRun(NamedTuple):
    """The digests of up to 1,024 blocks, 16 bytes each."""

    md5: bytes  # empty: none were taken
    xxh3_128: bytes
    is_sealed: bool  # False: the row is damaged, its digests judge nobody


class PackedRun(NamedTuple):
    """One row as it is stored."""

    run: int
    block_count: int
    md5: bytes
    xxh3_128: bytes


def pack_runs(blocks: Blocks, first_run: int = 0) -> Iterator[PackedRun]:
    """Cut digests of blocks into rows, neighbouring uniform runs with equal digests in one."""
    uniform: PackedRun | None = None
    for number, start in enumerate(range(0, len(blocks.xxh3_128), _BYTES_PER_RUN), first_run):
        row = _pack(number, blocks.md5[start : start + _BYTES_PER_RUN], blocks.xxh3_128[start : start + _BYTES_PER_RUN])
        if uniform is not None and (uniform.md5, uniform.xxh3_128) == (row.md5, row.xxh3_128):
            uniform = uniform._replace(block_count=uniform.block_count + row.block_count)
            continue
        if uniform is not None:
            yield uniform
        uniform = row if len(row.xxh3_128) == XXH3_128_BYTES else None
        if uniform is None:
            yield row
    if uniform is not None:
        yield uniform


def _pack(run: int, md5: bytes, xxh3_128: bytes) -> PackedRun:
    count = len(xxh3_128) // XXH3_128_BYTES
    if xxh3_128 == xxh3_128[:XXH3_128_BYTES] * count and md5 == md5[:MD5_BYTES] * count:
        return PackedRun(run, count, md5[:MD5_BYTES], xxh3_128[:XXH3_128_BYTES])
    return PackedRun(run, count, md5, xxh3_128)


def expand(row: PackedRun, run: int) -> tuple[bytes, bytes] | None:
    """Take the digests (MD5, XXH3) of one run out of a stored row; None if the row does not reach that far."""
    count = min(BLOCKS_PER_RUN, row.block_count - (run - row.run) * BLOCKS_PER_RUN)
    if count <= 0:
        return None
    if len(row.xxh3_128) == XXH3_128_BYTES:
        return row.md5 * count, row.xxh3_128 * count
    return row.md5, row.xxh3_128


def save_runs(c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, blocks: Blocks) -> None:
    """Store the digests of a file's blocks, all of them."""
    insert_packed(c, sealer, file_id, version, pack_runs(blocks))


def insert_packed(c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, rows: Iterable[PackedRun]) -> None:
    """Seal and store rows that are packed already."""
    _INSERT.run_many(c, ((file_id, version, *row, sealer.seal_run(file_id, version, *row)) for row in rows))


def load_run(c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, run: int) -> BlockRun | None:
    """
    Load the digests of blocks 1,024 * ``run`` and following.

    Returns:
        None if nothing is recorded of them.
    """
    found = _COVERING.run(c, file_id, version, run).fetchone()
    if found is None:
        return None
    row = PackedRun(*found[:4])
    is_sealed = is_run_sealed(sealer, file_id, version, row, found[4])
    if not is_sealed:
        return BlockRun(b"", b"", is_sealed=False)
    digests = expand(row, run)
    return None if digests is None else BlockRun(*digests, is_sealed=True)


def is_run_sealed(sealer: Sealer, owner_id: int, version: int, row: PackedRun, seal: bytes) -> bool:
    """Check the seal of a row."""
    return has_sound_shape(row) and sealer.seal_run(owner_id, version, *row) == seal


def has_sound_shape(row: PackedRun) -> bool:
    """Say whether the fields of a row can be digests at all: of their types, and as long as its count asks for."""
    if not (isinstance(row.md5, bytes) and isinstance(row.xxh3_128, bytes) and isinstance(row.block_count, int)):
        return False
    lengths = (XXH3_128_BYTES, row.block_count * XXH3_128_BYTES)
    return row.block_count > 0 and len(row.xxh3_128) in lengths and len(row.md5) in (0, len(row.xxh3_128))


def load_blocks(
    c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, block_size_bytes: int
) -> Blocks | None:
    """Load the digests of all blocks of a file: 32 MiB for 1 TiB. None if a row is damaged or there are none."""
    md5, xxh3_128, run = bytearray(), bytearray(), 0
    while (found := load_run(c, sealer, file_id, version, run)) is not None:
        if not found.is_sealed:
            return None
        md5 += found.md5
        xxh3_128 += found.xxh3_128
        run += 1
    return Blocks(block_size_bytes, bytes(xxh3_128), bytes(md5)) if run else None


def find_rows(c: sa.Connection) -> Iterator[sa.Row[Any]]:
    """Go through all rows of all files in order, a page at a time."""
    key = sa.tuple_(*block_run.primary_key.columns)
    query = sa.select(block_run).order_by(*block_run.primary_key.columns).limit(_PAGE)
    page = c.execute(query).all()
    while page:
        require_rising((row.file_id, row.version, row.run) for row in page)
        yield from page
        last = page[-1]
        page = c.execute(query.where(key > sa.tuple_(last.file_id, last.version, last.run))).all()


def packed_run(row: sa.Row[Any]) -> PackedRun:
    """Take what is packed out of a row."""
    return PackedRun(row.run, row.block_count, row.md5, row.xxh3_128)


def drop_runs(c: sa.Connection, file_id: FileId, version: int) -> None:
    """Forget the blocks of one version of a file."""
    _DELETE.run(c, file_id, version)


def move_runs(c: sa.Connection, sealer: Sealer, file_id: FileId, version: int, to_version: int) -> bool:
    """
    Store the blocks of one version under another, sealed anew.

    Returns:
        False, and nothing is changed, if one of them is damaged.
    """
    columns = (block_run.c[name] for name in ("run", "block_count", "md5", "xxh3_128", "seal"))
    query = sa.select(*columns).where(block_run.c.file_id == file_id, block_run.c.version == version)
    rows = c.execute(query.order_by(block_run.c.run)).all()
    packed = [PackedRun(*row[:4]) for row in rows]
    if not all(is_run_sealed(sealer, file_id, version, one, row.seal) for one, row in zip(packed, rows, strict=True)):
        return False
    insert_packed(c, sealer, file_id, to_version, packed)
    drop_runs(c, file_id, version)
    return True
