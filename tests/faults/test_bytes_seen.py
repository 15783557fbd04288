"""What damaged bytes look like stands in the finding about them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.bitrot import drop_cache, get_positions, overwrite_at
from support.cli import Box
from support.loopfs import LoopFS

MIB = 1 << 20
_MARK = "Seen in the data: "


def scrub_one(integrity: Box, root: Path) -> str:
    """Scrub a folder with one damaged file, and return what is seen in its data; empty if nothing is."""
    result = integrity.run("--json", "scrub", root)
    (finding,) = result.findings
    assert 1 == result.code
    return str(finding["message"]).partition(_MARK)[2]


def rewrite(path: Path, *pieces: tuple[int, bytes], size: int | None = None) -> None:
    """Write into a file, or cut it, and restore its times: only its ctime shows it."""
    before = path.stat()
    with path.open("r+b") as file:
        for offset, data in pieces:
            file.seek(offset)
            file.write(data)
        if size is not None:
            file.truncate(size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def root(tmp_path: Path, integrity: Box) -> Path:
    """A recorded folder with a file of several blocks and a small one."""
    root = tmp_path / "photos"
    root.mkdir()
    (root / "film.mkv").write_bytes(os.urandom(5 * MIB + 12_345))
    (root / "photo.jpg").write_bytes(os.urandom(200_000))
    os.sync()
    assert 0 == integrity.run("scan", root).code
    return root


@pytest.mark.root
def test_lost_block_below_the_file_system(ext4: LoopFS, integrity: Box) -> None:
    """A block that reads as zeros is told with its place, in rot."""
    folder = Path(os.fsdecode(ext4.mnt)) / "photos"
    folder.mkdir()
    film = folder / "film.mkv"
    film.write_bytes(os.urandom(3 * MIB))
    os.sync()
    assert 0 == integrity.run("scan", folder).code
    overwrite_at(get_positions(film, MIB + 8192)[0], bytes(4096))
    drop_cache(film)

    result = integrity.run("--json", "scrub", folder)

    (finding,) = result.findings
    assert "rot" == finding["kind"]
    assert (
        "The damaged part has a run of zeros, 4 KiB long, from byte 1,056,768 on: perhaps a block that was never"
        " written, or was lost."
    ) == str(finding["message"]).partition(_MARK)[2]


def test_run_over_two_blocks_of_the_catalog(root: Path, integrity: Box) -> None:
    """A run that goes on in the next damaged block is one run."""
    rewrite(root / "film.mkv", (2 * MIB - 65_536, b"\xff" * 131_072))

    assert "The damaged part has a run of the byte 0xff, 128 KiB long, from byte 2,031,616 on." == scrub_one(
        integrity, root
    )


def test_lost_block_in_a_small_file(root: Path, integrity: Box) -> None:
    """A file of one block has its runs told, too."""
    rewrite(root / "photo.jpg", (4096, bytes(8192)))

    assert "The damaged part has a run of zeros, 8 KiB long, from byte 4,096 on: perhaps a block that" in scrub_one(
        integrity, root
    )


def test_file_that_was_cut_off(root: Path, integrity: Box) -> None:
    """A file that became shorter, with its old times, is told with both sizes."""
    rewrite(root / "film.mkv", size=3 * MIB + 7)

    assert f"The file ends after {3 * MIB + 7:,} of {5 * MIB + 12_345:,} bytes." == scrub_one(integrity, root)


def test_flipped_bit_shows_nothing_by_itself(root: Path, integrity: Box) -> None:
    """Without the right bytes nothing is said of a flipped bit, or of random data."""
    film = root / "film.mkv"
    byte = film.read_bytes()[MIB]
    rewrite(film, (MIB, bytes([byte ^ 1])), (3 * MIB + 100, os.urandom(5000)))

    assert not scrub_one(integrity, root)
