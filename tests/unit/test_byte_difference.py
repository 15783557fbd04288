"""A file and its copy are read beside each other, as far as they may differ."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.copies.opening import open_copy
from integrity.copies.protocol import Copy
from integrity.files.capability import find_capability
from integrity.files.read import Reader
from integrity.files.span import ReadMode
from integrity.jobs.byte_pattern import ByteRun, Shape, Side
from integrity.jobs.compare.byte_difference import MOST_COMPARED_BYTES, find_byte_difference
from integrity.jobs.report import Stop

MIB = 1 << 20
GOOD = os.urandom(20 * MIB + 12_345)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """The folder with the file, which is good."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "film.mkv").write_bytes(GOOD)
    fd = os.open(root, os.O_RDONLY)
    yield Reader(fd, find_capability(fd, os.fsencode(root)), mode=ReadMode.DISK)
    os.close(fd)


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """The file of the copy, to be damaged."""
    folder = tmp_path / "backup"
    folder.mkdir()
    (folder / "film.mkv").write_bytes(GOOD)
    return folder / "film.mkv"


@pytest.fixture
def copy(backup: Path) -> Iterator[Copy]:
    """The open copy."""
    with open_copy(str(backup.parent)) as copy:
        yield copy


def put(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_whole_of_a_large_file_is_bounded(reader: Reader, backup: Path, copy: Copy) -> None:
    """Without known blocks the beginning is compared, which proves nothing of the rest; without a bound, all is."""
    put(backup, MOST_COMPARED_BYTES + 5 * 4096, bytes(4096))

    bounded = find_byte_difference(reader, b"film.mkv", copy, b"film.mkv", stop=Stop())
    whole = find_byte_difference(reader, b"film.mkv", copy, b"film.mkv", stop=Stop(), most_bytes=None)

    assert (None, False, False) == (bounded.shape, bounded.is_complete, bounded.are_equal)
    assert (Shape.FILL, Side.COPY) == (whole.shape, whole.side)
    assert (ByteRun(MOST_COMPARED_BYTES + 5 * 4096, 4096, 0),) == whole.runs


def test_known_to_differ_in_size_only(reader: Reader, backup: Path, copy: Copy) -> None:
    """Where all common blocks are known to be equal, a cut-off copy needs no reading."""
    os.truncate(backup, 7 * MIB)

    difference = find_byte_difference(reader, b"film.mkv", copy, b"film.mkv", (), stop=Stop())

    assert (Shape.CUT_OFF, Side.COPY, True) == (difference.shape, difference.side, difference.is_complete)
    assert (len(GOOD), 7 * MIB) == (difference.file_bytes, difference.copy_bytes)
