"""Which of many folders a path lies in."""

from __future__ import annotations

import pytest

from integrity.jobs.targets import find_enclosing, is_inside

_FOLDERS = (b"", b"a", b"a/b", b"a/b/c", b"ab", b"b/c", b"\xff/d")
_PATHS = (b"", b"a", b"a/b", b"a/bc", b"a/b/c/d/e", b"ab/c", b"abc", b"b", b"b/c", b"\xff/d/e", b"\xff/de")


@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize("folder", _FOLDERS)
def test_folder_of_a_path_is_found_as_if_each_were_looked_at(path: bytes, folder: bytes) -> None:
    """A name that only begins like a folder's does not lie in it; everything lies in the root."""
    assert is_inside(path, folder) is (find_enclosing(path, {folder, b"elsewhere"}) == folder)


def test_innermost_folder_is_found() -> None:
    """Of several folders around a path the nearest one is named; none of them around it is None."""
    assert b"a/b" == find_enclosing(b"a/b/c", {b"", b"a", b"a/b"})
    assert find_enclosing(b"x/y", {b"a", b"x/y/z"}) is None
