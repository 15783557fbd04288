"""Large files beside each other: whatever files there are and whenever they halt, digests are those of the bytes."""

from __future__ import annotations

import errno
import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import xxhash
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integrity._native import lib
from integrity.errors import NativeError
from integrity.hashing.digests import Want, combine_crc64nvme, want_to_record
from integrity.hashing.large_batch import LargeBatch
from integrity.model import Blocks
from support.expected import expect_blocks, expect_crc64nvme

CONTENT = random.Random(7).randbytes(2 << 20)
WANT = want_to_record(blake3=False)
NO_END = (1 << 63) - 1
BORDERS = [0, 1, 63, 64, 65, 4095, 65535, 65536, 65537, 131071, 131072, 131073, 1 << 20]
sizes = st.sampled_from(BORDERS) | st.integers(0, 700_000)


def put(folder: Path, content: bytes) -> int:
    """Write a file and open it; whoever calls closes it."""
    path = folder / "file"
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    return os.open(path, os.O_RDONLY)


def join(parts: list[Blocks], size: int) -> Blocks:
    """Put the blocks together that were taken one after the other."""
    return Blocks(
        size,
        b"".join(part.xxh3_128 for part in parts),
        b"".join(part.md5 for part in parts),
        b"".join(part.crc64nvme for part in parts),
    )


@pytest.fixture
def _with_all_paths() -> Iterator[None]:
    """Lift the restriction that a test puts on the paths of the C core."""
    yield
    lib.md5_set_feature_mask(lib.MD5_FEATURES_ALL)


@pytest.mark.usefixtures("_with_all_paths")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    paths=st.sampled_from([0, lib.MD5_FEATURES_ALL]),
    files=st.lists(st.tuples(st.integers(0, 1000), sizes), max_size=12),
    block_size=st.sampled_from([65536, 131072, 1 << 20]),
    most=st.integers(1, 5),
    halts=st.randoms(use_true_random=False),
)
def test_each_file_gets_its_own_digests(
    tmp_path: Path, paths: int, files: list[tuple[int, int]], block_size: int, most: int, halts: random.Random
) -> None:
    """Of files of any length, some of which halt now and then, each has what it would have alone, on any path."""
    lib.md5_set_feature_mask(paths)
    batch: LargeBatch[int] = LargeBatch(memoryview(bytearray(1 << 20)), most)
    contents = [CONTENT[start : start + size] for start, size in files]
    taken: list[list[Blocks]] = [[] for _ in files]
    fds = [put(tmp_path, content) for content in contents]
    waiting = list(range(len(files)))
    ended = set()
    while waiting or batch.under_way:
        while waiting and batch.room:
            number = waiting.pop()
            batch.begin(number, fds[number], WANT, end=len(contents[number]), block_bytes=block_size)
        for file in batch.under_way.values():
            if halts.random() < 0.5:
                file.halt()
        for file in batch.run():
            blocks = file.take_blocks()
            assert blocks is not None
            taken[file.owner].append(blocks)
            if file.is_halted:
                assert file.position % block_size == 0
                file.resume_reading()
                continue
            content, whole = contents[file.owner], join(taken[file.owner], block_size)
            assert (len(content), None) == (file.position, file.error)
            assert (hashlib.md5(content).digest(), xxhash.xxh3_128_digest(content)) == (file.md5, file.xxh3_128)
            assert expect_blocks(content, block_size) == whole
            assert (expect_crc64nvme(content) if content else None) == combine_crc64nvme(whole, len(content))
            ended.add(file.owner)
            batch.release(file)
    for fd in fds:
        os.close(fd)
    assert set(range(len(files))) == ended


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    """Nothing is digested from a state that is none."""
    fd = put(tmp_path, CONTENT)
    batch: LargeBatch[None] = LargeBatch(memoryview(bytearray(1 << 20)), 2)
    with pytest.raises(NativeError, match="saved MD5 state"):
        batch.begin(None, fd, WANT, end=len(CONTENT), block_bytes=65536, start=65536, md5_state=b"none")
    os.close(fd)
    assert (2, {}) == (batch.room, batch.under_way)


def test_more_blocks_than_there_is_room_for_halt_the_file(tmp_path: Path) -> None:
    """They are taken in parts, so that memory does not grow with the file."""
    content = random.Random(3).randbytes(65536) * 2500
    fd = put(tmp_path, content)
    batch: LargeBatch[None] = LargeBatch(memoryview(bytearray(1 << 20)), 2)
    file = batch.begin(None, fd, WANT, end=len(content), block_bytes=65536)
    parts: list[Blocks] = []
    while file.is_active:
        if batch.run():
            blocks = file.take_blocks()
            assert blocks is not None
            parts.append(blocks)
            if file.is_halted:
                file.resume_reading()
    os.close(fd)

    assert [1024, 1024, 452] == [len(part) for part in parts]
    assert expect_blocks(content, 65536) == join(parts, 65536)
    assert hashlib.md5(content).digest() == file.md5


def test_whole_files_without_blocks_and_without_a_known_end(tmp_path: Path) -> None:
    """As ``sum`` reads them: to the end, wherever it is; and what fails tells its error number."""
    folder = os.open(tmp_path, os.O_RDONLY)
    fds = {size: put(tmp_path, CONTENT[:size]) for size in BORDERS}
    batch: LargeBatch[int] = LargeBatch(memoryview(bytearray(4 << 20)), 20)
    for size, fd in fds.items():
        batch.begin(size, fd, Want(md5=True), end=NO_END, block_bytes=1 << 20)
    batch.begin(-1, folder, Want(md5=True), end=NO_END, block_bytes=1 << 20)
    found = {}
    while batch.under_way:
        for file in batch.run():
            batch.release(file)
            found[file.owner] = (file.position, file.md5, file.xxh3_128, file.error)
    for fd in (folder, *fds.values()):
        os.close(fd)

    assert errno.EISDIR == found.pop(-1)[3]
    assert {size: (size, hashlib.md5(CONTENT[:size]).digest(), None, None) for size in BORDERS} == found


def test_what_is_dropped_makes_room(tmp_path: Path) -> None:
    """Files that nobody needs any more are in nobody's way, wherever they stood."""
    fd = put(tmp_path, CONTENT * 20)
    batch: LargeBatch[int] = LargeBatch(memoryview(bytearray(1 << 20)), 3)
    for number in range(3):
        batch.begin(number, fd, WANT, end=NO_END, block_bytes=1 << 20).halt()
    batch.run()
    batch.drop_all()
    assert (3, {}) == (batch.room, batch.under_way)
    file = batch.begin(9, fd, WANT, end=100, block_bytes=65536)
    while file.is_active:
        batch.run()
    os.close(fd)

    assert hashlib.md5(CONTENT[:100]).digest() == file.md5
