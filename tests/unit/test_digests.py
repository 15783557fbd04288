"""The digests of a file in one pass: however it is cut, they are those of its bytes in one piece."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
import xxhash
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from integrity.files.read import Segment
from integrity.hashing.digests import (
    SPARSE_HOLES_BYTES,
    FileHasher,
    ProbeHasher,
    Want,
    combine_crc64nvme,
    digest_probe,
    digest_whole,
    is_very_sparse,
    want_to_confirm,
    want_to_record,
    want_to_verify,
    without_chain,
)
from integrity.model import Blocks, Digests
from support.expected import expect_blocks, expect_crc64nvme

ALL = want_to_record(blake3=True)
Feed = Callable[[FileHasher, Segment], None]


def feed_both(hasher: FileHasher, segment: Segment) -> None:
    hasher.chain(segment)
    hasher.cut_blocks(segment)


FEEDS = pytest.mark.parametrize("feed", [FileHasher.feed, feed_both])


def expect_digests(content: bytes) -> Digests:
    md5, xxh3 = hashlib.md5(content).digest(), xxhash.xxh3_128_digest(content)
    return Digests(md5, xxh3, blake3(content).digest(), expect_crc64nvme(content))


def cut(content: bytes, pieces: Sequence[tuple[int, bool]]) -> tuple[bytes, list[Segment]]:
    """Cut ``content`` into pieces (length, is a hole): return the bytes that they stand for, and the segments."""
    whole = bytearray(content[: sum(length for length, _ in pieces)])
    segments, offset = [], 0
    for length, is_hole in pieces:
        if is_hole:
            whole[offset : offset + length] = bytes(length)
        segments.append(
            Segment(offset, length, None if is_hole else memoryview(bytes(whole[offset : offset + length])))
        )
        offset += length
    return bytes(whole), [segment for segment in segments if segment.length]


def split(segments: Sequence[Segment], at: int) -> tuple[list[Segment], list[Segment]]:
    """Part segments at an offset, one of them in two if need be."""
    before, behind = [], []
    for offset, length, data in segments:
        here = min(max(at - offset, 0), length)
        if here:
            before.append(Segment(offset, here, None if data is None else data[:here]))
        if here < length:
            behind.append(Segment(offset + here, length - here, None if data is None else data[here:]))
    return before, behind


CONTENT = bytes(i * 31 % 251 for i in range(4000))
pieces = st.lists(st.tuples(st.integers(0, 400), st.booleans()), max_size=8)


@FEEDS
@given(pieces=pieces, block_size=st.integers(1, 500))
def test_any_cut_gives_the_digests_of_one_piece(feed: Feed, pieces: list[tuple[int, bool]], block_size: int) -> None:
    """Whole-file and block digests do not depend on where segments end, nor on what was a hole (I1, I3)."""
    content, segments = cut(CONTENT, pieces)
    hasher = FileHasher(ALL, len(content), block_size)

    for segment in segments:
        feed(hasher, segment)

    assert expect_digests(content) == hasher.digests()
    assert (0, expect_blocks(content, block_size) if len(content) > block_size else None) == hasher.take_blocks()


@FEEDS
@given(pieces=pieces, takes=st.sets(st.integers(0, 7)), block_size=st.integers(1, 300))
def test_blocks_can_be_taken_on_the_way(
    feed: Feed, pieces: list[tuple[int, bool]], takes: set[int], block_size: int
) -> None:
    """Blocks taken in parts, put together, are all blocks, each part telling where it begins."""
    content, segments = cut(CONTENT, pieces)
    hasher = FileHasher(ALL, block_size + 1, block_size)
    parts: list[tuple[int, Blocks]] = []

    def take() -> None:
        first, blocks = hasher.take_blocks()
        assert blocks is not None
        parts.append((first, blocks))

    for number, segment in enumerate(segments):
        feed(hasher, segment)
        if number in takes:
            take()
    hasher.digests()
    take()

    assert expect_blocks(content, block_size).xxh3_128 == b"".join(blocks.xxh3_128 for _, blocks in parts)
    assert expect_blocks(content, block_size).md5 == b"".join(blocks.md5 for _, blocks in parts)
    assert expect_blocks(content, block_size).crc64nvme == b"".join(blocks.crc64nvme for _, blocks in parts)
    for (first, blocks), (second, _) in pairwise(parts):
        assert first + len(blocks) == second


@FEEDS
@given(pieces=pieces, resume_at=st.integers(0, 10), block_size=st.integers(1, 300))
def test_resumed_digests_equal_undisturbed_ones(
    feed: Feed, pieces: list[tuple[int, bool]], resume_at: int, block_size: int
) -> None:
    """MD5 goes on from its saved state, blocks from their border, the CRC comes of them; XXH3 and BLAKE3 are lost."""
    content, segments = cut(CONTENT, pieces)
    start = min(resume_at * block_size, len(content) // block_size * block_size)
    before, behind = split(segments, start)
    hasher = FileHasher(ALL, len(content), block_size)
    for segment in before:
        feed(hasher, segment)
    first_blocks = hasher.take_blocks()[1]

    hasher = FileHasher(ALL, len(content), block_size, start=start, md5_state=hasher.md5_state())
    for segment in behind:
        feed(hasher, segment)
    digests = hasher.digests()
    first, blocks = hasher.take_blocks()

    assert digests.md5 == hashlib.md5(content).digest()
    assert start // block_size == first
    if start:
        assert (None, None, None) == (digests.xxh3_128, digests.blake3, digests.crc64nvme)
    if blocks is not None and first_blocks is not None:
        whole = expect_blocks(content, block_size)
        assert (whole.xxh3_128, whole.md5) == (first_blocks.xxh3_128 + blocks.xxh3_128, first_blocks.md5 + blocks.md5)
        joined = Blocks(block_size, whole.xxh3_128, crc64nvme=first_blocks.crc64nvme + blocks.crc64nvme)
        assert combine_crc64nvme(joined, len(content)) == (expect_crc64nvme(content) if content else None)


def test_resumed_without_a_state_has_no_digest_of_the_whole() -> None:
    """Half a file's digest would be worse than none."""
    hasher = FileHasher(ALL, 20, 5, start=10)
    hasher.feed(Segment(10, 10, memoryview(bytes(10))))

    assert (Digests(), None) == (hasher.digests(), hasher.md5_state())
    assert expect_blocks(bytes(10), 5) == hasher.take_blocks()[1]


