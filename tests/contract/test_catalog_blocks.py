"""Digests of blocks: packed, uniform where they are equal, sealed, and resumable."""

from __future__ import annotations

import os
from dataclasses import replace
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from integrity.catalog import blocks, checkpoints
from integrity.catalog.blocks import BLOCKS_PER_RUN, BlockRun, expand, has_sound_shape, pack_runs
from integrity.catalog.checkpoints import Purpose
from integrity.catalog.schema import block_run, checkpoint_run
from integrity.model import Blocks, Digests, Witness
from support.catalogs import MIB, NOW, CatalogBox, digest, make_blocks, make_reading

WITNESS = Witness(1 << 40, 2, 3, 4)
TIB_BLOCKS = MIB
pieces = st.lists(st.tuples(st.sampled_from([b"0", b"1", b"?"]), st.integers(1, 2600)), min_size=1, max_size=5)


def build(parts: list[tuple[bytes, int]], *, has_crc: bool = True) -> Blocks:
    """Make blocks of stretches: equal ones of two kinds, or all different."""
    xxh3_128, crc64nvme = (
        b"".join(digest(n, size * n) if kind == b"?" else kind * size * n for kind, n in parts) for size in (16, 8)
    )
    return Blocks(MIB, xxh3_128, xxh3_128[::-1], crc64nvme if has_crc else b"")


