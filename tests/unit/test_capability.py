import os
from pathlib import Path

import pytest

from integrity.errors import RootSuspended
from integrity.files.capability import find_capability, get_capability
from integrity.model import Capability
from support.faultfs import FaultFS
from support.loopfs import LoopFS
from support.mounts import small_tmpfs
from support.reading import opened_root

SECOND_NS = 1_000_000_000


def look_at(path: bytes) -> Capability:
    with opened_root(path) as fd:
        return find_capability(fd, path)


LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "tmpfs", "bcachefs", "jfs", "reiserfs")
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs")
OTHERS = ("vfat", "msdos", "exfat", "fuse", "fuseblk", "fuse.mergerfs", "?")


@pytest.mark.parametrize("fs_type", [*LOCAL, *REMOTE, *OTHERS, "9p", "overlay"])
def test_ctime_and_inodes_count_on_local_file_systems_of_linux_only(fs_type: str) -> None:
    """Not where ctime may be made up, nor on all that nobody thought of; the kernel's clock ticks each 20 ms."""
    capability = get_capability(fs_type)

    assert fs_type == capability.fs_type
    assert capability.granularity_ns >= 20_000_000
    assert fs_type != "vfat" or 2 * SECOND_NS == capability.granularity_ns
    if fs_type != "overlay":
        assert (fs_type in LOCAL,) * 2 == (capability.has_ctime, capability.has_stable_inodes)
    if fs_type != "9p":
        assert (fs_type in REMOTE) == capability.is_remote


@pytest.mark.root
@pytest.mark.parametrize("fs_type", ["ext4", "xfs", "btrfs"])
def test_usual_disk_is_trusted_with_all(fs_type: str) -> None:
    """ext4, xfs and btrfs as mkfs makes them: ctime, inodes, fine times, direct reads."""
    with LoopFS(fs_type) as fs:
        (fs.folder / "file").write_bytes(b"content")

        assert look_at(fs.mnt) == Capability(fs_type, True, True, 20_000_000, True, False)


@pytest.mark.root
def test_ext4_with_small_inodes_has_a_granule_of_a_second() -> None:
    """Inodes of 128 bytes keep whole seconds, which shows on the root's own files."""
    with LoopFS("ext4", mkfs=("-I", "128")) as fs:
        assert look_at(fs.mnt).granularity_ns == SECOND_NS
        for number in range(5):
            (fs.folder / str(number)).touch()
        assert look_at(fs.mnt).granularity_ns == SECOND_NS


@pytest.mark.root
def test_restored_whole_second_mtimes_do_not_make_ext4_coarse(ext4: LoopFS) -> None:
    """Old mtimes without fractions say nothing: ctime decides, which nobody can set."""
    for number in range(5):
        path = ext4.path(str(number))
        os.close(os.open(path, os.O_CREAT))
        os.utime(path, (10**9, 10**9))
    os.utime(ext4.mnt, (10**9, 10**9))

    assert look_at(ext4.mnt).granularity_ns == 20_000_000


@pytest.mark.root
def test_memory_has_no_direct_reads(tmp_path: Path) -> None:
    """Behind a tmpfs there is no disk that could be read."""
    with small_tmpfs(tmp_path / "memory", 1 << 20) as point:
        (tmp_path / "memory" / "file").write_bytes(b"content")

        assert look_at(point) == Capability("tmpfs", True, True, 20_000_000, False, False, shows_mapped_writes=False)


@pytest.mark.root
def test_looking_moves_no_atime(ext4: LoopFS) -> None:
    """Finding out leaves the times of the root and its files as they were."""
    (ext4.folder / "file").write_bytes(b"content")
    for path in (ext4.path("file"), ext4.mnt):
        os.utime(path, ns=(10**18, 2 * 10**18))

    look_at(ext4.mnt)

    assert [os.lstat(path).st_atime_ns for path in (ext4.path("file"), ext4.mnt)] == [10**18] * 2


@pytest.mark.root
def test_fuse_is_not_trusted_whatever_it_says(faulty: FaultFS) -> None:
    """A FUSE server's ctime and inodes are its own invention, though they look right."""
    capability = look_at(faulty.mnt)

    assert (capability.has_ctime, capability.has_stable_inodes, capability.has_direct_io) == (False, False, False)
    assert capability.fs_type.startswith("fuse")


@pytest.mark.root
def test_root_that_can_not_be_looked_at_is_suspended(ext4: LoopFS) -> None:
    """A root that has gone away under its descriptor is not judged by its type."""
    with opened_root(ext4.mnt) as fd:
        pass

    with pytest.raises(RootSuspended, match="check"):
        find_capability(fd, ext4.mnt)


@pytest.mark.root
def test_times_of_a_fuse_server_are_looked_at(faulty: FaultFS, tmp_path: Path) -> None:
    """One that passes fractions of a second on, as mergerfs does, has the granule of the file system below it."""
    assert look_at(faulty.mnt).granularity_ns == 2 * SECOND_NS  # empty: nothing shows it
    (tmp_path / "source" / "file").touch()

    capability = look_at(faulty.mnt)

    assert (20_000_000, False, False) == (capability.granularity_ns, capability.has_ctime, capability.has_stable_inodes)


@pytest.mark.root
def test_fuse_server_above_whole_seconds_stays_coarse(tmp_path: Path) -> None:
    """An ext4 with small inodes below it, or such a one among several, shows no fractions."""
    with LoopFS("ext4", mkfs=("-I", "128")) as fs, FaultFS(fs.folder) as fuse:
        for number in range(5):
            (fs.folder / str(number)).touch()

        assert look_at(fuse.mnt).granularity_ns == 2 * SECOND_NS
