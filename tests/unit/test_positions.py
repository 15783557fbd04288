"""Where files begin on their disk: the C core finds for many what is found for each."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.files.block_devices import find_in_batch, find_positions
from support.loopfs import LoopFS
from support.reading import opened_root


@pytest.mark.root
def test_both_ways_find_the_same(each_fs: LoopFS, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files with and without bytes on the disk, and of what is no file or not there."""
    folder = Path(os.fsdecode(each_fs.mnt))
    for number in range(250):
        (folder / f"f{number:03}").write_bytes(os.urandom(5000 * (number % 3)))
    (folder / "link").symlink_to("f001")
    os.mkfifo(folder / "fifo")
    with open(folder / "hole", "wb") as file:
        file.truncate(1 << 20)
    os.sync()
    paths = [os.fsencode(name) for name in sorted(os.listdir(folder))] + [b"gone", b"../f001", b"x" * 5000]

    with opened_root(folder) as root:
        batch = find_positions(root, paths, lambda: False)
        monkeypatch.setenv("INTEGRITY_NATIVE", "off")
        singly = find_positions(root, paths, lambda: False)

    assert batch == singly
    assert len(set(batch)) > 100 or each_fs.fs_type == "btrfs"


def test_odd_names_are_nowhere(tmp_path: Path) -> None:
    """A path with a NUL byte is that of no file, and of no other one."""
    with opened_root(tmp_path) as root:
        assert find_in_batch(root, [b"a\0b", b""]) == [0, 0]


def test_run_that_ends_looks_at_no_more(tmp_path: Path) -> None:
    """The rest is nowhere."""
    with opened_root(tmp_path) as root:
        assert find_positions(root, [b"f"] * 500, lambda: True) == [0] * 500
