"""
Say what a file system can be trusted with.

By type, from a table with the reason beside each row; what one type leaves open is looked for on the root itself. In
doubt the answer is the careful one: less trust makes a verdict say ``no_ctime``, too much would call an edit rot.

Say what a root is recognised by (R5).

The UUID of its file system and the inode of its folder: both outlive reboots, another order of the disks and another
mount point. On btrfs the subvolume's UUID is part of it, for each subvolume begins with the same inode number and a
snapshot repeats them all: a root whose subvolume was replaced is not itself.

One file system can have several names, and not every process sees all of them: where the kernel does not tell the UUID,
it takes udev. From the surest to the weakest:

    uuid:...      the UUID
    fsid:...      what ext2, ext3 and ext4 make of their UUID for statfs(2): proves a recorded UUID, and needs no udev
    TYPE:SOURCE   what was mounted (``nfs4:server:/export``)
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from stat import S_ISREG

from integrity.errors import RootSuspended
from integrity.files.mounts import EXT_TYPES, Mount, find_subvolume_uuid, find_uuid, get_mount
from integrity.files.open_beneath import open_beneath, open_noatime
from integrity.files.stamps import fold_inode
from integrity.model import Capability, RootIdentity

_SECOND_NS = 1_000_000_000

# Times come from the kernel's tick: 10 ms apart at 100 Hz. Since Linux 6.13 they are finer once somebody has looked,
# which helps those who look, not two writes between two looks.
_TICK_NS = 20_000_000

# How many names of a root are looked at.
_SAMPLE = 32


def _local(granularity_ns: int = _TICK_NS, *, has_direct_io: bool = True) -> Capability:
    """Describe a file system of this machine that keeps ctime and inodes as POSIX has them."""
    return Capability("", True, True, granularity_ns, has_direct_io, is_remote=False)


def _foreign(
    granularity_ns: int = _TICK_NS, *, has_stable_inodes: bool = False, has_direct_io: bool = True
) -> Capability:
    """Describe a file system of this machine that was made for another system, without a ctime worth the name."""
    return Capability("", False, has_stable_inodes, granularity_ns, has_direct_io, is_remote=False)


# What a server passes on is as good as what it exports, and that can't be told from here: an NFS server may export
# mergerfs or a FAT stick, a Samba server makes up ctime and may make up inode numbers (noserverino). NFS itself does
# keep both, but attributes are cached for up to a minute, so a ctime that did not move proves nothing.
_REMOTE = Capability("", False, False, 2 * _SECOND_NS, has_direct_io=True, is_remote=True)

# FUSE servers answer what they like: mergerfs may show another branch's file tomorrow, sshfs makes up inode numbers,
# and O_DIRECT goes past our cache to a server that reads through its own. How fine their times are: see _is_fine.
_FUSE = Capability("", False, False, 2 * _SECOND_NS, has_direct_io=False, is_remote=False)

# There is nothing behind the cache; newer kernels take O_DIRECT and ignore it. Pages are never written back, so they
# are not write-protected again either: of the stores into a shared mapping the times show the first one alone.
_MEMORY = replace(_local(has_direct_io=False), shows_mapped_writes=False)

# Never heard of: nothing is believed.
_UNKNOWN = Capability("", False, False, 2 * _SECOND_NS, has_direct_io=False, is_remote=False)

_TABLE = {
    # Inodes of 128 bytes have no room for fractions of a second: see _is_coarse.
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
    "zfs": _local(has_direct_io=False),  # before 2.3 it takes O_DIRECT and reads through its cache all the same
    "tmpfs": _MEMORY,
    "ramfs": _MEMORY,
    # Files of a lower layer get another inode number when they are first written, or at each mount (xino=off).
    "overlay": replace(_local(), has_stable_inodes=False),
    # FAT keeps a creation time, no change time, and no inodes: the kernel numbers them as it meets them.
    "vfat": _foreign(2 * _SECOND_NS),
    "msdos": _foreign(2 * _SECOND_NS),
    "exfat": _foreign(),  # 10 ms
    # NTFS has a change time, but programs of Windows may set it. Its record numbers stay.
    "ntfs3": _foreign(has_stable_inodes=True),
    "ntfs": _foreign(has_stable_inodes=True),
    # HFS+ sets ctime and keeps it in whole seconds; what macOS does with it is another matter.
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
    "fuse.sshfs": replace(_FUSE, is_remote=True),
    "fuse.rclone": replace(_FUSE, is_remote=True),
    "fuse.glusterfs": replace(_FUSE, is_remote=True),
    "fuse.s3fs": replace(_FUSE, is_remote=True),
}

_WITH_SMALL_INODES = frozenset({"ext2", "ext3", "ext4"})


def find_capability(root_fd: int, path: bytes) -> Capability:
    """
    Find out what the file system of an open root can be trusted with.

    Args:
        root_fd: from ``open_root``.
        path: of the root, for messages.

    Raises:
        RootSuspended: the root can't be looked at.
    """
    try:
        fs_type = get_mount(root_fd).fs_type
        capability = replace(get_capability(fs_type), fs_type=fs_type)
        if fs_type in _WITH_SMALL_INODES and _is_coarse(root_fd):
            capability = replace(capability, granularity_ns=_SECOND_NS)
        if fs_type.startswith("fuse") and not capability.is_remote and _is_fine(root_fd):
            capability = replace(capability, granularity_ns=_TICK_NS)
        if capability.has_direct_io and _is_direct_io_refused(root_fd):
            capability = replace(capability, has_direct_io=False)
    except OSError as error:
        raise RootSuspended(
            f"{path.decode('utf-8', 'backslashreplace')}: can't look at the root's folder: {error.strerror}; "
            "check that its disk is mounted and answers, and that the user integrity runs as may read it"
        ) from error
    return capability


def get_capability(fs_type: str) -> Capability:
    """Get what a type of file system can be trusted with as a rule."""
    known = _TABLE.get(fs_type)
    if known is None:
        known = _FUSE if fs_type.startswith("fuse") else _UNKNOWN
    return replace(known, fs_type=fs_type)


def _is_coarse(root_fd: int) -> bool:
    """
    Tell whether times seem to be kept in whole seconds: inodes of 128 bytes.

    No ioctl tells without rights. ctime can't be set, so where fractions are kept, one in a hundred is zero at most; an
    empty root that happens to be such a one is trusted less than it could be, and a wrong answer the other way is not
    possible.
    """
    if os.fstat(root_fd).st_ctime_ns % _SECOND_NS:
        return False
    return all(status.st_ctime_ns % _SECOND_NS == 0 for _, status in _sample(root_fd))


def _is_fine(root_fd: int) -> bool:
    """
    Tell whether a FUSE server keeps fractions of a second: each name looked at has one in its ctime.

    A file system below it that keeps whole seconds shows none. A server may join several (mergerfs), so that one name
    without a fraction is enough for doubt, as is an empty root.
    """
    times = [status.st_ctime_ns for _, status in _sample(root_fd)]
    return bool(times) and all(time_ns % _SECOND_NS for time_ns in times)


def _is_direct_io_refused(root_fd: int) -> bool:
    """Try O_DIRECT on a file of the root; where there is none, or it may not be read, the table is believed."""
    for name, status in _sample(root_fd):
        if not S_ISREG(status.st_mode):
            continue
        try:
            os.close(open_beneath(root_fd, name, os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            if error.errno == errno.EINVAL:
                return True
            continue  # gone, not ours to read, or damaged: the reader will say so; here the next one will do
        return False
    return False


def _sample(root_fd: int) -> Iterator[tuple[bytes, os.stat_result]]:
    """Yield some names of the root's folder and what lstat says of them, leaving its atime alone."""
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


