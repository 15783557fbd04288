"""
Find the mirror below a file system, and read each copy of a file's part on its own.

A mirror keeps all data in several copies and answers each read from one of them. So a read returns a damaged copy only
now and then, and one good read proves nothing about the other copies. Decides whether a file system lies on a mirror
(md raid1 and raid10, LVM raid1, btrfs raid1, raid10 and dup) and which command compares its copies. Reading a copy
needs read access to the devices.

I1  Nothing here writes, neither to a device nor to its settings.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from integrity.files.block_devices import find_nodes, list_attributes, read_attribute
from integrity.files.extents import Extent, iterate_extents
from integrity.files.mounts import find_uuid, get_mount

_SECTOR_BYTES = 512  # unit of sizes and offsets in sysfs, independent of the disk's sector size
_ALIGNMENT_BYTES = 4096
_LVM_IMAGE = re.compile(r"_[rm]image_\d+$")

# linux/btrfs.h and linux/btrfs_tree.h
_BTRFS_IOC_TREE_SEARCH = 0xD0009411
_BTRFS_IOC_DEV_INFO = 0xD000941E
_SEARCH_KEY = struct.Struct("=QQQQQQQLLLL4Q")
_SEARCH_BYTES = 4096
_ITEM_HEAD = struct.Struct("=QQQLL")  # transaction, objectid, offset, type, length
_CHUNK = struct.Struct("=QQQQLLLHH")  # length, owner, stripe length, profile, 3 sizes, stripes, sub-stripes
_STRIPE = struct.Struct("=QQ16x")  # device, offset
_CHUNK_TREE, _CHUNK_OBJECT, _CHUNK_TYPE = 3, 256, 228
_U64_MAX = (1 << 64) - 1
_BTRFS_STRIPED = 0x8 | 0x40 | 0x80 | 0x100  # RAID0, RAID10, RAID5, RAID6: no copy is contiguous
_BTRFS_COPIES = {"raid1": 2, "raid1c3": 3, "raid1c4": 4, "raid10": 2, "dup": 2}

_NOT_FOR_US = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENXIO, errno.ENODEV})


class Leg(NamedTuple):
    """
    One of the devices of a mirror.

    Args:
        shift_bytes: add this to an offset in the file system's device to get the offset here.
    """

    path: str
    shift_bytes: int


class Mirror(NamedTuple):
    """
    A mirror that a file system lies on.

    Args:
        kind: to display: "md raid1", "LVM raid1", "btrfs raid1".
        name: to display: the array, or the mount point of a btrfs.
        copies: number of copies of all data.
        check: the command that compares or verifies the copies.
        legs: each holds one contiguous copy; empty if copies are striped, or their offsets are unknown.
    """

    kind: str
    name: str
    copies: int
    check: str
    legs: tuple[Leg, ...] = ()


class MirrorCopy(NamedTuple):
    """The data of a file's part in one copy; ``data`` is None if it cannot be read there."""

    device: str
    data: bytes | None


def find_mirror(root_fd: int) -> Mirror | None:
    """
    Return the mirror that an open root lies on; None if there is none or the kernel does not report it.

    Raises:
        OSError: the root cannot be queried.
    """
    mount = get_mount(root_fd)
    if mount.fs_type == "btrfs":
        point = os.fsdecode(mount.mount_point)
        return find_btrfs_mirror(f"/sys/fs/btrfs/{find_uuid(root_fd, mount)}", point)
    return next((mirror for node in find_nodes(root_fd, mount) if (mirror := find_mirror_of(node)) is not None), None)


def find_btrfs_mirror(node: str, mount_point: str) -> Mirror | None:
    """
    Return the mirror of a btrfs whose data profile keeps several copies; None for other profiles.

    Args:
        mount_point: for the check command.
    """
    profiles = list_attributes(f"{node}/allocation/data")
    profile = next((name for name in _BTRFS_COPIES if name in profiles), None)
    if profile is None:
        return None
    return Mirror(f"btrfs {profile}", mount_point, _BTRFS_COPIES[profile], f"btrfs scrub start -B {mount_point}")