@FEEDS
@pytest.mark.parametrize("block_size", [1 << 20, 3 << 19, 8 << 20])
def test_long_holes_count_as_zeros(feed: Feed, block_size: int) -> None:
    """A hole longer than a block, than the zeros at hand and than both, between data that is no whole block."""
    content = b"begin" + bytes((5 << 20) + 3) + b"end"
    hasher = FileHasher(ALL, len(content), block_size)

    for segment in (
        Segment(0, 5, memoryview(b"begin")),
        Segment(5, (5 << 20) + 3, None),
        Segment(len(content) - 3, 3, memoryview(b"end")),
    ):
        feed(hasher, segment)

    assert expect_digests(content) == hasher.digests()
    assert (0, expect_blocks(content, block_size) if len(content) > block_size else None) == hasher.take_blocks()


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_whole_files_have_only_what_is_wanted(size: int) -> None:
    """A file in one piece gets each digest that was asked for, and no other."""
    data = memoryview(CONTENT[:size])
    expected = expect_digests(bytes(data))
    md5, xxh3 = expected.md5, expected.xxh3_128

    assert expected == digest_whole(data, ALL)
    assert expected._replace(blake3=None) == digest_whole(data, want_to_record(blake3=False))
    assert Digests(md5, xxh3) == digest_whole(data, want_to_confirm(blake3=False))
    assert Digests(None, xxh3) == digest_whole(data, want_to_verify(is_one_block=True, deep=False, blake3=False))
    assert Digests() == digest_whole(data, Want())


@given(pieces=pieces, begin=st.integers(0, 500), length=st.integers(0, 1500))
def test_probe_is_the_digest_of_its_range(pieces: list[tuple[int, bool]], begin: int, length: int) -> None:
    """A probe is the XXH3 of its range however the file is cut, and nothing if the file ends before."""
    content, segments = cut(CONTENT, pieces)
    hasher = ProbeHasher((begin, length))

    for segment in segments:
        hasher.feed(segment)

    ends_before = begin + length > len(content) and length > 0
    expected = None if ends_before else xxhash.xxh3_128_digest(content[begin : begin + length])
    assert expected == hasher.digest() == digest_probe((begin, length), memoryview(content))


def test_a_probe_before_the_resume_point_is_not_had() -> None:
    """What was read by an earlier run can't be probed."""
    hasher = FileHasher(ALL, 20, 5, start=10, probe=(5, 10))
    hasher.feed(Segment(10, 10, memoryview(bytes(10))))

    assert hasher.probe() is None


def test_very_sparse_files_have_no_digest_of_the_whole() -> None:
    """Only where holes are more than the limit and more than the data; blocks are kept."""
    assert is_very_sparse(3 * SPARSE_HOLES_BYTES, 2 * SPARSE_HOLES_BYTES)
    assert not is_very_sparse(SPARSE_HOLES_BYTES, SPARSE_HOLES_BYTES)
    assert not is_very_sparse(5 * SPARSE_HOLES_BYTES, 2 * SPARSE_HOLES_BYTES)

    want = without_chain(ALL)

    assert (False, True, True) == (want.needs_chain, want.needs_blocks, want.crc64nvme)


@given(size=st.integers(0, 4000), missing=st.integers(0, 3), block_size=st.integers(1, 500))
def test_crc_of_a_file_comes_from_all_of_its_blocks(size: int, missing: int, block_size: int) -> None:
    """It is that of its bytes in one piece; if a block has none there is none."""
    blocks = expect_blocks(CONTENT[:size], block_size)
    part = Blocks(block_size, blocks.xxh3_128, crc64nvme=blocks.crc64nvme[missing * 8 :])

    is_there = size > 0 and missing == 0
    assert (expect_crc64nvme(CONTENT[:size]) if is_there else None) == combine_crc64nvme(part, size)


def test_only_recording_asks_for_the_crc() -> None:
    """What judges a recorded file need not compute what the catalog may not have of it."""
    wants = [
        want_to_verify(is_one_block=one, deep=deep, blake3=True) for one in (False, True) for deep in (False, True)
    ]

    assert want_to_record(blake3=False).crc64nvme
    assert not any(want.crc64nvme for want in [*wants, want_to_confirm(blake3=True)])


def test_nobody_waits_for_the_stand_in() -> None:
    """Without the C core files are recorded without a CRC: in Python it takes longer than reading a disk."""
    script = "from integrity.hashing.digests import want_to_record; print(want_to_record(blake3=False).crc64nvme)"
    environment = {**os.environ, "INTEGRITY_NATIVE": "off"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False"]