_UUID, _FSID = "uuid:", "fsid:"


def identify(root_fd: int, path: bytes) -> RootIdentity:
    """
    Find out what an open root is recognised by.

    ``names`` and ``folder_inode`` are to be compared; type and mount point are there to be shown.

    Args:
        root_fd: from ``open_root``. It is what gets identified, not what ``path`` leads to by now.
        path: of the root, for messages.

    Raises:
        RootSuspended: it can't be told: the disk does not answer, or was unmounted.
    """
    try:
        mount = get_mount(root_fd)
        names = find_fs_names(root_fd, mount)
        return RootIdentity(
            fs_id=names[0],
            folder_inode=fold_inode(os.fstat(root_fd).st_ino),
            fs_type=mount.fs_type,
            mount_point=mount.mount_point,
            names=names,
        )
    except OSError as error:
        raise RootSuspended(
            f"{path.decode('utf-8', 'backslashreplace')}: can't tell which file system this is: {error.strerror}; "
            "check that its disk is mounted and answers"
        ) from error


def get_fs_id(fd: int, mount: Mount) -> str:
    """Return the surest name of the file system of an open file."""
    return find_fs_names(fd, mount)[0]


def find_fs_names(fd: int, mount: Mount) -> tuple[str, ...]:
    """Return all names of the file system of an open file that can be seen now, the surest first; see the module."""
    names = [f"{mount.fs_type}:{mount.source}"]
    if mount.fs_type in EXT_TYPES:
        fsid = os.fstatvfs(fd).f_fsid
        if fsid:  # zero: the file system has no UUID
            names.insert(0, f"{_FSID}{fsid:016x}")
    value = find_uuid(fd, mount)
    if value is not None:
        subvolume = find_subvolume_uuid(fd) if mount.fs_type == "btrfs" else None
        names.insert(0, f"{_UUID}{value}/{subvolume}" if subvolume else f"{_UUID}{value}")
    return tuple(names)


