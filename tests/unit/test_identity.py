import os
from pathlib import Path

import pytest

from integrity.errors import RootSuspended
from integrity.files.capability import identify
from integrity.model import RootIdentity
from integrity.same_place import get_plain_name, recognise
from support.faultfs import FaultFS
from support.loopfs import LoopFS
from support.mounts import bound, small_tmpfs, vanish
from support.programs import sh
from support.reading import opened_root

UUID = "0f4aa4a1-9a2b-4b35-a8a5-9d8c6a1f2b3c"
OF_MKFS = {"ext4": ("-U", UUID), "xfs": ("-m", f"uuid={UUID}"), "btrfs": ("-U", UUID)}


def get_identity(path: bytes) -> RootIdentity:
    with opened_root(path) as fd:
        return identify(fd, path)


@pytest.mark.root
@pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs"])
def test_file_system_is_recognised_by_its_uuid(fs_type: str) -> None:
    """The UUID that mkfs gave is the identity, at another mount point and after a remount, too."""
    with LoopFS(fs_type, mkfs=OF_MKFS[fs_type]) as fs:
        os.mkdir(fs.path("root"))
        first = get_identity(fs.path("root"))
        fs.remount()
        second = get_identity(fs.path("root"))
        view = fs.folder.parent / "view"
        view.mkdir()
        with bound(fs.mnt, view):
            moved = get_identity(os.fsencode(view / "root"))
        view.rmdir()

    assert get_plain_name(first.fs_id).split("/")[0] == f"uuid:{UUID}"
    assert first == second._replace(names=("what is seen at another moment",))
    assert (first.fs_type, first.mount_point) == (fs_type, fs.mnt)
    assert (moved.fs_id, moved.folder_inode) == (first.fs_id, first.folder_inode)
    assert moved.mount_point == os.fsencode(view)


@pytest.mark.root
def test_subvolume_that_was_replaced_by_a_snapshot_is_another_root(btrfs: LoopFS) -> None:
    """Subvolumes repeat each other's inode numbers; a snapshot in the place of a root is told by its own UUID."""
    sh("btrfs", "-q", "subvolume", "create", btrfs.path("data"))
    os.mkdir(btrfs.path("data/root"))
    before = get_identity(btrfs.path("data/root"))
    sh("btrfs", "-q", "subvolume", "snapshot", btrfs.path("data"), btrfs.path("snapshot"))
    os.rename(btrfs.path("data"), btrfs.path("old"))
    os.rename(btrfs.path("snapshot"), btrfs.path("data"))
    after = get_identity(btrfs.path("data/root"))

    assert get_identity(btrfs.path("old/root")) == before
    assert after.folder_inode == before.folder_inode
    assert after.fs_id != before.fs_id
    assert after.fs_id.split("/")[0] == before.fs_id.split("/")[0]


@pytest.mark.root
def test_new_tmpfs_is_another_root(tmp_path: Path) -> None:
    """What lived in memory is gone with its mount: the next one at the same place is not the same."""
    identities = []
    for _ in range(2):
        with small_tmpfs(tmp_path / "memory", 1 << 20) as point:
            identities.append(get_identity(point).fs_id)

    if all(identity.startswith("tmpfs:") for identity in identities):
        pytest.skip("this kernel gives a tmpfs no UUID")
    assert identities[0] != identities[1]


@pytest.mark.root
def test_file_system_without_a_uuid_is_recognised_by_type_and_source(faulty: FaultFS) -> None:
    """Where there is no UUID, type and source stand in."""
    identity = get_identity(faulty.mnt)

    assert identity.fs_id.startswith(identity.fs_type + ":")
    assert identity.fs_type.startswith("fuse")


@pytest.mark.parametrize(
    ("recorded", "names", "kept"),
    [
        ("uuid:A", ("uuid:A", "ext4:/dev/sda1"), "uuid:A"),
        ("uuid:A", ("uuid:B", "ext4:/dev/sda1"), None),
        ("uuid:A", ("ext4:/dev/sda1",), None),
        ("ext4:/dev/sda1", ("uuid:A", "fsid:0123456789abcdef", "ext4:/dev/sda1"), "uuid:A"),
        ("ext4:/dev/sda1", ("uuid:A", "ext4:/dev/sdb1"), None),
        ("fsid:0123456789abcdef", ("uuid:A", "fsid:0123456789abcdef", "ext4:/dev/sda1"), "uuid:A"),
        ("fsid:0123456789abcdef", ("uuid:A", "fsid:0123456789abcde0", "ext4:/dev/sda1"), None),
        ("ext4:/dev/sda1", ("fsid:0123456789abcdef", "ext4:/dev/sda1"), "fsid:0123456789abcdef"),
        ("uuid:1234-ABCD", ("vfat:/dev/sdb1",), None),
        ("uuid:A", ("uuid:A#size=5,wwid=naa.1",), "uuid:A#size=5,wwid=naa.1"),
        ("uuid:A#size=5,wwid=naa.1", ("uuid:A",), "uuid:A#size=5,wwid=naa.1"),
        ("uuid:A#size=5,wwid=naa.1", ("uuid:A#size=5,wwid=naa.2",), None),
        ("uuid:A#size=5,wwid=naa.1", ("uuid:A#size=9,wwid=naa.1",), "uuid:A#size=9,wwid=naa.1"),
        ("uuid:A#size=5,wwid=naa.1", ("uuid:A#serial=7,size=5",), "uuid:A#serial=7,size=5,wwid=naa.1"),
        ("uuid:A#size=5", ("uuid:A#serial=7,size=6",), None),
        ("uuid:A#usb=1,wwid=naa.1", ("uuid:A#usb=2,wwid=naa.1",), "uuid:A#usb=2,wwid=naa.1"),
        ("uuid:A#size=5,usb=a%20b", ("uuid:A#size=5,usb=c",), None),
        ("uuid:A/S#size=5", ("uuid:A/T#size=5",), None),
        ("nfs4:server:/a", ("nfs4:server:/b",), None),
        ("fuse.mergerfs:1:2", ("fuse.mergerfs:1:2:3",), "fuse.mergerfs:1:2:3"),
        ("fuse.mergerfs:1:2", ("fuse.mergerfs:3:4",), None),
        ("fuse.mergerfs:1:2", ("fuse.unionfs:1:2",), None),
        # the XOR of its halves, low byte first: as a live ext4 answered
        (
            "uuid:a8acf70c-7d6a-4e65-abc4-a651c4bbae99",
            ("fsid:fce0d1b95d516803", "ext4:/dev/vda"),
            "uuid:a8acf70c-7d6a-4e65-abc4-a651c4bbae99",
        ),
        ("uuid:a8acf70c-7d6a-4e65-abc4-a651c4bbae98", ("fsid:fce0d1b95d516803", "ext4:/dev/vda"), None),
    ],
)
def test_file_system_is_recognised_under_another_name(recorded: str, names: tuple[str, ...], kept: str | None) -> None:
    """A surer name is taken over, a weaker one proves what follows from it, and nothing else is the same."""
    assert kept == recognise(recorded, names)


@pytest.mark.root
def test_root_whose_mount_was_taken_away_has_no_identity(tmp_path: Path) -> None:
    """A descriptor that is the last to know a detached mount is no root any more."""
    sh("mount", "-t", "tmpfs", "tmpfs", tmp_path)
    with opened_root(tmp_path) as fd:
        vanish(tmp_path)
        with pytest.raises(RootSuspended, match="unmounted"):
            identify(fd, os.fsencode(tmp_path))
