"""The CRC that S3 keeps of whole objects is kept of each file that is recorded, and of each of its blocks."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from integrity.catalog.db import Connection
from support.cli import Box
from support.expected import expect_blocks, expect_crc64nvme, expect_crc64nvme_of
from support.planted import age
from support.results import tallies
from support.shapes import put_sparse
from support.stored import query

KIB = 1 << 10
MIB = 1 << 20
BLOCK = 64 * KIB
SIZES = (0, 1, 511, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 10 * BLOCK, MIB + 12_345, 9 * MIB, 20 * MIB + 1)


@pytest.fixture
def data(integrity: Box, tmp_path: Path) -> Path:
    """Make a folder with files of all kinds of sizes, and have small blocks."""
    folder = tmp_path / "data"
    folder.mkdir()
    for size in SIZES:
        (folder / str(size)).write_bytes(os.urandom(size))
    put_sparse(folder / "holes", 3 * MIB + 7, [(100_000, b"x" * 70_000), (2 * MIB, b"y")])
    age(folder / "holes")
    integrity.configure(f'[[root]]\npath = "{folder}"\nblock_size = "64KiB"\n')
    return folder


def kept(integrity: Box) -> dict[str, tuple[bytes | None, bytes]]:
    """Give what is kept of each file: its CRC and those of its blocks."""
    with closing(Connection(bytes(integrity.catalog), "mode=ro")) as c:
        found = {}
        for file_id, version, name, crc64nvme in c.rows("SELECT id, version, CAST(name AS TEXT), crc64nvme FROM file"):
            rows = c.rows(
                "SELECT crc64nvme, block_count FROM block_run WHERE file_id = ? AND version = ? ORDER BY run",
                file_id,
                version,
            )
            blocks = b"".join(crcs * (count if len(crcs) == 8 else 1) for crcs, count in rows)
            found[name] = crc64nvme, blocks
        return found


def expected(folder: Path) -> dict[str, tuple[bytes | None, bytes]]:
    contents = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {
        name: (
            expect_crc64nvme(content),
            expect_blocks(content, BLOCK).crc64nvme if len(content) > BLOCK else b"",
        )
        for name, content in contents.items()
    }


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_every_file_is_recorded_with_its_crc(integrity: Box, data: Path, jobs: str) -> None:
    """Of any size, with holes or without, by one thread or more; nothing that follows takes it away."""
    integrity.run("scan", "--jobs", jobs, expect=0)
    assert expected(data) == kept(integrity)
    integrity.run("scrub", expect=0)
    integrity.run("scan", "--full", expect=0)
    assert expected(data) == kept(integrity)
    assert 0 == integrity.run("catalog", "check").code


def test_files_read_from_the_disk_have_it_as_well(integrity: Box, data: Path) -> None:
    """What a scrub records, what it finds changed, and what a person accepts."""
    (data.parent / "empty").mkdir()
    integrity.run("scan", data.parent / "empty", expect=0)
    integrity.run("scrub", data, expect=0)
    assert expected(data) == kept(integrity)
    for name in ("4096", str(9 * MIB)):
        (data / name).write_bytes(os.urandom(3 * MIB))
    age(data / "4096")
    assert 2 == tallies(integrity.run("--json", "scrub", "--no-scan"))["changed"]
    (data / "511").write_bytes(b"now that")
    integrity.run("accept", data / "511", "--reason", "mine", expect=0)
    assert expected(data) == kept(integrity)


def test_history_and_moves_keep_it(integrity: Box, data: Path) -> None:
    """The CRC of a former baseline stays with it, that of a moved file goes with the file."""
    integrity.run("scan", expect=0)
    before = expected(data)
    (data / "4096").write_bytes(b"edited")
    (data / "1").unlink()
    (data / str(9 * MIB)).rename(data / "moved")
    age(data / "4096")
    integrity.run("scan", expect=0)

    assert expected(data) == kept(integrity)
    former = dict(query(integrity, "SELECT CAST(path AS TEXT), crc64nvme FROM version"))
    assert {name: before[name][0] for name in ("4096", "1")} == {name: former[name] for name in ("4096", "1")}


@pytest.mark.long
def test_sparse_file_of_which_nothing_else_is_had_has_it(integrity: Box, tmp_path: Path) -> None:
    """Of a file that is nearly all holes the whole is not digested; its CRC comes from those of its blocks."""
    folder = tmp_path / "sparse"
    folder.mkdir()
    put_sparse(folder / "disk.img", 3 * 1024 * MIB, [(5 * MIB, b"x" * 5000)])
    age(folder / "disk.img")
    integrity.run("scan", folder, expect=0)
    ((md5, crc64nvme),) = query(integrity, "SELECT md5, crc64nvme FROM file")

    assert (None, expect_crc64nvme_of(folder / "disk.img")) == (md5, crc64nvme)


def test_recorded_without_the_c_core_is_recorded_without_it(integrity: Box, data: Path) -> None:
    """A thousandth of the speed is too little; what has no CRC is as well otherwise, and stays so until it changes."""
    integrity.run("scan", expect=0, env={"INTEGRITY_NATIVE": "off"})
    assert {(None, b"")} == set(kept(integrity).values())
    integrity.run("scrub", "--deep", expect=0)
    integrity.run("scan", "--full", expect=0)
    assert {(None, b"")} == set(kept(integrity).values())
    (data / "1").write_bytes(b"edited")
    age(data / "1")
    integrity.run("scan", expect=0)

    assert (expect_crc64nvme(b"edited"), b"") == kept(integrity)["1"]
    assert (None, b"") == kept(integrity)["511"]
    assert 0 == integrity.run("catalog", "check").code
