"""Folders that are made for a file that is to be put back: on real file systems, whatever stands in their way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.files.opening import open_root
from integrity.jobs.repairing.parents import NewFolder, find_gone_folders, making_folders
from support.machine import need_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a folder."""
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def fd(root: Path) -> Iterator[int]:
    """Open it."""
    opened = open_root(os.fsencode(root))
    yield opened
    os.close(opened)


def test_what_is_gone_is_listed_from_outside_in(root: Path, fd: int) -> None:
    """What is there is not; a file at the top has no folder that could be gone."""
    (root / "a").mkdir()

    assert [b"a/b", b"a/b/c"] == find_gone_folders(fd, b"a/b/c/file")
    assert [] == find_gone_folders(fd, b"a/file") == find_gone_folders(fd, b"file")


@pytest.mark.parametrize("what", ["file", "link", "loop"])
@pytest.mark.parametrize("path", [b"a/file", b"a/b/c/file"])
def test_what_stands_in_the_way_is_an_error(root: Path, fd: int, tmp_path: Path, what: str, path: bytes) -> None:
    """A file, and a symbolic link, wherever it leads: nothing outside of the root is made or looked at."""
    (tmp_path / "elsewhere").mkdir()
    if what == "file":
        (root / "a").write_bytes(b"")
    else:
        (root / "a").symlink_to("a" if what == "loop" else tmp_path / "elsewhere")

    with pytest.raises(OSError):
        find_gone_folders(fd, path)
    with pytest.raises(OSError), making_folders(fd, [NewFolder(b"a/b", None)]):
        pass
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_folder_gets_the_copys_bits_or_those_of_where_it_lies(root: Path, fd: int) -> None:
    """Whatever the umask; the group of a folder that hands its own down is handed down."""
    root.chmod(0o2750)
    with making_folders(fd, [NewFolder(b"a", 0o711), NewFolder(b"a/b", None), NewFolder(b"c", None)]):
        pass

    assert [0o42711, 0o42711, 0o42750] == [(root / name).stat().st_mode for name in ("a", "a/b", "c")]


def test_folder_gets_the_owner_of_where_it_lies(root: Path, fd: int) -> None:
    """A repair by root leaves nothing that its owner can't use."""
    need_root()
    os.chown(root, 12345, 54321)
    with making_folders(fd, [NewFolder(b"a", None), NewFolder(b"a/b", None)]):
        pass

    assert [(12345, 54321)] * 2 == [
        (found.st_uid, found.st_gid) for found in ((root / name).stat() for name in ("a", "a/b"))
    ]


def test_folders_are_taken_away_if_what_is_done_in_them_fails(root: Path, fd: int) -> None:
    """But one that somebody else has made, or put something into, stays."""
    folders = [NewFolder(name, None) for name in (b"a", b"a/b", b"full", b"full/c", b"there")]
    (root / "there").mkdir()

    def fail() -> None:
        with making_folders(fd, folders):
            (root / "full/somebody's").write_bytes(b"")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert {"full", "full/somebody's", "there"} == {str(path.relative_to(root)) for path in root.rglob("*")}
