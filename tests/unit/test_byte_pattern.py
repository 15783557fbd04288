"""What was planted in bytes is what is told of them, and nothing more."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from integrity.jobs.byte_pattern import (
    CHUNK_BYTES,
    MOST_RANGES,
    ByteDifference,
    ByteRun,
    DifferenceFinder,
    FillFinder,
    Shape,
    Side,
    describe_difference,
    describe_end,
    describe_fills,
)

seeds = st.integers(min_value=0, max_value=1 << 32)
sizes = st.integers(min_value=1, max_value=5 * CHUNK_BYTES + 777)
grains = st.sampled_from([512, 4096, CHUNK_BYTES])


def make(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def find(file: bytes, copy: bytes, piece: int = 2 * CHUNK_BYTES) -> ByteDifference:
    finder = DifferenceFinder()
    for at in range(0, max(len(file), len(copy)), piece):
        finder.add(at, file[at : at + piece], copy[at : at + piece])
    return finder.finish(len(file), len(copy))


def find_fills(data: bytes, offset: int = 0, piece: int = CHUNK_BYTES) -> tuple[ByteRun, ...]:
    finder = FillFinder()
    for at in range(0, len(data), piece):
        finder.add(offset + at, data[at : at + piece])
    return finder.find()


def put(data: bytes, offset: int, new: bytes) -> bytes:
    return data[:offset] + new + data[offset + len(new) :]


@given(seeds, sizes)
def test_equal_bytes_have_no_shape(seed: int, size: int) -> None:
    """Two equal versions are equal, and nothing is told."""
    difference = find(make(seed, size), make(seed, size))
    assert (True, "", 0) == (difference.are_equal, describe_difference(difference), difference.range_count)


@given(seeds, sizes, st.data())
def test_one_bit(seed: int, size: int, data: st.DataObject) -> None:
    """I1: one flipped bit is told with its place and both values."""
    at, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7))
    file = make(seed, size)
    copy = put(file, at, bytes([file[at] ^ 1 << bit]))

    difference = find(file, copy)

    assert (Shape.ONE_BIT, 1, 1) == (difference.shape, difference.differing_bits, difference.range_count)
    values = f"0x{file[at]:02x} in your file, 0x{copy[at]:02x} in the backup"
    assert f"One bit differs: bit {bit} of byte {at:,} ({values})." == describe_difference(difference)


@given(seeds, sizes, st.data())
def test_few_bits(seed: int, size: int, data: st.DataObject) -> None:
    """Some flipped bits are counted."""
    bits = data.draw(st.sets(st.integers(0, size * 8 - 1), min_size=2, max_size=8))
    file = make(seed, size)
    copy = bytearray(file)
    for bit in bits:
        copy[bit // 8] ^= 1 << bit % 8

    difference = find(file, bytes(copy))

    assert (Shape.FEW_BITS, len(bits)) == (difference.shape, difference.differing_bits)
    assert describe_difference(difference).startswith(f"{len(bits)} bits differ, in ")


@given(seeds, seeds, sizes)
def test_random_content_is_never_one_bit(seed: int, other: int, size: int) -> None:
    """Two files that have nothing to do with each other are not told as flipped bits or runs."""
    assume(size >= 16 and seed != other)
    difference = find(make(seed, size), make(other, size))
    assert difference.shape is (Shape.FROM_OFFSET if size >= 600 else difference.shape)
    assert difference.shape not in (Shape.ONE_BIT, Shape.FEW_BITS, Shape.FILL)


@settings(deadline=None)
@given(seeds, grains, st.integers(0, 3), st.integers(1, 3), st.sampled_from([0, 0xFF, 0x55]), st.booleans())
def test_run_of_one_byte(seed: int, grain: int, at: int, count: int, value: int, is_in_copy: bool) -> None:
    """I2: blocks of zeros or of another byte are told, on the side that has them, in one piece."""
    good = make(seed, 7 * CHUNK_BYTES)
    run = ByteRun(at * grain, count * grain, value)
    bad = put(good, run.offset, bytes([value]) * run.length)

    difference = find(good, bad) if is_in_copy else find(bad, good)

    assert (Shape.FILL, (run,)) == (difference.shape, difference.runs)
    assert (Side.COPY if is_in_copy else Side.FILE) is difference.side
    name = "The backup" if is_in_copy else "Your file"
    what = "zeros" if value == 0 else f"the byte 0x{value:02x}"
    assert f"{name} has a run of {what}, " in describe_difference(difference)
    assert (run,) == find_fills(bad)


def test_block_that_began_with_zeros() -> None:
    """A lost block is told whole, although its first bytes were zeros before."""
    good = put(make(1, 3 * CHUNK_BYTES), 8192, bytes(1000))
    difference = find(good, put(good, 8192, bytes(4096)))
    assert (ByteRun(8192, 4096, 0),) == difference.runs


def test_several_lost_blocks() -> None:
    """Lost blocks in several places are counted."""
    good = make(1, 3 * CHUNK_BYTES)
    bad = put(put(good, 8192, bytes(4096)), 2 * CHUNK_BYTES, bytes(8192))
    assert describe_difference(find(bad, good)) == (
        "Your file has 2 runs of zeros, 12 KiB in all, the first from byte 8,192 on: blocks that were never written, or"
        " were lost."
    )


@given(seeds, st.integers(1, 4 * CHUNK_BYTES), st.integers(0, 4 * CHUNK_BYTES))
def test_cut_off(seed: int, more: int, size: int) -> None:
    """The shorter side is named, with both sizes."""
    whole = make(seed, size + more)
    difference = find(whole, whole[:size])
    assert (Shape.CUT_OFF, Side.COPY) == (difference.shape, difference.side)
    assert f"The backup ends after {size:,} of {size + more:,} bytes." == describe_difference(difference)
    assert Side.FILE is find(whole[:size], whole).side


@settings(deadline=None)
@given(seeds, st.integers(1, 3 * CHUNK_BYTES), st.integers(600, 2 * CHUNK_BYTES))
def test_everything_from_an_offset_on(seed: int, at: int, length: int) -> None:
    """A beginning that is the same and an end that is not are told by the offset between them."""
    file, other = make(seed, at + length), make(seed + 1, at + length)
    copy = file[:at] + other[at:]
    at = next(index for index in range(at, len(file)) if file[index] != copy[index])
    assert f"Everything from byte {at:,} on differs." == describe_difference(find(file, copy))


def test_inserted_byte_shifts_the_rest() -> None:
    """A byte that was inserted changes everything behind it, and the sizes are told."""
    file = make(1, 100_000)
    copy = file[:65_536] + b"!" + file[65_536:]
    assert describe_difference(find(file, copy)) == (
        "Everything from byte 65,536 on differs. Your file has 100,000 bytes, the backup 100,001."
    )


@settings(deadline=None)
@given(seeds, grains, st.integers(0, 2), st.integers(1, 2))
def test_run_of_other_data(seed: int, grain: int, at: int, count: int) -> None:
    """I2: blocks of other data are told."""
    file = make(seed, 7 * CHUNK_BYTES)
    run = ByteRun(at * grain, count * grain)
    copy = put(file, run.offset, make(seed + 1, run.length))
    difference = find(file, copy)
    assert (Shape.OTHER_DATA, (run,)) == (difference.shape, difference.runs)


@pytest.mark.parametrize(("offset", "length"), [(700, 4096), (512, 700), (4096, 100), (CHUNK_BYTES - 30, 60)])
def test_unaligned_data_is_scattered(offset: int, length: int) -> None:
    """I2: what begins or ends within a block is only counted."""
    file = make(1, 3 * CHUNK_BYTES)
    difference = find(file, put(file, offset, make(2, length)))
    assert (Shape.SCATTERED, 1) == (difference.shape, difference.range_count)


def test_edit_in_a_block_of_zeros_is_no_lost_block() -> None:
    """Where few bytes of a block of zeros changed, the zeros are not what happened."""
    zeros = bytes(3 * CHUNK_BYTES)
    difference = find(put(zeros, 5000, b"a few words that were written"), zeros)
    assert Shape.SCATTERED is difference.shape
    assert describe_difference(difference) == "29 bytes differ, from byte 5,000 on."


def test_ranges_are_bounded() -> None:
    """The first ranges are kept with both sides, the others are counted."""
    file = make(1, 5 * CHUNK_BYTES)
    copy = bytearray(file)
    for at in range(100, len(file), 1000):
        copy[at : at + 3] = bytes(255 - byte for byte in copy[at : at + 3])
    difference = find(file, bytes(copy))
    assert (MOST_RANGES, 328) == (len(difference.ranges), difference.range_count)
    assert (100, 3, file[100:103], bytes(copy[100:103])) == tuple(difference.ranges[0])


def test_range_goes_on_behind_a_byte_that_is_equal_by_chance() -> None:
    """Also where that byte is the last one of a chunk."""
    file, copy = bytes(3 * CHUNK_BYTES), bytearray(b"\1" * 3 * CHUNK_BYTES)
    copy[CHUNK_BYTES - 1] = copy[CHUNK_BYTES + 5] = 0
    difference = find(file, bytes(copy))
    assert [(0, 3 * CHUNK_BYTES)] == [(one.offset, one.length) for one in difference.ranges]
    assert 1 == difference.range_count


@settings(deadline=None)
@given(seeds, st.integers(1, 4))
def test_pieces_do_not_matter(seed: int, chunks: int) -> None:
    """A difference is the same, however it was cut into pieces."""
    file = make(seed, 5 * CHUNK_BYTES + 100)
    copy = put(file, CHUNK_BYTES - 512, make(seed + 1, 3 * CHUNK_BYTES))
    assert find(file, copy) == find(file, copy, piece=chunks * CHUNK_BYTES)


def test_part_is_never_one_bit() -> None:
    """I1: if not everything was looked at, one bit is not claimed, and that is said."""
    file = make(1, CHUNK_BYTES)
    finder = DifferenceFinder()
    finder.add(0, file, put(file, 7, bytes([file[7] ^ 1])))
    difference = finder.finish(10 * CHUNK_BYTES, 10 * CHUNK_BYTES, is_complete=False)
    assert Shape.SCATTERED is difference.shape
    assert describe_difference(difference) == (
        "1 byte differs, from byte 7 on. Only the first part of what differs was looked at."
    )


def test_zeros_that_do_not_fill_blocks_are_not_told() -> None:
    """Of damaged data alone, only runs that begin and end with a block say something."""
    data = make(1, 4 * CHUNK_BYTES)
    assert () == find_fills(put(data, 4096 - 100, bytes(4196)))
    assert () == find_fills(put(data, 4096, bytes(4096 + 100)))
    assert () == find_fills(data)


def test_zeros_in_two_pieces() -> None:
    """A run goes on from piece to piece, and ends at a gap."""
    data = put(make(1, 4 * CHUNK_BYTES), CHUNK_BYTES - 4096, bytes(8192))
    assert (ByteRun(10 * CHUNK_BYTES - 4096, 8192, 0),) == find_fills(data, 9 * CHUNK_BYTES)
    finder = FillFinder()
    finder.add(0, bytes(4096))
    finder.add(8192, bytes(4096))
    assert (ByteRun(0, 4096, 0), ByteRun(8192, 4096, 0)) == finder.find()


def test_many_runs_are_no_damage() -> None:
    """A file with zeros in many places always looked like this."""
    data = b"".join(make(seed, 512) + bytes(512) for seed in range(20))
    assert ((), "", "") == (find_fills(data), describe_fills(find_fills(data)), describe_end(10, 10))
