"""Folders far below a root: all are listed, and opening one does not cost what all above it cost."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.files.excludes import Excludes
from integrity.files.open_beneath import DeepFolders, open_root
from integrity.files.walk import walk
from support.proc import count_descriptors

DEPTH = 3000
FOLDER = os.O_RDONLY | os.O_DIRECTORY


@pytest.fixture
def comb(tmp_path: Path) -> Iterator[Path]:
    """Make a chain of folders, longer than any path may be, with another folder beside every hundredth."""
    root = tmp_path / "comb"
    root.mkdir()
    fd = os.open(root, FOLDER)
    for depth in range(DEPTH):
        os.mkdir("d", dir_fd=fd)
        if depth % 100 == 0:
            os.mkdir("beside", dir_fd=fd)
            os.close(os.open("beside/file", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
        deeper = os.open("d", FOLDER, dir_fd=fd)
        os.close(fd)
        fd = deeper
    os.close(fd)
    yield root
    subprocess.run(["rm", "-r", root], check=True)  # no recursion of Python reaches the end


def in_comb(depth: int, *names: str) -> bytes:
    return "/".join(["d"] * depth + [*names]).encode()


@pytest.mark.parametrize("native", ["", "off"])
def test_all_folders_of_a_comb_are_walked(comb: Path, monkeypatch: pytest.MonkeyPatch, native: str) -> None:
    """Depth first, into each tooth; nothing stays open."""
    monkeypatch.setenv("INTEGRITY_NATIVE", native)
    gc.collect()  # what earlier tests left open is closed before it is counted
    before = count_descriptors()
    root_fd = open_root(os.fsencode(comb))
    found = {one.folder: [seen.name for seen in one.files] for one in walk(root_fd, excludes=Excludes(()))}
    os.close(root_fd)

    teeth = {in_comb(depth, "beside") for depth in range(0, DEPTH, 100)}
    assert set(found) == {in_comb(depth) for depth in range(DEPTH + 1)} | teeth
    assert all((names == [b"file"]) == (folder in teeth) for folder, names in found.items())
    assert before == count_descriptors()


def test_folders_are_opened_in_any_order(comb: Path) -> None:
    """Deeper, back up and into another one; one that is gone is an error, and the next is found all the same."""
    root_fd = open_root(os.fsencode(comb))
    folders = DeepFolders(root_fd, FOLDER)
    for names in (in_comb(DEPTH), in_comb(2900, "beside"), in_comb(3), in_comb(1000, "beside"), in_comb(2999)):
        fd = folders.open(names)
        assert set(os.listdir(fd)) == (
            {"file"} if names.endswith(b"beside") else {"d"} if names != in_comb(DEPTH) else set()
        )
        os.close(fd)
    for gone in (in_comb(2000, "no"), in_comb(1500, "no", *["d"] * 1000)):
        with pytest.raises(OSError) as caught:
            folders.open(gone)
        assert caught.value.errno == errno.ENOENT
    os.close(folders.open(in_comb(2999)))
    folders.close()
    os.close(root_fd)
