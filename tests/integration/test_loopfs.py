"""The file systems of tests: a test that fails is told by its own failure."""

from __future__ import annotations

import shutil

import pytest

from support.loopfs import LoopFS

pytestmark = pytest.mark.root


def leave_a_file(loop: LoopFS, error: Exception | None = None) -> None:
    """Use a file system, and leave a file below its mount point."""
    with loop:
        loop.umount()
        (loop.folder / "left").write_text("x")
        if error is not None:
            raise error


def test_failure_is_not_hidden_by_what_the_test_left_behind() -> None:
    """Files below the mount point keep the folder from being removed; the failure says so in a note."""
    loop = LoopFS("ext4")
    with pytest.raises(ValueError, match="the test's own") as failure:
        leave_a_file(loop, ValueError("the test's own"))

    assert ["not removed" in note for note in failure.value.__notes__] == [True]
    shutil.rmtree(loop.folder.parent)


def test_what_is_left_behind_by_a_good_test_is_an_error() -> None:
    """Nothing else would show it."""
    loop = LoopFS("ext4")
    with pytest.raises(OSError, match="not empty"):
        leave_a_file(loop)

    shutil.rmtree(loop.folder.parent)
