"""The ETags that uploads in parts must have, from what is kept of a file or from its bytes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.copies.part_digests import (
    MIB,
    PartsHasher,
    derive_from_blocks,
    guess_part_bytes,
    split_evenly,
)
from integrity.copies.protocol import Kind, Published
from integrity.copies.s3.checksums import StatedChecksums, read_etag, read_stated
from support.expected import expect_md5

DATA = random.Random(1).randbytes(5000)
DIGITS = "0123456789abcdef0123456789abcdef"


def expect_etag(data: bytes, sizes: tuple[int, ...]) -> bytes:
    """Compute it as Amazon describes it."""
    parts = []
    for size in sizes:
        parts.append(expect_md5(data[:size]))
        data = data[size:]
    assert not data
    return expect_md5(b"".join(parts))


def of_parts(*sizes: int, parts: int) -> Published:
    """State an MD5 of parts."""
    return Published(Kind.MD5_OF_PARTS, bytes(16), sizes, parts)


@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=8), cuts=st.lists(st.integers(1, 400), min_size=1))
def test_parts_of_any_size_are_hashed_from_pieces_of_any_size(sizes: list[int], cuts: list[int]) -> None:
    """Where pieces and parts end has nothing to do with each other."""
    data = DATA[: sum(sizes)]
    hasher = PartsHasher(sizes)
    left, at = data, 0
    while left:
        cut = cuts[at % len(cuts)]
        hasher.update(left[:cut])
        left, at = left[cut:], at + 1

    assert expect_etag(data, tuple(sizes)) == hasher.digest()


def test_bytes_that_are_not_those_of_the_parts_are_refused() -> None:
    """A file that grew or shrank meanwhile has no ETag."""
    with pytest.raises(ValueError, match="more bytes"):
        PartsHasher([3, 4]).update(bytes(8))
    hasher = PartsHasher([3, 4])
    hasher.update(bytes(6))
    with pytest.raises(ValueError, match="fewer bytes"):
        hasher.digest()


@given(size_bytes=st.integers(0, 5000), block_bytes=st.integers(1, 2000))
def test_parts_that_are_blocks_need_no_file(size_bytes: int, block_bytes: int) -> None:
    """The MD5s of the blocks are those of the parts."""
    data = DATA[:size_bytes]
    sizes = split_evenly(size_bytes, block_bytes)
    packed = b"".join(expect_md5(data[at : at + block_bytes]) for at in range(0, size_bytes, block_bytes))

    assert expect_etag(data, sizes) == derive_from_blocks(sizes, expect_md5(data), block_bytes, packed)


@pytest.mark.parametrize("sizes", [(2000, 2000, 1000), (500, 4500), (1000, 1000, 1000, 1001, 999)])
def test_parts_that_are_no_blocks_need_the_file(sizes: tuple[int, ...]) -> None:
    """Also where parts are several blocks: MD5s can't be put together."""
    packed = b"".join(expect_md5(DATA[at : at + 1000]) for at in range(0, 5000, 1000))

    assert derive_from_blocks(sizes, expect_md5(DATA), 1000, packed) is None


def test_blocks_that_are_not_all_there_need_the_file() -> None:
    """Sparse files have no MD5 of some of their blocks."""
    packed = b"".join(expect_md5(DATA[at : at + 1000]) for at in range(0, 4000, 1000))

    assert derive_from_blocks((1000,) * 5, expect_md5(DATA), 1000, packed) is None


def test_single_part_needs_the_digest_of_the_file_only() -> None:
    """Its ETag is the MD5 of the file's MD5."""
    assert expect_etag(DATA, (5000,)) == derive_from_blocks((5000,), expect_md5(DATA), 1 << 20, b"")


@pytest.mark.parametrize(
    ("size_bytes", "published", "expected"),
    [
        (21, of_parts(8, parts=3), (8, 8, 5)),
        (24, of_parts(8, parts=3), (8, 8, 8)),
        (21, of_parts(8, 5, 8, parts=3), (8, 5, 8)),
        (21, of_parts(21, parts=1), (21,)),
        (21, of_parts(parts=3), None),
        (25, of_parts(8, parts=3), None),
        (16, of_parts(8, parts=3), None),
        (21, of_parts(8, 5, parts=3), None),
        (20, of_parts(8, 5, 8, parts=3), None),
    ],
)
def test_sizes_of_parts_that_do_not_add_up_are_none(
    size_bytes: int, published: Published, expected: tuple[int, ...] | None
) -> None:
    """A store may say anything."""
    assert published.list_parts(size_bytes) == expected


