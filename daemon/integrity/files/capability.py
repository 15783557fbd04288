"""
Determine what guarantees a root's file system gives, and how the root is recognized (R5).

Capabilities come from a table by file system type; what a type leaves open is tested on the root. When in doubt, trust
less: too little trust yields the verdict ``no_ctime``, too much would report an edit as bit rot.

A root is recognized by the UUID of its file system, the disk, and the inode of its folder: all survive reboots,
reordered disks and another mount point. On btrfs the subvolume's UUID is included, because all subvolumes start at the
same inode number and a snapshot repeats them all. If the kernel does not report the UUID, udev must. Where inode
numbers do not last, the folder's path in the file system stands for its inode. ``same_place`` compares all of it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from itertools import islice
from stat import S_ISREG

from integrity.errors import RootSuspended
from integrity.files.block_devices import find_disk_facts
from integrity.files.mounts import EXT_TYPES, Mount, find_subvolume_uuid, find_uuid, get_mount
from integrity.files.open_beneath import open_beneath, open_noatime
from integrity.files.stamps import fold_inode
from integrity.model import Capability, RootIdentity
from integrity.same_place import make_path_number, name_by_fsid, name_by_uuid

_SECOND_NS = 1_000_000_000

# Timestamps come from the kernel's tick: 10 ms apart at 100 Hz. Since Linux 6.13 they are finer after a stat, but two
# writes between two stats can still share one.
_TICK_NS = 20_000_000

# Number of names of a root that are tested.
_SAMPLE = 32


def _local(granularity_ns: int = _TICK_NS, *, has_direct_io: bool = True) -> Capability:
    """Describe a local file system with POSIX ctime and inodes."""
    return Capability("", True, True, granularity_ns, has_direct_io, is_remote=False)


def _foreign(
    granularity_ns: int = _TICK_NS, *, has_stable_inodes: bool = False, has_direct_io: bool = True
) -> Capability:
    """Describe a local file system that was designed for another system and has no reliable ctime."""
    return Capability("", False, has_stable_inodes, granularity_ns, has_direct_io, is_remote=False)


# A server is as reliable as the file system it exports, which is unknown here: an NFS server may export mergerfs or a
# FAT stick; a Samba server invents ctime and may invent inode numbers (noserverino). NFS keeps both, but caches
# attributes for up to a minute, so an unchanged ctime proves nothing.
_REMOTE = Capability("", False, False, 2 * _SECOND_NS, has_direct_io=True, is_remote=True)

# FUSE servers may return anything: mergerfs may show another branch's file tomorrow, sshfs invents inode numbers, and
# O_DIRECT bypasses our cache but not the server's. Timestamp granularity: see _is_fine.
_FUSE = Capability("", False, False, 2 * _SECOND_NS, has_direct_io=False, is_remote=False)

# There is no storage behind the cache; newer kernels accept O_DIRECT and ignore it. Pages are never written back and so
# never write-protected again: only the first store into a shared mapping updates the times.
_MEMORY = _local(has_direct_io=False)._replace(shows_mapped_writes=False)

# Unknown file system: trust nothing.
_UNKNOWN = Capability("", False, False, 2 * _SECOND_NS, has_direct_io=False, is_remote=False)

_TABLE = {
    # 128-byte inodes cannot store fractions of a second: see _is_coarse.
    "ext2": _local(),
    "ext3": _local(),
    "ext4": _local(),
    "xfs": _local(),
    "btrfs": _local(),
    "f2fs": _local(),
    "bcachefs": _local(),
    "jfs": _local(),
    "nilfs2": _local(),
    "reiserfs": _local(_SECOND_NS),
    "zfs": _local(has_direct_io=False),  # before 2.3 it accepts O_DIRECT and reads through its cache
    "tmpfs": _MEMORY,
    "ramfs": _MEMORY,
    # Files of a lower layer get another inode number at the first write, or at each mount (xino=off).
    "overlay": _local()._replace(has_stable_inodes=False),
    # FAT stores a creation time, no change time and no inodes: the kernel assigns inode numbers on first access.
    "vfat": _foreign(2 * _SECOND_NS),
    "msdos": _foreign(2 * _SECOND_NS),
    "exfat": _foreign(),  # 10 ms
    # NTFS has a change time, but Windows programs may set it. Its record numbers are stable.
    "ntfs3": _foreign(has_stable_inodes=True),
    "ntfs": _foreign(has_stable_inodes=True),
    # HFS+ stores ctime in whole seconds; macOS may treat it differently.
    "hfsplus": _foreign(_SECOND_NS, has_stable_inodes=True),
    "nfs": _REMOTE,
    "nfs4": _REMOTE,
    "cifs": _REMOTE,
    "smb3": _REMOTE,
    "smbfs": _REMOTE,
    "9p": _REMOTE,
    "afs": _REMOTE,
    "ceph": _REMOTE,
    "vboxsf": _REMOTE,
    "virtiofs": _REMOTE,
    "fuse.sshfs": _FUSE._replace(is_remote=True),
    "fuse.rclone": _FUSE._replace(is_remote=True),
    "fuse.glusterfs": _FUSE._replace(is_remote=True),
    "fuse.s3fs": _FUSE._replace(is_remote=True),
}

_WITH_SMALL_INODES = frozenset({"ext2", "ext3", "ext4"})


def find_capability(root_fd: int, path: bytes) -> Capability:
    """
    Determine the capabilities of an open root's file system.

    Args:
        root_fd: from ``open_root``.

    Raises:
        RootSuspended: the root cannot be read.
    """
    try:
        fs_type = get_mount(root_fd).fs_type
        capability = get_capability(fs_type)._replace(fs_type=fs_type)
        if fs_type in _WITH_SMALL_INODES and _is_coarse(root_fd):
            capability = capability._replace(granularity_ns=_SECOND_NS)
        if fs_type.startswith("fuse") and not capability.is_remote and _is_fine(root_fd):
            capability = capability._replace(granularity_ns=_TICK_NS)
        if capability.has_direct_io and _is_direct_io_refused(root_fd):
            capability = capability._replace(has_direct_io=False)
    except OSError as error:
        raise RootSuspended(
            f"{path.decode('utf-8', 'backslashreplace')}: can't look at the root's folder: {error.strerror}; "
            "check that its disk is mounted and answers, and that the user integrity runs as may read it"
        ) from error
    return capability


def get_capability(fs_type: str) -> Capability:
    known = _TABLE.get(fs_type)
    if known is None:
        known = _FUSE if fs_type.startswith("fuse") else _UNKNOWN
    return known._replace(fs_type=fs_type)


def _is_coarse(root_fd: int) -> bool:
    """
    Return whether times appear to be in whole seconds, as with 128-byte inodes.

    No ioctl reports this without rights. ctime cannot be set, so if fractions are stored, a zero fraction is rare: at
    most one in a hundred. A wrong True only reduces trust; a wrong False is impossible.
    """
    if os.fstat(root_fd).st_ctime_ns % _SECOND_NS:
        return False
    return all(status.st_ctime_ns % _SECOND_NS == 0 for _, status in _sample(root_fd))


def _is_fine(root_fd: int) -> bool:
    """
    Return whether a FUSE server keeps fractions of a second: every sampled ctime has one.

    A file system below it that keeps whole seconds shows none. A server may join several (mergerfs), so a single name
    without a fraction means False, and so does an empty root.
    """
    times = [status.st_ctime_ns for _, status in _sample(root_fd)]
    return bool(times) and all(time_ns % _SECOND_NS for time_ns in times)


def _is_direct_io_refused(root_fd: int) -> bool:
    """Return whether O_DIRECT fails on a file of the root; without a readable file, trust the table."""
    for name, status in _sample(root_fd):
        if not S_ISREG(status.st_mode):
            continue
        try:
            os.close(open_beneath(root_fd, name, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            if error.errno == errno.EINVAL:
                return True
            continue  # gone, forbidden or damaged: the reader reports it; try the next one
        return False
    return False


def _sample(root_fd: int) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yield the first names of the root's folder with their lstat, without updating its atime."""
    fd = open_noatime(root_fd, b"", os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(fd) as entries:
            for entry in islice(entries, _SAMPLE):
                try:
                    yield os.fsencode(entry.name), entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
    finally:
        os.close(fd)


def identify(root_fd: int, path: bytes) -> RootIdentity:
    """
    Return the identity of an open root.

    Compare ``names`` and ``folder_inode``; type and mount point are for display.

    Args:
        root_fd: from ``open_root``; this is what gets identified, not what ``path`` leads to now.

    Raises:
        RootSuspended: the disk does not answer or was unmounted.
    """
    try:
        mount = get_mount(root_fd)
        names = find_fs_names(root_fd, mount)
        return RootIdentity(
            fs_id=names[0],
            folder_inode=find_folder_number(root_fd, mount),
            fs_type=mount.fs_type,
            mount_point=mount.mount_point,
            names=names,
        )
    except OSError as error:
        raise RootSuspended(
            f"{path.decode('utf-8', 'backslashreplace')}: can't tell which file system this is: {error.strerror}; "
            "check that its disk is mounted and answers"
        ) from error


def find_fs_names(fd: int, mount: Mount) -> tuple[str, ...]:
    """Return all names of an open file's file system that are visible now, strongest first; see ``same_place``."""
    names = [f"{mount.fs_type}:{mount.source}"]
    if mount.fs_type in EXT_TYPES:
        fsid = os.fstatvfs(fd).f_fsid
        if fsid:  # zero: no UUID
            names.insert(0, name_by_fsid(fsid))
    value = find_uuid(fd, mount)
    if value is not None:
        subvolume = find_subvolume_uuid(fd) if mount.fs_type == "btrfs" else None
        names.insert(0, name_by_uuid(value, subvolume, find_disk_facts(fd, mount)))
    return tuple(names)


def find_folder_number(fd: int, mount: Mount) -> int:
    """Return the number of an open folder: its inode, or one of its path in the file system; see ``same_place``."""
    if get_capability(mount.fs_type).has_stable_inodes:
        return fold_inode(os.fstat(fd).st_ino)
    path, point = os.readlink(b"/proc/self/fd/%d" % fd), mount.mount_point.rstrip(b"/")
    return make_path_number((mount.root.rstrip(b"/") + path.removeprefix(point)).rstrip(b"/"))