@settings(max_examples=60)
@given(pieces, st.booleans())
def test_packed_runs_hold_every_block(parts: list[tuple[bytes, int]], has_crc: bool) -> None:
    """Whatever is packed comes out as it was, run by run, each found in exactly one row."""
    original = build(parts, has_crc=has_crc)
    rows = list(pack_runs(original))
    found = []
    for run in range(-(-len(original) // BLOCKS_PER_RUN)):
        row = max((row for row in rows if row.run <= run), key=lambda row: row.run)
        digests = expand(row, run)
        assert digests is not None
        found.append(digests)

    assert b"".join(md5 for md5, _, _ in found) == original.md5
    assert b"".join(xxh3_128 for _, xxh3_128, _ in found) == original.xxh3_128
    assert b"".join(crc64nvme for _, _, crc64nvme in found) == original.crc64nvme
    assert all(has_sound_shape(row) for row in rows)
    assert sum(row.block_count for row in rows) == len(original)


@settings(max_examples=30)
@given(pieces, st.lists(st.integers(1, 3000), max_size=6))
def test_appended_windows_are_what_one_reading_would_be(parts: list[tuple[bytes, int]], cuts: list[int]) -> None:
    """A file read in windows of any length has the digests of one that was read at once (R7)."""
    original = build(parts)
    with (
        TemporaryDirectory() as folder,
        CatalogBox(os.fsencode(folder) + b"/catalog.db") as box,
        box.catalog.transaction() as c,
    ):
        number = _save(box, c, 0)
        start = 0
        for cut in [*cuts, len(original)]:
            end = min(start + cut, len(original))
            checkpoints.append_runs(c, box.sealer, number, cut_out(original, start, end))
            start = end
        _save(box, c, start * MIB)
        found = checkpoints.load_checkpoint(c, box.sealer, box.root.id, b"big", Purpose.RECORD)
        assert found is not None
        assert checkpoints.load_checkpoint_blocks(c, found) == cut_out(original, 0, start)


@pytest.mark.parametrize(("first_has_crc", "second_has_crc"), [(False, True), (True, False)])
@pytest.mark.parametrize("first_count", [3, 1024, 1500])
def test_windows_of_which_one_has_no_crc_have_none(
    box: CatalogBox, first_count: int, *, first_has_crc: bool, second_has_crc: bool
) -> None:
    """A reading that another version began goes on; CRCs of some of the blocks are of no use to anybody."""
    original = make_blocks("a", 1600)
    with box.catalog.transaction() as c:
        number = _save(box, c, 0)
        for start, end, has_crc in ((0, first_count, first_has_crc), (first_count, 1600, second_has_crc)):
            part = cut_out(original, start, end)
            checkpoints.append_runs(c, box.sealer, number, part if has_crc else replace(part, crc64nvme=b""))
        _save(box, c, 1600 * MIB)
        found = checkpoints.load_checkpoint(c, box.sealer, box.root.id, b"big", Purpose.RECORD)
        assert found is not None
        assert checkpoints.load_checkpoint_blocks(c, found) == replace(original, crc64nvme=b"")


def cut_out(blocks_of_it: Blocks, start: int, end: int) -> Blocks:
    """Take some of the blocks."""
    at, crc_at = slice(start * 16, end * 16), slice(start * 8, end * 8)
    return Blocks(MIB, blocks_of_it.xxh3_128[at], blocks_of_it.md5[at], blocks_of_it.crc64nvme[crc_at])


def _save(box: CatalogBox, c: sa.Connection, offset_bytes: int, witness: Witness = WITNESS) -> int:
    return checkpoints.save_checkpoint(
        *(c, box.root.id, b"big", Purpose.RECORD),
        witness=witness,
        offset_bytes=offset_bytes,
        block_size_bytes=MIB,
        now=NOW,
        md5_state=b"state",
    )


def test_tebibyte_of_holes_costs_one_row(box: CatalogBox) -> None:
    """A sparse file does not fill the catalog with digests of zeros."""
    holes = Blocks(MIB, b"\x99" * 16 * TIB_BLOCKS, b"\x77" * 16 * TIB_BLOCKS, b"\x55" * 8 * TIB_BLOCKS)
    file_id = box.record(b"disk.img", make_reading("sparse", digests=Digests(), blocks=holes, size_bytes=1 << 40))
    with box.catalog.read() as c:
        [row] = c.execute(sa.select(block_run)).all()
        assert len(row.md5) + len(row.xxh3_128) + len(row.crc64nvme) == 40
        last = blocks.load_run(c, box.sealer, file_id, 1, TIB_BLOCKS // BLOCKS_PER_RUN - 1)
        assert last == BlockRun(b"\x77" * 16 * 1024, b"\x99" * 16 * 1024, is_sealed=True, crc64nvme=b"\x55" * 8 * 1024)
        assert blocks.load_run(c, box.sealer, file_id, 1, TIB_BLOCKS // BLOCKS_PER_RUN) is None


def test_runs_are_loaded_by_number(box: CatalogBox) -> None:
    """A scrub loads 1,024 blocks at a time, with their seal checked."""
    original = make_blocks("a", 2500)
    file_id = box.record(b"a", make_reading("a", blocks=original, size_bytes=2500 * MIB))
    with box.catalog.read() as c:
        runs = [blocks.load_run(c, box.sealer, file_id, 1, run) for run in range(4)]

    assert [None if run is None else len(run.xxh3_128) // 16 for run in runs] == [1024, 1024, 452, None]
    assert b"".join(run.md5 for run in runs if run is not None) == original.md5
    assert b"".join(run.crc64nvme for run in runs if run is not None) == original.crc64nvme


def test_blocks_without_md5_are_kept_without_it(box: CatalogBox) -> None:
    """Where only XXH3 was asked for nothing is made up."""
    only = Blocks(MIB, digest("x", 16 * 3))
    file_id = box.record(b"a", make_reading("a", blocks=only, size_bytes=3 * MIB))
    with box.catalog.read() as c:
        assert blocks.load_blocks(c, box.sealer, file_id, 1, MIB) == only


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE block_run SET md5 = randomblob(length(md5))",
        "UPDATE block_run SET xxh3_128 = randomblob(length(xxh3_128))",
        "UPDATE block_run SET block_count = 2",
        "UPDATE block_run SET block_count = 2000000000000",
        "UPDATE block_run SET block_count = -1",
        "UPDATE block_run SET xxh3_128 = x''",
        "UPDATE block_run SET crc64nvme = randomblob(length(crc64nvme))",
        "UPDATE block_run SET crc64nvme = x''",
        "UPDATE block_run SET crc64nvme = zeroblob(8)",
        "UPDATE block_run SET seal = randomblob(16)",
    ],
)
def test_damaged_blocks_judge_nobody(box: CatalogBox, damage: str) -> None:
    """A row of digests whose seal is broken gives no digests."""
    file_id = box.record(b"a", make_reading("a", blocks=make_blocks("a", 3), size_bytes=3 * MIB))
    box.damage(damage)
    with box.catalog.read() as c:
        assert blocks.load_run(c, box.sealer, file_id, 1, 0) == BlockRun(b"", b"", is_sealed=False)
        assert blocks.load_blocks(c, box.sealer, file_id, 1, MIB) is None


def test_row_that_changed_places_is_damaged(box: CatalogBox) -> None:
    """Digests of another file do not pass for this one's."""
    ids = box.record_all({p: make_reading(p, blocks=make_blocks(p, 3), size_bytes=3 * MIB) for p in (b"a", b"b")})
    box.damage("UPDATE block_run SET file_id = -1 WHERE file_id = ?", ids[0])
    box.damage("UPDATE block_run SET file_id = ? WHERE file_id = ?", ids[0], ids[1])
    with box.catalog.read() as c:
        found = blocks.load_run(c, box.sealer, ids[0], 1, 0)

    assert found is not None
    assert not found.is_sealed


def test_checkpoint_goes_on_where_it_stopped(box: CatalogBox) -> None:
    """The next window finds offset, MD5 state, witness and the blocks so far."""
    first = make_blocks("a", 1500)
    with box.catalog.transaction() as c:
        number = _save(box, c, 1500 * MIB)
        checkpoints.append_runs(c, box.sealer, number, first)
        found = checkpoints.load_checkpoint(c, box.sealer, box.root.id, b"big", Purpose.RECORD)
        assert found is not None
        assert (found.offset_bytes, found.md5_state, found.witness) == (1500 * MIB, b"state", WITNESS)
        assert found.block_size_bytes == MIB
        assert checkpoints.load_checkpoint_blocks(c, found) == first
        assert _save(box, c, 1501 * MIB) == number
        verify = checkpoints.load_checkpoint(c, box.sealer, box.root.id, b"big", Purpose.VERIFY)
        assert verify is None


def test_checkpoint_of_a_verification_keeps_the_bad_blocks(box: CatalogBox) -> None:
    """Damage that was found before the window ended is not forgotten."""
    with box.catalog.transaction() as c:
        checkpoints.save_checkpoint(
            *(c, box.root.id, b"big", Purpose.VERIFY),
            witness=WITNESS,
            offset_bytes=7 * MIB,
            block_size_bytes=MIB,
            now=NOW,
            bad_blocks=(3, 5),
        )
        found = checkpoints.load_checkpoint(c, box.sealer, box.root.id, b"big", Purpose.VERIFY)

    assert found is not None
    assert (found.bad_blocks, found.md5_state) == ((3, 5), None)


def test_blocks_of_another_witness_are_dropped(box: CatalogBox) -> None:
    """Digests of content that is gone do not become part of the new content's."""
    with box.catalog.transaction() as c:
        number = _save(box, c, 3 * MIB)
        checkpoints.append_runs(c, box.sealer, number, make_blocks("old", 3))
        _save(box, c, 0, WITNESS._replace(ctime_ns=99))
        found = checkpoints.load_checkpoint(c, box.sealer, box.root.id, b"big", Purpose.RECORD)
        assert found is not None
        assert len(checkpoints.load_checkpoint_blocks(c, found)) == 0


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE checkpoint SET offset_bytes = offset_bytes - 1048576",
        "UPDATE checkpoint SET md5_state = x'00'",
        "UPDATE checkpoint SET mtime_ns = 0",
        "UPDATE checkpoint SET bad_blocks = '[1]'",
        "UPDATE checkpoint_run SET xxh3_128 = randomblob(length(xxh3_128)) WHERE run = 1",
        "UPDATE checkpoint_run SET crc64nvme = zeroblob(length(crc64nvme)) WHERE run = 1",
        "DELETE FROM checkpoint_run WHERE run = 0",
        "DELETE FROM checkpoint_run WHERE run = 1",
    ],
)
def test_damaged_checkpoint_is_as_good_as_none(box: CatalogBox, damage: str) -> None:
    """Reading from the start costs time; going on from a wrong state would make a wrong baseline."""
    with box.catalog.transaction() as c:
        checkpoints.append_runs(c, box.sealer, _save(box, c, 1500 * MIB), make_blocks("a", 1500))
    box.damage(damage)
    with box.catalog.read() as c:
        assert checkpoints.load_checkpoint(c, box.sealer, box.root.id, b"big", Purpose.RECORD) is None


def test_dropped_checkpoint_leaves_nothing(box: CatalogBox) -> None:
    """A file that was read to its end has no checkpoint."""
    with box.catalog.transaction() as c:
        checkpoints.append_runs(c, box.sealer, _save(box, c, 3 * MIB), make_blocks("a", 3))
        checkpoints.drop_checkpoint(c, box.root.id, b"big", Purpose.VERIFY)
        assert checkpoints.load_checkpoint(c, box.sealer, box.root.id, b"big", Purpose.RECORD) is not None
        checkpoints.drop_checkpoint(c, box.root.id, b"big", Purpose.RECORD)
        assert checkpoints.load_checkpoint(c, box.sealer, box.root.id, b"big", Purpose.RECORD) is None
        assert c.execute(sa.select(checkpoint_run)).all() == []
