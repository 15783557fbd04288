"""A pace decides how much is read in one go, and is told of each read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.files.buffers import Buffers
from integrity.files.span import Pace, ReadMode
from support.reading import make_capability, read_all, reading

MIB = 1 << 20
PIECE_BYTES = 256 << 10


class Pieces(Pace):
    """Wants small pieces, and remembers what it is told."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.took_bytes: list[int] = []

    def piece_bytes(self) -> int:
        return PIECE_BYTES

    def take(self, size_bytes: int) -> None:
        assert len(self.taken) == len(self.took_bytes), "the last read has not been told"
        self.taken.append(size_bytes)

    def took(self, size_bytes: int, duration_s: float, reads: int = 1) -> None:
        assert duration_s >= 0
        self.took_bytes.append(size_bytes)


@pytest.mark.parametrize("has_direct_io", [True, False], ids=["direct", "buffered"])
@pytest.mark.parametrize("size_bytes", [3 * MIB + 10, PIECE_BYTES, 1, PIECE_BYTES + 1])
def test_pieces_of_the_wanted_size_make_the_whole(tmp_path: Path, has_direct_io: bool, size_bytes: int) -> None:
    """In order, none left out, none twice."""
    content = os.urandom(size_bytes)
    (tmp_path / "f").write_bytes(content)
    pace, buffers = Pieces(), Buffers(MIB, 2)
    capability = make_capability(has_direct_io=has_direct_io)
    with (
        reading(tmp_path, ReadMode.DISK, capability=capability, pace=pace) as reader,
        reader.open(b"f") as file,
    ):
        assert content == read_all(file, buffers)
        file.finish()

    assert pace.taken == pace.took_bytes
    assert all(taken <= PIECE_BYTES for taken in pace.taken)
    assert size_bytes == sum(pace.taken)