def recognise(recorded: str, names: Sequence[str]) -> str | None:
    """
    Decide whether a file system is the recorded one.

    Args:
        recorded: the name that it had when it was recorded.
        names: from ``find_fs_names``.

    Returns:
        The surest name known of it, to be recorded from now on; None if it is another file system, or can't be proved
        to be the same.
    """
    if recorded in names:
        return names[0]
    return recorded if _make_fsid(recorded) in names else None


def spell_folder(names: Sequence[str], inode: int) -> str:
    """Write down in one text what a folder is recognised by: its file system and its inode."""
    return f"{names[0]} {inode}"


def get_fs_name(folder: str) -> str:
    """Return the name of the file system from what ``spell_folder`` wrote down."""
    return folder.rpartition(" ")[0]


def recognise_folder(recorded: str, names: Sequence[str], inode: int) -> str | None:
    """Decide as ``recognise`` whether a folder is the one that was written down by ``spell_folder``."""
    name, _, folder = recorded.rpartition(" ")
    surest = recognise(name, names) if folder == str(inode) else None
    return None if surest is None else f"{surest} {folder}"


def explain_unrecognised(recorded: str, names: Sequence[str]) -> str:
    """Say what stands against a file system that was not recognised: another one, or one that can't be proved."""
    if recorded.startswith(_UUID) and not names[0].startswith(_UUID):
        return (
            f"which file system is there can't be proved: its UUID can't be seen now ({names[0]}, recorded was"
            f" {recorded}): run this where /run/udev or /dev/disk/by-uuid can be seen"
        )
    found = f"another file system is there ({names[0]}, recorded was {recorded})"
    return f"{found}: the disk is not mounted, or another one is"


def _make_fsid(name: str) -> str | None:
    """Compute from a UUID what ext4 answers to statfs(2): both halves, low byte first, combined by XOR."""
    if not name.startswith(_UUID):
        return None
    try:
        value = uuid.UUID(name.removeprefix(_UUID)).bytes
    except ValueError:
        return None  # of FAT or NTFS, or with a subvolume
    return f"{_FSID}{int.from_bytes(value[:8], 'little') ^ int.from_bytes(value[8:], 'little'):016x}"
