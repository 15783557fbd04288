"""
Read what is mounted where, and identify file systems.

The kernel's list (proc(5), /proc/pid/mountinfo) is read anew at each call: mounts change. A descriptor's mount is found
by mount id, never by device number: btrfs gives each subvolume its own device number within one mount, and a bind mount
has the device number of its source.
"""

import errno
import fcntl
import functools
import os
import re
import stat
import struct
import uuid
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

from integrity.errors import AppError

_FS_IOC_GETFSUUID = 0x80111500  # linux/fs.h: struct fsuuid2, 1 byte of length and 16 of value; Linux 6.9
_FSUUID2_BYTES = 17
_BTRFS_IOC_FS_INFO = 0x8400941F  # linux/btrfs.h: struct btrfs_ioctl_fs_info_args
_BTRFS_FS_INFO_BYTES = 1024
_BTRFS_FSID_AT = 16
_BTRFS_IOC_GET_SUBVOL_INFO = 0x81F8943C  # struct btrfs_ioctl_get_subvol_info_args; unprivileged since Linux 4.18
_BTRFS_SUBVOL_INFO_BYTES = 504
_BTRFS_SUBVOL_UUID_AT = 296
_EXT4_IOC_GETFSUUID = 0x8008662C  # fs/ext4/ext4.h: struct fsuuid: length and flags, then the value; Linux 5.19
_EXT4_FSUUID = struct.Struct("=II16s")
_XFS_IOC_FSGEOMETRY_V1 = 0x8070587C  # xfs_fs.h: struct xfs_fsop_geom_v1, supported by every version of the driver
_XFS_GEOMETRY_BYTES = 112
_XFS_UUID_AT = 64

# Errors of a file system that does not support an ioctl, or refuses it.
_NOT_THERE = frozenset({errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES})

# What stands where in the first sector, and where the serial number is: what blkid(8) takes for the UUID.
_BOOT_SECTOR_BYTES = 512
_BOOT_SECTORS = (
    (3, b"EXFAT   ", slice(100, 104)),
    (3, b"NTFS    ", slice(72, 80)),
    (82, b"FAT32   ", slice(67, 71)),
    (54, b"FAT1", slice(39, 43)),
)
_FOREIGN_TYPES = frozenset({"fuseblk", "vfat", "msdos", "exfat", "ntfs", "ntfs3"})

_BY_UUID = b"/dev/disk/by-uuid"
_UDEV_DATA = "/run/udev/data"

EXT_TYPES = frozenset({"ext2", "ext3", "ext4"})
"""File systems with the superblock of ext2."""

# statfs(2), f_type: file systems whose capabilities are known. The number of the ext family does not say which it is.
_TYPES = {
    0xEF53: "ext4",
    0x58465342: "xfs",
    0x9123683E: "btrfs",
    0xF2F52010: "f2fs",
    0x2FC12FC1: "zfs",
    0xCA451A4E: "bcachefs",
    0x01021994: "tmpfs",
    0x794C7630: "overlay",
    0x6969: "nfs",
    0xFF534D42: "cifs",
    0x65735546: "fuse",
}
_KNOWN_LINES = 256  # of mountinfo, which hardly change between two looks
_STATFS_BYTES = 256  # more than any architecture fills; f_type is its first word


class Mount(NamedTuple):
    """One line of mountinfo."""

    mount_id: int
    device: int  # st_dev of the mount; on btrfs its files have others
    root: bytes  # the folder of the file system that is mounted
    mount_point: bytes
    fs_type: str
    source: str
    options: frozenset[str]  # of the mount and the file system


def find_mounts() -> list[Mount]:
    """
    Return the mounts in this process's namespace, in the order of mounting.

    In a chroot the kernel leaves out the mount of the root folder, unless the folder is a mount point itself. That
    mount is put in front, as far as its file system describes itself.

    Raises:
        AppError: there is no /proc.
    """
    with _open_own("mountinfo") as lines:
        mounts = [_parse(line) for line in lines]
    return mounts if any(mount.mount_point == b"/" for mount in mounts) else [_describe_root(), *mounts]


def mount_of(path: bytes) -> Mount:
    """Return the mount that an absolute, real path lies on."""
    return mount_among(find_mounts(), path)


def mount_among(mounts: Iterable[Mount], path: bytes) -> Mount:
    """
    Return the one of all mounts that an absolute, real path lies on.

    If several are mounted at one place, the last one is visible.
    """
    best: Mount | None = None
    for mount in mounts:
        point = mount.mount_point.rstrip(b"/")
        is_above = path == point or path.startswith(point + b"/") or not point
        if is_above and (best is None or len(mount.mount_point) >= len(best.mount_point)):
            best = mount
    if best is None:
        raise ValueError(f"not an absolute path: {path!r}")
    return best


