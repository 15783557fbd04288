"""Folders that are made for a file that is to be put back: on real file systems, whatever stands in their way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.files.open_beneath import open_root
from integrity.jobs.repair.exchange import NewFolder, find_gone_folders, making_folders
from support.machine import need_root


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


@pytest.mark.parametrize("what", ["full", "open to others", "another user's", "a link", "gone"])
def test_folder_that_is_exchanged_while_it_is_made_is_not_given_away(
    root: Path, fd: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whoever owns the folder that it lies in may do that between the making and the opening of it."""
    need_root()
    os.chown(root, 12345, 54321)
    other = root / "of root"
    other.mkdir(mode=0o755 if what == "open to others" else 0o700)
    if what == "full":
        (other / "secret").write_bytes(b"")
    elif what == "another user's":
        os.chown(other, 2000, 2000)
    elif what == "a link":
        other = other.rename(tmp_path / "of root")
    elif what == "gone":
        other.rmdir()
    before = other.stat() if other.exists() else None
    make = os.mkdir

    def make_and_exchange(name: bytes, mode: int, *, dir_fd: int) -> None:
        make(name, mode, dir_fd=dir_fd)
        os.rename(root / "new", root / "made")
        if what == "a link":
            (root / "new").symlink_to(other)
        elif what != "gone":
            other.rename(root / "new")

    monkeypatch.setattr(os, "mkdir", make_and_exchange)
    with pytest.raises(OSError, match="was exchanged by somebody"), making_folders(fd, [NewFolder(b"new", 0o755)]):
        pass
    after = (root / "new").stat() if before else None
    assert before is None or after is None or (before.st_uid, before.st_mode) == (after.st_uid, after.st_mode)


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