@given(part_mib=st.sampled_from([5, 8, 15, 16, 50, 64, 100]), size_bytes=st.integers(5 * MIB + 1, 10**13))
def test_usual_sizes_of_parts_are_guessed(part_mib: int, size_bytes: int) -> None:
    """What programs use unless told otherwise is among the guesses, and all guesses are possible."""
    parts = len(split_evenly(size_bytes, part_mib * MIB)) if size_bytes < 10_000 * part_mib * MIB else 1
    guesses = guess_part_bytes(size_bytes, parts)

    assert parts == 1 or part_mib * MIB in guesses
    assert len(guesses) <= 8
    assert all(-(-size_bytes // guess) == parts for guess in guesses)


@pytest.mark.parametrize("part_bytes", [17 * MIB, 33 * MIB, 5_000_000, 123 * MIB])
def test_less_usual_sizes_of_parts_are_guessed_where_few_fit(part_bytes: int) -> None:
    """Multiples of a MiB or of a million bytes, for objects of many parts."""
    size_bytes = 400 * part_bytes + 12345

    assert part_bytes in guess_part_bytes(size_bytes, 401)


@pytest.mark.parametrize(
    ("etag", "size_bytes", "expected"),
    [
        (DIGITS, 5, Published(Kind.MD5, bytes.fromhex(DIGITS))),
        (DIGITS + "-1", 5, Published(Kind.MD5_OF_PARTS, bytes.fromhex(DIGITS), (5,), 1)),
        (DIGITS + "-1", 0, Published(Kind.MD5_OF_PARTS, bytes.fromhex(DIGITS), (0,), 1)),
        (DIGITS + "-10000", 10**6, Published(Kind.MD5_OF_PARTS, bytes.fromhex(DIGITS), (), 10_000)),
        (DIGITS + "-10001", 10**6, None),
        (DIGITS + "-6", 5, None),
        (DIGITS + "-0", 5, None),
        (DIGITS + "-", 5, None),
        (DIGITS + "\n", 5, None),
        (f'"{DIGITS}x"', 5, None),
        ("W/", 5, None),
        ('"', 5, None),
        (DIGITS[1:], 5, None),
        ("", 5, None),
    ],
)
def test_etag_is_taken_for_what_it_can_be(etag: str, size_bytes: int, expected: Published | None) -> None:
    """Anything else is no digest, and nothing is compared with it."""
    assert read_etag(etag, size_bytes, "bucket") == expected


def test_etags_of_directory_buckets_are_no_digests() -> None:
    """Amazon makes them up."""
    assert read_etag(DIGITS, 5, "bucket--use1-az4--x-s3") is None


def test_digests_of_digests_are_left_out() -> None:
    """A composite checksum says nothing of the whole; the ETag says the same of MD5."""
    crc = {"CRC32C": "yZRlqg==-2", "CRC64NVME": "rosUhgp5mIg=", "TypeNobodyKnows": "AAAA"}

    whole = read_stated(StatedChecksums(5, DIGITS + "-2", checksums=crc), "bucket")
    assert {Kind.MD5_OF_PARTS, Kind.CRC64NVME} == {published.kind for published in whole}
    parts = read_stated(StatedChecksums(5, DIGITS + "-2", checksums=crc, is_composite=True), "bucket")
    assert {Kind.MD5_OF_PARTS} == {published.kind for published in parts}


@pytest.mark.parametrize("text", ["", "rosUhgp5mI=", "rosUhgp5mIgA", "not base64!", "rosUhgp5mIg=\n", "\u00fc"])
def test_checksum_that_is_none_is_left_out(text: str) -> None:
    """Of another length, or no base64."""
    assert read_stated(StatedChecksums(5, "", checksums={"CRC64NVME": text}, uploader_md5=text), "bucket") == ()
