import os
from pathlib import Path

import pytest

from integrity.files.mounts import find_mounts, find_mounts_beneath, get_mount, mount_of
from support.mounts import bound, hidden, small_tmpfs, vanish
from support.programs import sh
from support.reading import opened_root


def test_mount_of_a_path_is_the_mount_of_its_descriptor(tmp_path: Path) -> None:
    """The two ways to ask give the same answer, and it has the device number that stat says."""
    with opened_root(tmp_path) as fd:
        mount = get_mount(fd)

    assert mount == mount_of(os.fsencode(tmp_path))
    assert mount in find_mounts()
    assert mount.fs_type
    assert {"rw", "ro"} & mount.options


def test_mount_above_all_is_that_of_slash() -> None:
    """A path that nothing else is mounted above lies on the mount of the root folder."""
    assert mount_of(b"/").mount_point == b"/"
    assert mount_of(b"/no-such-folder-here").mount_point == b"/"


@pytest.mark.root
@pytest.mark.parametrize(
    "name", [b"space here", b"tab\there", b"line\nfeed", b"back\\slash", b"#hash", b"\xff", b"\\040"]
)
def test_odd_mount_point_is_read_back_as_it_is(tmp_path: Path, name: bytes) -> None:
    """What the kernel escapes in its list is undone, byte for byte."""
    point = os.path.join(os.fsencode(tmp_path), name)
    with small_tmpfs(point, 1 << 20):
        mount = mount_of(os.path.join(point, b"file"))

    assert (mount.mount_point, mount.fs_type, mount.source, mount.root) == (point, "tmpfs", "tmpfs", b"/")


@pytest.mark.root
def test_neighbour_with_a_longer_name_is_not_on_the_mount(tmp_path: Path) -> None:
    """A mount at .../disk says nothing about .../disk2."""
    (tmp_path / "disk2").mkdir()
    with small_tmpfs(tmp_path / "disk", 1 << 20):
        assert mount_of(os.fsencode(tmp_path / "disk2")) == mount_of(os.fsencode(tmp_path))
        assert mount_of(os.fsencode(tmp_path / "disk")).fs_type == "tmpfs"


@pytest.mark.root
def test_last_of_several_mounts_at_one_place_is_the_one_that_is_seen(tmp_path: Path) -> None:
    """A path leads to what was mounted last; a descriptor opened before stays with the mount below."""
    with small_tmpfs(tmp_path / "disk", 1 << 20) as point, opened_root(point) as fd:
        first = get_mount(fd)
        with hidden(point):
            second = mount_of(point)
            assert get_mount(fd) == first == find_mounts()[-2]
        assert second.mount_id != first.mount_id
        assert second.mount_point == first.mount_point == point


@pytest.mark.root
def test_bind_mount_is_another_mount_of_the_same_device(tmp_path: Path) -> None:
    """A bind mount shows which folder it shows, under the device number of the original."""
    for name in ("original", "view"):
        (tmp_path / name).mkdir()
    with bound(tmp_path / "original", tmp_path / "view"):
        view, original = (mount_of(os.fsencode(tmp_path / name)) for name in ("view", "original"))

    assert view.mount_id != original.mount_id
    assert view.device == original.device
    assert view.root.endswith(b"/original")


@pytest.mark.root
def test_mounts_beneath_are_relative_to_the_folder(tmp_path: Path) -> None:
    """Only what is mounted below the folder is listed, the folder itself and its neighbours are not."""
    with (
        small_tmpfs(tmp_path / "top", 1 << 20) as top,
        small_tmpfs(tmp_path / "top2", 1 << 20),
        opened_root(top) as fd,
    ):
        with small_tmpfs(tmp_path / "top" / "a" / "b", 1 << 20), small_tmpfs(tmp_path / "top" / "c\n", 1 << 20):
            assert find_mounts_beneath(fd) == {b"a/b", b"c\n"}
        assert find_mounts_beneath(fd) == frozenset()


@pytest.mark.root
def test_descriptor_of_a_mount_that_was_taken_away_has_none(tmp_path: Path) -> None:
    """A mount that was detached while a file on it was open is in no list any more: that is said."""
    sh("mount", "-t", "tmpfs", "tmpfs", tmp_path)
    with opened_root(tmp_path) as fd:
        vanish(tmp_path)
        with pytest.raises(FileNotFoundError, match="unmounted"):
            get_mount(fd)
