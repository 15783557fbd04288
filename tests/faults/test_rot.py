"""Real bits flipped on real file systems, every stat field unchanged: rot, and nothing but rot."""

from __future__ import annotations

import os

import pytest

from support.bitrot import drop_cache, flip_bit, identity
from support.cli import Box
from support.loopfs import LoopFS

pytestmark = pytest.mark.root

MIB = 1 << 20


def make_tree(fs: LoopFS) -> str:
    root = os.path.join(os.fsdecode(fs.mnt), "photos")
    os.makedirs(os.path.join(root, "2024"))
    for number in range(8):
        with open(os.path.join(root, "2024", f"{number}.jpg"), "wb") as file:
            file.write(os.urandom(300_000 + number))
    with open(os.path.join(root, "film.mkv"), "wb") as file:
        file.write(os.urandom(20 * MIB + 12_345))
    os.sync()
    return root


def test_flipped_bit_is_rot_with_the_right_block(each_fs: LoopFS, integrity: Box) -> None:
    """A flip under a mounted file system is found in its block, proven, and confirmed twice; btrfs finds it itself."""
    root = make_tree(each_fs)
    film = os.path.join(root, "film.mkv")
    assert 0 == integrity.run("scan", root).code
    assert 0 == integrity.run("scrub", root).code
    with open(film, "rb") as file:
        file.read()  # now all of it is in memory, as it was before the damage
    before = identity(film)
    flip_bit(film, 17 * MIB + 4321, 3)

    result = integrity.run("--json", "scrub", root)

    assert before == identity(film)
    (finding,) = result.findings
    if each_fs.fs_type == "btrfs":  # its own checksums turn rot into a read error
        assert (3, "unreadable") == (result.code, finding["kind"])
        return
    assert 1 == result.code
    assert ("rot", "proven", film, [17]) == tuple(finding[key] for key in ("kind", "certainty", "path", "blocks"))
    assert [[17 * MIB, MIB]] == finding["ranges"]
    assert 2 == finding["confirmed_reads"]
    assert (8, 1) == (result.summary["files_verified"], result.summary["files_damaged"])
    drop_cache(film)
    again = integrity.run("--json", "scrub", root)
    assert (1, [finding["id"]]) == (again.code, [one["id"] for one in again.findings])
    assert 0 == integrity.run("scan", root).code
    assert 1 == integrity.run("status").code


def test_small_rotten_file_next_to_an_edited_one(ext4: LoopFS, integrity: Box) -> None:
    """Only the flipped file is damaged; the edited one is a change, the deleted one missing, the new one verified."""
    root = make_tree(ext4)
    assert 0 == integrity.run("scan", root).code
    folder = os.path.join(root, "2024")
    flip_bit(os.path.join(folder, "3.jpg"), 200_000, 0)
    with open(os.path.join(folder, "4.jpg"), "ab") as file:
        file.write(b"edited")
    os.unlink(os.path.join(folder, "5.jpg"))
    with open(os.path.join(folder, "new.jpg"), "wb") as file:
        file.write(b"new")

    result = integrity.run("--json", "scrub", root)

    assert 1 == result.code
    assert [("rot", os.path.join(folder, "3.jpg"))] == [(one["kind"], one["path"]) for one in result.findings]
    counts = {key: value for key, value in result.summary.items() if key.startswith("files_") and value}
    assert {
        "files_known": 10,
        "files_verified": 7,
        "files_changed": 1,
        "files_damaged": 1,
        "files_missing": 1,
    } == counts


def test_flip_that_is_put_right_resolves_the_finding(ext4: LoopFS, integrity: Box) -> None:
    """Good bytes read from the disk end the finding."""
    root = make_tree(ext4)
    film = os.path.join(root, "film.mkv")
    assert 0 == integrity.run("scan", root).code
    flip_bit(film, 5 * MIB, 1)
    assert 1 == integrity.run("scrub", root).code
    flip_bit(film, 5 * MIB, 1)

    assert 0 == integrity.run("scrub", root).code
    assert 0 == integrity.run("findings").code
