"""CRC-64/NVME: the C core on each of its paths and the stand-in, held to the same values."""

from __future__ import annotations

import array
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from awscrt import checksums
from hypothesis import given
from hypothesis import strategies as st

from integrity._native import lib
from integrity.hashing import crc64 as chosen
from integrity.hashing import crc64_native, crc64_standin

MESSAGE = bytes(i * 7 % 251 for i in range(9000))


@pytest.fixture(params=crc64_native.PATHS)
def path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Let the C core use no path wider than this one."""
    name: str = request.param
    with crc64_native.only_path(name):
        yield name


def test_each_path_gives_what_amazon_computes(path: str) -> None:
    """Every length up to 600 bytes and some that take several steps of the widest path, against Amazon's library."""
    for size_bytes in (*range(601), 1023, 1024, 1025, 2047, 4096, 5555, len(MESSAGE)):
        assert checksums.crc64nvme(MESSAGE[:size_bytes]) == crc64_native.crc64(MESSAGE[:size_bytes])


@pytest.mark.parametrize("module", [crc64_native, crc64_standin])
@given(pieces=st.lists(st.binary(max_size=300), max_size=6))
def test_pieces_have_the_value_of_the_whole(module: object, pieces: list[bytes]) -> None:
    """Streamed or combined, the value is that of all pieces joined."""
    crc64, combine = (crc64_native.crc64, crc64_native.combine)
    if module is crc64_standin:
        crc64, combine = (crc64_standin.crc64, crc64_standin.combine)
    expected = checksums.crc64nvme(b"".join(pieces))
    streamed = combined = 0
    for piece in pieces:
        streamed = crc64(piece, streamed)
        combined = combine(combined, crc64(piece), len(piece))

    assert expected == streamed
    assert expected == combined


@given(size_bytes=st.integers(0, 4000), block_bytes=st.integers(1, 5000))
def test_blocks_have_the_value_of_the_whole(size_bytes: int, block_bytes: int) -> None:
    """What the catalog keeps of each block is enough for the value of the file; both ways keep the same bytes."""
    data = MESSAGE[:size_bytes]
    packed = crc64_native.digest_blocks(data, block_bytes)

    assert packed == crc64_standin.digest_blocks(data, block_bytes)
    assert checksums.crc64nvme(data) == crc64_native.combine_blocks(packed, block_bytes, size_bytes)
    assert checksums.crc64nvme(data) == crc64_standin.combine_blocks(packed, block_bytes, size_bytes)
    if data:
        assert packed[:8] == checksums.crc64nvme(data[:block_bytes]).to_bytes(8, "big")


def test_combining_agrees_over_lengths_that_nobody_hashes() -> None:
    """Both ways shift a value by the same power, also by that of petabytes; so does Amazon's library."""
    choices = random.Random(5)
    for _ in range(20):
        first, second, length = choices.getrandbits(64), choices.getrandbits(64), choices.getrandbits(60)
        expected = checksums.combine_crc64nvme(first, second, length)

        assert expected == crc64_native.combine(first, second, length)
        assert expected == crc64_standin.combine(first, second, length)


@pytest.mark.parametrize("combine_blocks", [crc64_native.combine_blocks, crc64_standin.combine_blocks])
def test_blocks_of_another_file_are_refused(combine_blocks: Callable[[bytes, int, int], int]) -> None:
    """One block too few, one too many, or none of any size, is a mistake of the caller and no value."""
    packed = crc64_native.digest_blocks(MESSAGE, 1000)
    for count, block_bytes, size_bytes in ((8, 1000, 9000), (9, 1000, 9001), (9, 1000, 8000), (9, 0, 9000)):
        with pytest.raises(ValueError, match="block"):
            combine_blocks(packed[: 8 * count], block_bytes, size_bytes)


@pytest.mark.parametrize("digest_blocks", [crc64_native.digest_blocks, crc64_standin.digest_blocks])
def test_blocks_without_bytes_are_refused(digest_blocks: Callable[[bytes, int], bytes]) -> None:
    """No number of such blocks makes a file."""
    with pytest.raises(ValueError, match="block"):
        digest_blocks(MESSAGE, 0)


@pytest.mark.parametrize("crc64", [crc64_native.crc64, crc64_standin.crc64])
def test_any_buffer_is_taken(crc64: Callable[[object], int]) -> None:
    """Buffers that are no bytes are hashed as they lie in memory; text and what has gaps is refused."""
    expected = checksums.crc64nvme(MESSAGE[:800])

    for buffer in (bytearray(MESSAGE[:800]), memoryview(MESSAGE)[:800], array.array("Q", MESSAGE[:800])):
        assert expected == crc64(buffer)
    with pytest.raises(TypeError):
        crc64("text")


def test_path_that_is_limited_computes(path: str) -> None:
    """The mask decides which path computes, as far as the machine has it."""
    feature = {"table": 0, "clmul": lib.CRC64_FEATURE_CLMUL, "vclmul": lib.CRC64_FEATURE_VCLMUL}[path]

    if lib.crc64_features() & feature == feature:
        assert crc64_native.get_path() == path


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("off", "python"), ("scalar", "table"), ("nonsense", chosen.find_path()), ("", chosen.find_path())],
)
def test_environment_decides_what_computes(setting: str, expected: str) -> None:
    """INTEGRITY_NATIVE switches the C core off for CRC-64, too, or keeps it from wide paths; other words do nothing."""
    script = "from integrity.hashing import crc64; print(crc64.find_path(), hex(crc64.crc64(b'123456789')))"
    environment = {**os.environ, "INTEGRITY_NATIVE": setting}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)

    assert done.stdout.split() == [expected, "0xae8b14860a799888"]


def test_c_core_is_what_is_chosen() -> None:
    """Where the extension is built, it computes."""
    assert chosen.crc64 is crc64_native.crc64
    assert chosen.find_path() == crc64_native.get_path()
