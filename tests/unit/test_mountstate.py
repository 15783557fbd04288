"""Which mount of a file system it is: another one after each unmount, the same from every namespace."""

from __future__ import annotations

import os
import struct
import subprocess
import sys

import pytest

from integrity.files.mount_state import MountState, find_mount_state, is_still_mounted
from integrity.files.mounts import get_mount
from support.loopfs import LoopFS
from support.namespaces import with_binds
from support.reading import opened_root

pytestmark = pytest.mark.root

ASK = """
import os, sys
from integrity.files.mounts import get_mount
from integrity.files.mount_state import find_mount_state
fd = os.open(sys.argv[1], os.O_RDONLY)
print(find_mount_state(fd, get_mount(fd)).mount)
"""


def get_state(path: bytes, fs_type: str | None = None) -> MountState:
    """Return the state of the mount at a path, as of another type if one is given."""
    with opened_root(path) as fd:
        mount = get_mount(fd)
        return find_mount_state(fd, mount._replace(fs_type=fs_type or mount.fs_type))


def test_remount_is_another_mount(each_fs: LoopFS) -> None:
    """The same as long as it lasts, in every namespace; another one after it, and the former one is over."""
    first = get_state(each_fs.mnt)
    elsewhere = subprocess.check_output(with_binds({}, sys.executable, "-c", ASK, each_fs.mnt), text=True)
    assert first == get_state(each_fs.mnt)
    assert f"{first.mount}\n" == elsewhere
    assert is_still_mounted(first.mount)
    each_fs.remount()
    second = get_state(each_fs.mnt)

    assert second.mount
    assert second.mount != first.mount
    assert (False, True) == (is_still_mounted(first.mount), is_still_mounted(second.mount))


def test_ext4_counts_its_mounts(ext4: LoopFS) -> None:
    """What the kernel tells, what the superblock on the disk says, and how often it was mounted are the same."""
    first = get_state(ext4.mnt).mount_count
    ext4.remount()
    second = get_state(ext4.mnt).mount_count
    ext4.umount()
    with open(ext4.image, "rb") as image:
        (stored,) = struct.unpack("<H", os.pread(image.fileno(), 2, 1024 + 0x34))

    assert (1, 2, 2) == (first, second, stored)


def test_driver_without_a_folder_of_its_own_has_that_of_its_disk(ext4: LoopFS) -> None:
    """A disk that was taken out and put in again is another one; a remount alone does not show."""
    first = get_state(ext4.mnt, "jfs").mount
    assert first.rpartition(" ")[0].startswith("/sys/devices/")
    assert is_still_mounted(first)
    ext4.umount()
    with LoopFS("ext4", image=ext4.image) as again:
        second = get_state(again.mnt, "jfs").mount

    assert second != first
    assert not is_still_mounted(first)
    ext4.mount()


def test_what_lies_on_no_disk_can_not_be_told() -> None:
    """Nothing is known of mounts of memory, and what is not known is not taken for an end."""
    state = get_state(b"/proc")

    assert ("", None) == state
    assert is_still_mounted(state.mount)
