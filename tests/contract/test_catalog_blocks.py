"""Digests of blocks: packed, uniform where they are equal, and resumable."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integrity.catalog import blocks
from integrity.catalog.blocks import BLOCKS_PER_RUN, Purpose
from integrity.catalog.copying import read_schema
from integrity.catalog.db import Connection
from integrity.model import Blocks, Digests, FileId, Witness
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
    """Whatever is packed comes out as it was, at once and run by run."""
    original, file_id = build(parts, has_crc=has_crc), FileId(1)
    with closing(Connection(b"")) as c:
        c.driver.execute(read_schema())
        blocks.save_runs(c, file_id, 1, original)
        found = [blocks.load_run(c, file_id, 1, run) for run in range(-(-len(original) // BLOCKS_PER_RUN) + 1)]
        assert blocks.load_blocks(c, file_id, 1, MIB) == original

    assert found.pop() is None
    kinds = zip(*(one[2:] for one in found if one is not None), strict=True)
    assert [b"".join(kind) for kind in kinds] == [original.md5, original.xxh3_128, original.crc64nvme]


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
            blocks.append_runs(c, number, cut_out(original, start, end))
            start = end
        _save(box, c, start * MIB)
        found = blocks.load_checkpoint(c, box.root.id, b"big", Purpose.RECORD)
        assert found is not None
        assert blocks.load_checkpoint_blocks(c, found) == cut_out(original, 0, start)


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
            blocks.append_runs(c, number, part if has_crc else replace(part, crc64nvme=b""))
        _save(box, c, 1600 * MIB)
        found = blocks.load_checkpoint(c, box.root.id, b"big", Purpose.RECORD)
        assert found is not None
        assert blocks.load_checkpoint_blocks(c, found) == replace(original, crc64nvme=b"")


def cut_out(blocks_of_it: Blocks, start: int, end: int) -> Blocks:
    """Take some of the blocks."""
    at, crc_at = slice(start * 16, end * 16), slice(start * 8, end * 8)
    return Blocks(MIB, blocks_of_it.xxh3_128[at], blocks_of_it.md5[at], blocks_of_it.crc64nvme[crc_at])


def _save(box: CatalogBox, c: Connection, offset_bytes: int, witness: Witness = WITNESS) -> int:
    return blocks.save_checkpoint(
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
        assert c.column("SELECT length(md5) + length(xxh3_128) + length(crc64nvme) FROM block_run") == [40]
        last = blocks.load_run(c, file_id, 1, TIB_BLOCKS // BLOCKS_PER_RUN - 1)
        assert last[1:] == (1024, b"\x77" * 16 * 1024, b"\x99" * 16 * 1024, b"\x55" * 8 * 1024)
        assert blocks.load_run(c, file_id, 1, TIB_BLOCKS // BLOCKS_PER_RUN) is None


def test_runs_are_loaded_by_number(box: CatalogBox) -> None:
    """A scrub loads 1,024 blocks at a time, whichever of them are asked for."""
    original = make_blocks("a", 2500)
    file_id = box.record(b"a", make_reading("a", blocks=original, size_bytes=2500 * MIB))
    with box.catalog.read() as c:
        runs = [blocks.load_run(c, file_id, 1, run) for run in range(4)]

    assert [None if run is None else len(run.xxh3_128) // 16 for run in runs] == [1024, 1024, 452, None]
    assert b"".join(run.md5 for run in runs if run is not None) == original.md5
    assert b"".join(run.crc64nvme for run in runs if run is not None) == original.crc64nvme


def test_blocks_without_md5_are_kept_without_it(box: CatalogBox) -> None:
    """Where only XXH3 was asked for nothing is made up."""
    only = Blocks(MIB, digest("x", 16 * 3))
    file_id = box.record(b"a", make_reading("a", blocks=only, size_bytes=3 * MIB))
    with box.catalog.read() as c:
        assert blocks.load_blocks(c, file_id, 1, MIB) == only


def test_checkpoint_goes_on_where_it_stopped(box: CatalogBox) -> None:
    """The next window finds offset, MD5 state, witness and the blocks so far."""
    first = make_blocks("a", 1500)
    with box.catalog.transaction() as c:
        number = _save(box, c, 1500 * MIB)
        blocks.append_runs(c, number, first)
        found = blocks.load_checkpoint(c, box.root.id, b"big", Purpose.RECORD)
        assert found is not None
        assert (found.offset_bytes, found.md5_state, found.witness) == (1500 * MIB, b"state", WITNESS)
        assert found.block_size_bytes == MIB
        assert blocks.load_checkpoint_blocks(c, found) == first
        assert _save(box, c, 1501 * MIB) == number
        verify = blocks.load_checkpoint(c, box.root.id, b"big", Purpose.VERIFY)
        assert verify is None


def test_checkpoint_of_a_verification_keeps_the_bad_blocks(box: CatalogBox) -> None:
    """Damage that was found before the window ended is not forgotten."""
    with box.catalog.transaction() as c:
        blocks.save_checkpoint(
            *(c, box.root.id, b"big", Purpose.VERIFY),
            witness=WITNESS,
            offset_bytes=7 * MIB,
            block_size_bytes=MIB,
            now=NOW,
            bad_blocks=(3, 5),
        )
        found = blocks.load_checkpoint(c, box.root.id, b"big", Purpose.VERIFY)

    assert found is not None
    assert (found.bad_blocks, found.md5_state) == ((3, 5), None)


def test_blocks_of_another_witness_are_dropped(box: CatalogBox) -> None:
    """Digests of content that is gone do not become part of the new content's."""
    with box.catalog.transaction() as c:
        number = _save(box, c, 3 * MIB)
        blocks.append_runs(c, number, make_blocks("old", 3))
        _save(box, c, 0, WITNESS._replace(ctime_ns=99))
        found = blocks.load_checkpoint(c, box.root.id, b"big", Purpose.RECORD)
        assert found is not None
        assert len(blocks.load_checkpoint_blocks(c, found)) == 0


def test_dropped_checkpoint_leaves_nothing(box: CatalogBox) -> None:
    """A file that was read to its end has no checkpoint."""
    with box.catalog.transaction() as c:
        blocks.append_runs(c, _save(box, c, 3 * MIB), make_blocks("a", 3))
        blocks.drop_checkpoint(c, box.root.id, b"big", Purpose.VERIFY)
        assert blocks.load_checkpoint(c, box.root.id, b"big", Purpose.RECORD) is not None
        blocks.drop_checkpoint(c, box.root.id, b"big", Purpose.RECORD)
        assert blocks.load_checkpoint(c, box.root.id, b"big", Purpose.RECORD) is None
        assert c.column("SELECT run FROM checkpoint_run") == []