def find_mirror_of(node: str) -> Mirror | None:
    """
    Return the mirror that a block device is or lies on; None if there is none.

    Args:
        node: the sysfs folder of the device.
    """
    if os.path.exists(f"{node}/partition"):
        whole = find_mirror_of(os.path.dirname(node))
        start = int(read_attribute(f"{node}/start") or 0) * _SECTOR_BYTES
        return None if whole is None else _shift(whole, start)
    if (level := read_attribute(f"{node}/md/level")) is not None:
        return _describe_md(node, level)
    below = [os.path.realpath(f"{node}/slaves/{name}") for name in list_attributes(f"{node}/slaves")]
    images = [one for one in below if _LVM_IMAGE.search(read_attribute(f"{one}/dm/name") or "")]
    if images:
        return _describe_lvm(node, sorted(images, key=_image_number))
    for lower in below:  # a linear map or encryption: sysfs does not show where the copies begin
        mirror = find_mirror_of(lower)
        if mirror is not None:
            return Mirror(mirror.kind, mirror.name, mirror.copies, mirror.check)
    return None


def _shift(mirror: Mirror, by_bytes: int) -> Mirror:
    legs = tuple(Leg(leg.path, leg.shift_bytes + by_bytes) for leg in mirror.legs)
    return Mirror(mirror.kind, mirror.name, mirror.copies, mirror.check, legs)


def _describe_md(node: str, level: str) -> Mirror | None:
    if level not in ("raid1", "raid10"):
        return None  # parity is not read while all disks work: each read has one source
    name = os.path.basename(node)
    members = [f"{node}/md/{one}" for one in list_attributes(f"{node}/md") if one.startswith("dev-")]
    in_sync = sorted(one for one in members if "in_sync" in (read_attribute(f"{one}/state") or "").split(","))
    if len(in_sync) < 2:
        return None  # degraded: only one copy is left
    legs = tuple(
        Leg(_device_path(os.path.realpath(f"{one}/block")), int(read_attribute(f"{one}/offset") or 0) * _SECTOR_BYTES)
        for one in in_sync
    )
    is_whole = level == "raid1"
    check = f"echo check > /sys/block/{name}/md/sync_action, then: cat /sys/block/{name}/md/mismatch_cnt"
    return Mirror(f"md {level}", f"/dev/{name}", len(legs) if is_whole else 2, check, legs if is_whole else ())


def _describe_lvm(node: str, images: Sequence[str]) -> Mirror | None:
    size = read_attribute(f"{node}/size")
    if len(images) < 2 or any(read_attribute(f"{image}/size") != size for image in images):
        return None  # striped, or with parity: no image holds all data
    name = read_attribute(f"{node}/dm/name") or os.path.basename(node)
    legs = tuple(Leg(_device_path(image), 0) for image in images)
    check = f"lvchange --syncaction check /dev/mapper/{name}, then: lvs -o +lv_health_status,raid_mismatch_count"
    return Mirror("LVM raid1", f"/dev/mapper/{name}", len(legs), check, legs)


def _image_number(node: str) -> int:
    return int((read_attribute(f"{node}/dm/name") or "0").rpartition("_")[2])


def read_copies(mirror: Mirror, fd: int, offset: int, length: int) -> list[MirrorCopy]:
    """
    Read a part of a file from each copy of the mirror, bypassing the page cache.

    Args:
        offset: start of the part; a multiple of 4,096.
        length: of the part, which must end within the file.

    Returns:
        The copies, on md and LVM always in the same order; none if they are inaccessible: the devices may not be read,
        copies are striped, or the part is a hole, compressed or inline in metadata.
    """
    copies: list[tuple[str, bytes | None]] = []
    try:
        for extent, begin, end in _cut(fd, offset, length):
            places = _place(mirror, fd, extent.position + begin - extent.offset)
            parts = [(path, _read_device(path, position, end - begin)) for path, position in places]
            if not parts or (copies and len(parts) != len(copies)):
                return []
            copies = [_join(*pair) for pair in zip(copies or [("", b"")] * len(parts), parts, strict=True)]
    except OSError as error:
        if error.errno in _NOT_FOR_US:
            return []
        raise
    return [MirrorCopy(path, None if data is None else data[:length]) for path, data in copies]


