"""Files that digest what goes through them, against md5sum, and messages and files digested in one call."""

from __future__ import annotations

import io
import os
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integrity.hashing import HashingReader, HashingWriter, md5_file, md5_many
from support.expected import expect_md5
from support.machine import need_programs

DATA = bytes(i * 7 % 251 for i in range(70_000))
GIB = 1 << 30


class Stingy(io.RawIOBase):
    """A raw file that gives and takes little at a time."""

    def __init__(self, data: bytes = b"", most: int = 7) -> None:
        self.data = bytearray(data)
        self._most = most

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        count = min(self._most, len(buffer), len(self.data))
        buffer[:count] = self.data[:count]
        del self.data[:count]
        return count

    def write(self, data) -> int:
        count = min(self._most, len(data))
        self.data += data[:count]
        return count


@given(cuts=st.lists(st.integers(0, len(DATA)), max_size=8))
def test_digest_so_far_at_any_point(cuts: list[int]) -> None:
    """After each read the digest is of all that was read."""
    with HashingReader(io.BytesIO(DATA)) as reader:
        for begin, end in pairwise(sorted([0, *cuts, len(DATA)])):
            assert DATA[begin:end] == reader.read(end - begin)
            assert expect_md5(DATA[:end]) == reader.md5.digest()
        assert b"" == reader.read()
        assert expect_md5(DATA) == reader.md5.digest()


def test_every_way_to_read_is_digested(tmp_path: Path) -> None:
    """Lines, parts, buffers, iteration: what came out went through the digest."""
    (tmp_path / "f").write_bytes(b"line\nother line\n" + DATA)
    with HashingReader((tmp_path / "f").open("rb")) as reader:
        got = reader.readline()
        got += reader.readline(3)
        got += reader.read1(5)
        buffer = bytearray(100)
        got += buffer[: reader.readinto(buffer)]
        got += next(reader)
        got += reader.read(10)
        assert expect_md5(got) == reader.md5.digest()
        got += b"".join(reader)
        assert expect_md5(got) == reader.md5.digest()

    assert (tmp_path / "f").read_bytes() == got


def test_short_reads_and_writes_are_digested_as_they_are() -> None:
    """Only what was really read or taken counts."""
    reader = HashingReader(Stingy(DATA[:100]))
    assert 7 == len(reader.read(50))
    assert expect_md5(DATA[:7]) == reader.md5.digest()
    writer = HashingWriter(Stingy())
    assert 7 == writer.write(DATA[:50])
    assert expect_md5(DATA[:7]) == writer.md5.digest()


def test_written_bytes_are_digested(tmp_path: Path) -> None:
    """Any buffer can be written; the file holds what was digested."""
    with HashingWriter((tmp_path / "f").open("wb")) as writer:
        writer.write(DATA)
        writer.write(memoryview(DATA)[5:50])
        writer.flush()
        digest = writer.md5.digest()

    assert expect_md5((tmp_path / "f").read_bytes()) == digest == md5_file(tmp_path / "f")


def test_closing_closes_the_file(tmp_path: Path) -> None:
    """Once is enough, twice is allowed; then nothing can be read or written."""
    for stream in (HashingReader(io.BytesIO(b"x")), HashingWriter(io.BytesIO())):
        stream.close()
        stream.close()
        with pytest.raises(ValueError, match="closed"):
            stream.read() if stream.readable() else stream.write(b"x")


@given(messages=st.lists(st.binary(max_size=300), max_size=80))
def test_many_messages(messages: list[bytes]) -> None:
    """Whatever their number and lengths, in order; any iterable of buffers will do."""
    assert [expect_md5(message) for message in messages] == md5_many(messages)
    assert [expect_md5(message) for message in messages] == md5_many(memoryview(message) for message in messages)


def test_file_is_digested_by_any_kind_of_path(tmp_path: Path) -> None:
    """Text, bytes, path objects; a missing file is an OSError."""
    path = tmp_path / "f"
    path.write_bytes(DATA * 40)
    digest = expect_md5(DATA * 40)

    assert [digest] * 3 == [md5_file(path), md5_file(str(path)), md5_file(os.fsencode(path))]
    with pytest.raises(FileNotFoundError):
        md5_file(tmp_path / "gone")


@pytest.mark.parametrize("least_bytes", [GIB // 16, pytest.param(4 * GIB, marks=pytest.mark.long)])
def test_much_goes_through_as_through_md5sum(tmp_path: Path, least_bytes: int) -> None:
    """Random data, through a reader, a writer and md5sum at the same time."""
    need_programs("md5sum")
    chunk = memoryview(os.urandom(64 << 20))
    sizes = [1 << 20, (1 << 20) + 1, 4096, 777, 8 << 20]
    with subprocess.Popen(["md5sum"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as md5sum:
        assert md5sum.stdin is not None
        assert md5sum.stdout is not None
        writer = HashingWriter(md5sum.stdin)
        total = 0
        while total <= least_bytes:
            with HashingReader(io.BytesIO(chunk)) as reader:
                size = sizes[total % len(sizes)]
                while data := reader.read(size):
                    writer.write(data)
                    total += len(data)
                assert md5_many([chunk]) == [reader.md5.digest()]
            chunk = chunk[1:]
        digest = writer.md5.hexdigest()
        writer.close()
        said = md5sum.stdout.read().split()[0].decode()

    assert said == digest
