"""Which paths of listings are refused."""

from __future__ import annotations

import pytest

from integrity.copies.filenames import LONGEST_PATH_BYTES, find_fault, is_below


@pytest.mark.parametrize(
    "path",
    [
        b"",
        b"/",
        b"/etc/passwd",
        b"//a",
        b"..",
        b"../a",
        b"a/..",
        b"a/../b",
        b"a//b",
        b"a/",
        b".",
        b"./a",
        b"a/.",
        b"a/./b",
        b"a\0b",
        b"x" * (LONGEST_PATH_BYTES + 1),
    ],
)
def test_path_that_could_mean_another_file_is_refused(path):
    """Only what means one file below the copy, and under this spelling alone, is taken."""
    assert find_fault(path) is not None


@pytest.mark.parametrize("path", [b"a", b"...", b"..a", b"a..", b"a/..b/c", b".a/.b", b"a./b.", b"\xff\n\\", b"-rf"])
def test_odd_but_harmless_path_is_taken(path):
    """Dots within names and odd bytes are names like others."""
    assert find_fault(path) is None


def test_below_means_whole_names():
    """``a/b`` is a folder, not the beginning of a name."""
    assert is_below(b"a/b/c", b"a/b")
    assert is_below(b"a/b", b"a/b")
    assert is_below(b"a", b"")
    assert not is_below(b"a/bc", b"a/b")
    assert not is_below(b"a", b"a/b")