def _join(before: tuple[str, bytes | None], part: tuple[str, bytes | None]) -> tuple[str, bytes | None]:
    path = part[0] if before[0] in ("", part[0]) else f"{before[0]}, {part[0]}"
    return path, None if before[1] is None or part[1] is None else before[1] + part[1]


def _cut(fd: int, offset: int, length: int) -> Iterator[tuple[Extent, int, int]]:
    """
    Split a part of a file at extent boundaries.

    Raises:
        OSError: ENXIO: some of it has no plain bytes on the device.
    """
    end = offset + -(-length // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    for extent in iterate_extents(fd, offset):
        if extent.offset > offset or not extent.is_plain:
            break
        until = min(extent.offset + extent.length, end)
        yield extent, offset, until
        offset = until
        if offset == end:
            return
    raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))


def _place(mirror: Mirror, fd: int, position: int) -> list[tuple[str, int]]:
    """Return the device and offset of each copy of a byte of the file system."""
    if mirror.kind.startswith("btrfs"):
        return _place_in_btrfs(fd, position)
    return [(leg.path, leg.shift_bytes + position) for leg in mirror.legs]


def _place_in_btrfs(fd: int, position: int) -> list[tuple[str, int]]:
    """Look the position up in the chunk tree of the mounted file system; needs CAP_SYS_ADMIN."""
    for start, chunk in _iterate_chunks(fd):
        length, _, _, profile, _, _, _, stripes, _ = _CHUNK.unpack_from(chunk)
        if not start <= position < start + length:
            continue
        if profile & _BTRFS_STRIPED:
            return []
        places = (_STRIPE.unpack_from(chunk, _CHUNK.size + index * _STRIPE.size) for index in range(stripes))
        return [(_get_btrfs_device(fd, device), offset + position - start) for device, offset in places]
    return []


def _iterate_chunks(fd: int) -> Iterator[tuple[int, bytes]]:
    """Yield the logical start address of each btrfs chunk, and its item."""
    first = 0
    while True:
        key = (_CHUNK_TREE, _CHUNK_OBJECT, _CHUNK_OBJECT, first, _U64_MAX, 0, _U64_MAX, _CHUNK_TYPE, _CHUNK_TYPE)
        buffer = bytearray(_SEARCH_BYTES)
        _SEARCH_KEY.pack_into(buffer, 0, *key, _SEARCH_BYTES, 0, 0, 0, 0, 0)
        fcntl.ioctl(fd, _BTRFS_IOC_TREE_SEARCH, buffer, True)
        count = _SEARCH_KEY.unpack_from(buffer)[9]
        at = _SEARCH_KEY.size
        for _ in range(count):
            _, _, start, _, length = _ITEM_HEAD.unpack_from(buffer, at)
            at += _ITEM_HEAD.size
            yield start, bytes(buffer[at : at + length])
            at += length
            first = start + 1
        if not count:
            return


def _get_btrfs_device(fd: int, device: int) -> str:
    buffer = bytearray(_SEARCH_BYTES)
    struct.pack_into("=Q", buffer, 0, device)
    fcntl.ioctl(fd, _BTRFS_IOC_DEV_INFO, buffer, True)
    return os.fsdecode(bytes(buffer[-1024:]).split(b"\0")[0])


def _read_device(path: str, position: int, length: int) -> bytes | None:
    """Read a device, bypassing the page cache; return None on EIO or at the end of the device."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        with mmap.mmap(-1, length) as buffer:  # O_DIRECT needs aligned memory
            done = 0
            while done < length:
                with memoryview(buffer)[done:] as rest:
                    got = os.preadv(fd, [rest], position + done)
                if not got:
                    return None  # past the end of the device
                done += got
            return buffer[:length]
    except OSError as error:
        if error.errno == errno.EIO:
            return None
        raise
    finally:
        os.close(fd)


def _device_path(node: str) -> str:
    return "/dev/" + os.path.basename(node).replace("!", "/")