def get_mount(fd: int) -> Mount:
    """Return the mount that an open file lies on, even if it has been mounted over since."""
    wanted = get_mount_id(fd)
    for mount in find_mounts():
        if mount.mount_id == wanted:
            return mount
    raise FileNotFoundError(errno.ENOENT, f"mount {wanted} is not in /proc/self/mountinfo: was it unmounted?")


def get_mount_id(fd: int) -> int:
    """Return the id of the mount that an open file lies on; unique while the mount exists."""
    with _open_own(f"fdinfo/{fd}") as lines:
        for line in lines:
            if line.startswith(b"mnt_id:"):
                return int(line[7:])
    raise OSError(errno.ENOSYS, "the kernel does not tell mount ids (Linux 3.15 does)")


def find_mounts_beneath(fd: int) -> frozenset[bytes]:
    """
    Return the mount points that may lie below an open folder, relative to it.

    Lists too many rather than too few: also mounts below something that was mounted over the folder.
    """
    top = os.readlink(b"/proc/self/fd/%d" % fd).rstrip(b"/") + b"/"
    return frozenset(mount.mount_point[len(top) :] for mount in find_mounts() if mount.mount_point.startswith(top)) - {
        b""
    }


def find_uuid(fd: int, mount: Mount) -> str | None:
    """
    Find the UUID of the file system of an open file.

    Queries the file system first: its answer needs no rights, no udev and no device nodes, so every process gets the
    same one. udev's data is the fallback, then the disk itself, for file systems of other systems. All use the same
    spelling.

    Args:
        fd: any readable file or folder on it.
        mount: the mount that ``fd`` lies on.

    Returns:
        As blkid(8) prints it; None if unknown.
    """
    if not mount.fs_type.startswith("fuse"):  # the ioctl would go to its server, which may return anything
        value = _read_uuid(fd, mount.fs_type)
        if any(value):
            return _format_uuid(value)
    return _find_in_udev(mount) or _find_link(mount) or _read_boot_sector(mount)


def get_block_device(mount: Mount) -> int | None:
    """Return the device number of a mount's source if it is a block device visible to this process."""
    try:
        status = os.stat(mount.source)
    except (OSError, ValueError):
        return None  # not a path: a pool, a server, branches, "none"
    return status.st_rdev if stat.S_ISBLK(status.st_mode) else None


def find_subvolume_uuid(fd: int) -> str | None:
    """Return the UUID of the btrfs subvolume of an open file; None if the kernel does not report one."""
    info = _ioctl(fd, _BTRFS_IOC_GET_SUBVOL_INFO, _BTRFS_SUBVOL_INFO_BYTES)
    if info is None:
        return None
    value = info[_BTRFS_SUBVOL_UUID_AT : _BTRFS_SUBVOL_UUID_AT + 16]
    return _format_uuid(value) if any(value) else None


def _open_own(name: str) -> BinaryIO:
    """Open a file that describes this process."""
    try:
        return open(f"/proc/self/{name}", "rb")
    except FileNotFoundError as error:
        if os.path.exists("/proc/self"):
            raise
        raise AppError(
            "/proc is not mounted, so nobody can tell which disk a file lies on; mount it: mount -t proc proc /proc"
        ) from error


def _describe_root() -> Mount:
    """Describe the mount of the root folder by what its file system reports; the source stands for its number."""
    fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        status = os.fstatvfs(fd)
        return Mount(
            mount_id=get_mount_id(fd),
            device=os.fstat(fd).st_dev,
            root=b"/",
            mount_point=b"/",
            fs_type=_find_type(fd),
            source=f"fsid:{status.f_fsid:016x}",
            options=frozenset({"ro" if status.f_flag & os.ST_RDONLY else "rw"}),
        )
    finally:
        os.close(fd)


def _find_type(fd: int) -> str:
    """Return the type of the file system of an open file; its number, in hexadecimal, if it is none of the known."""
    import ctypes  # here, for it is asked only where there is no list of mounts

    from integrity.files.syscalls import find_function

    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if find_function("fstatfs", ctypes.c_int, ctypes.c_void_p)(fd, buffer) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    number = ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF
    return _TYPES.get(number, f"type-{number:x}")


@functools.lru_cache(_KNOWN_LINES)
def _parse(line: bytes) -> Mount:
    # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue; any number of fields before "-"
    before, _, after = line.rstrip(b"\n").partition(b" - ")
    mount_id, _, device, root, point, options, *_ = before.split(b" ")
    fs_type, source, super_options = [*after.split(b" "), b"", b""][:3]
    major, minor = device.split(b":")
    return Mount(
        mount_id=int(mount_id),
        device=os.makedev(int(major), int(minor)),
        root=_unescape(root),
        mount_point=_unescape(point),
        fs_type=_unescape(fs_type).decode("utf-8", "surrogateescape"),
        source=_unescape(source).decode("utf-8", "surrogateescape"),
        options=frozenset(_unescape(options + b"," + super_options).decode("utf-8", "surrogateescape").split(",")),
    )


def _unescape(field: bytes) -> bytes:
    # The kernel escapes space, tab, line feed, backslash and "#" as a backslash and three octal digits.
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), field)


def _read_uuid(fd: int, fs_type: str) -> bytes:
    """
    Query a file system for its UUID; return empty or zero bytes if it does not report one.

    Uses the type's own ioctl first: on ext4, FS_IOC_GETFSUUID returns the UUID as of the mount, and zeros if it was
    assigned later.
    """
    if fs_type in EXT_TYPES:
        info = _ioctl(fd, _EXT4_IOC_GETFSUUID, _EXT4_FSUUID.size, _EXT4_FSUUID.pack(16, 0, b""))
        if info is not None:
            return bytes(_EXT4_FSUUID.unpack(info)[2])
    elif fs_type == "xfs":
        info = _ioctl(fd, _XFS_IOC_FSGEOMETRY_V1, _XFS_GEOMETRY_BYTES)
        if info is not None:
            return info[_XFS_UUID_AT : _XFS_UUID_AT + 16]
    elif fs_type == "btrfs":
        info = _ioctl(fd, _BTRFS_IOC_FS_INFO, _BTRFS_FS_INFO_BYTES)
        if info is not None:
            return info[_BTRFS_FSID_AT : _BTRFS_FSID_AT + 16]
    value = _ioctl(fd, _FS_IOC_GETFSUUID, _FSUUID2_BYTES)
    return b"" if value is None else value[1 : 1 + value[0]]


def _ioctl(fd: int, request: int, size_bytes: int, question: bytes = b"") -> bytes | None:
    buffer = bytearray(question.ljust(size_bytes, b"\0"))
    try:
        fcntl.ioctl(fd, request, buffer)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise
    return bytes(buffer)


def _format_uuid(value: bytes) -> str:
    """Format a UUID as blkid does; those of FAT (4 bytes) and NTFS (8 bytes) are little-endian numbers."""
    if len(value) == 16:
        return str(uuid.UUID(bytes=value))
    digits = value[::-1].hex().upper()
    return f"{digits[:4]}-{digits[4:]}" if len(value) == 4 else digits


def _find_in_udev(mount: Mount) -> str | None:
    """Look the UUID up in udev's database, which even a sandbox without device nodes (PrivateDevices=) shows."""
    for device in (get_block_device(mount), mount.device):
        if not device:
            continue
        try:
            with open(
                f"{_UDEV_DATA}/b{os.major(device)}:{os.minor(device)}", encoding="utf-8", errors="replace"
            ) as file:
                lines = file.read().splitlines()
        except (FileNotFoundError, PermissionError):
            continue
        for line in lines:
            if line.startswith("E:ID_FS_UUID="):
                return line.partition("=")[2]
    return None


def _find_link(mount: Mount) -> str | None:
    try:
        names = os.listdir(_BY_UUID)
    except FileNotFoundError:
        return None  # no udev, as in a container
    devices = {mount.device, get_block_device(mount)}
    for name in sorted(names):
        try:
            device = os.stat(_BY_UUID + b"/" + name).st_rdev
        except FileNotFoundError:
            continue  # unplugged since the listing
        if device and device in devices:
            return name.decode("ascii", "backslashreplace")
    return None


def _read_boot_sector(mount: Mount) -> str | None:
    """Read the serial number of a FAT, exFAT or NTFS from its disk; None without the right to, or for other kinds."""
    if mount.fs_type not in _FOREIGN_TYPES or get_block_device(mount) is None:
        return None
    try:
        with open(mount.source, "rb", buffering=0) as device:
            sector = device.read(_BOOT_SECTOR_BYTES)
    except OSError:
        return None
    serials = (sector[where] for at, mark, where in _BOOT_SECTORS if sector.startswith(mark, at))
    return next((_format_uuid(serial) for serial in serials if any(serial)), None)
