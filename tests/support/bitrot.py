"""
Bit rot made to order: one bit of a file changed in the backing store, while its inode stays exactly as it was.

The way: FIEMAP gives the place of a byte on the device (on btrfs a logical address, which the mounted kernel's chunk
tree maps), sysfs gives the image behind the loop device, and one byte is written there. The page cache of the file
does not notice: ``drop_cache`` first, or read with O_DIRECT, to see it.

Files should be of random content and at least 4 KiB: inline, compressed, unwritten and hole extents have no plain bytes
on the device and are refused. So is every disk that is not a test's own: only images that ``LoopFS`` and ``make_image``
have named (``allow_damage``) are ever written to, and no block device, whatever lies behind it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import stat
import struct
from typing import NamedTuple

from support import AnyPath
from support.mountinfo import get_mount
from support.waiting import TimedOutError, wait_until

_PAGE_BYTES = mmap.PAGESIZE
_U64_MAX = 0xFFFF_FFFF_FFFF_FFFF

# linux/fiemap.h
_FS_IOC_FIEMAP = 0xC020660B
_FIEMAP_FLAG_SYNC = 1
_FIEMAP_EXTENT_LAST = 0x1
_NO_PLAIN_BYTES = {
    0x2: "unknown",
    0x4: "delayed allocation",
    0x8: "compressed",
    0x80: "encrypted",
    0x200: "inline",
    0x800: "unwritten",
}
_EXTENTS_PER_CALL = 512

# linux/btrfs.h and btrfs_tree.h
_BTRFS_IOC_TREE_SEARCH = 0xD0009411
_BTRFS_IOC_DEV_INFO = 0xD000941E
_CHUNK_TREE, _CHUNK_ITEM_TYPE, _CHUNK_OBJECT = 3, 228, 256
_STRIPED_PROFILES = 0x8 | 0x40 | 0x80 | 0x100  # RAID0, RAID10, RAID5, RAID6

_CACHESTAT_SYSCALL = 451  # Linux 6.5, the same number on every architecture

_libc = ctypes.CDLL(None, use_errno=True)

_images_of_tests: set[bytes] = set()


class NotOursError(AssertionError):
    """Say that a disk was not made by a test: nothing was written to it."""


class NoPlainBytesError(AssertionError):
    """Say that a byte of a file does not lie on the device as it is, so that it can't be damaged there."""


class Extent(NamedTuple):
    """A contiguous piece of a file on its device (on btrfs: in its logical address space)."""

    logical: int
    physical: int
    length: int
    flags: int


class Position(NamedTuple):
    """Where one byte of a file really lies."""

    image: bytes  # the file behind a loop device; of any other disk the device, which is never written to
    offset: int


class Identity(NamedTuple):
    """All that lstat tells of a file and that bit rot leaves as it was."""

    inode: int
    size_bytes: int
    mode: int
    mtime_ns: int
    ctime_ns: int
    blocks: int
    links: int


def identity(path: AnyPath) -> Identity:
    """Return what lstat says of ``path``."""
    seen = os.lstat(path)
    return Identity(
        seen.st_ino, seen.st_size, seen.st_mode, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_blocks, seen.st_nlink
    )


def find_extents(path: AnyPath) -> list[Extent]:
    """Return the extents of ``path`` in order; what is still unwritten is written first (FIEMAP_FLAG_SYNC)."""
    extents: list[Extent] = []
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        start = 0
        while True:
            head = struct.pack("=QQLLLL", start, _U64_MAX - start, _FIEMAP_FLAG_SYNC, 0, _EXTENTS_PER_CALL, 0)
            buffer = bytearray(head + bytes(56 * _EXTENTS_PER_CALL))
            fcntl.ioctl(fd, _FS_IOC_FIEMAP, buffer, True)
            count = struct.unpack_from("=L", buffer, 20)[0]
            for index in range(count):
                logical, physical, length, _, _, flags = struct.unpack_from("=QQQQQL", buffer, 32 + 56 * index)
                extents.append(Extent(logical, physical, length, flags))
            if count == 0 or extents[-1].flags & _FIEMAP_EXTENT_LAST:
                return extents
            start = extents[-1].logical + extents[-1].length
    finally:
        os.close(fd)


def _get_backing(device: bytes) -> bytes:
    """Return the file behind a loop device, or the device itself."""
    sysfs = b"/sys/block/" + os.path.basename(device) + b"/loop/backing_file"
    if not os.path.exists(sysfs):
        return device
    with open(sysfs, "rb") as file:
        return file.read().removesuffix(b"\n")


def _map_btrfs(mount_point: bytes, logical: int) -> list[Position]:
    """
    Map a btrfs logical address to the devices, one position for each mirror.

    The mounted kernel is asked: ``btrfs-map-logical`` reads the disk and misses what the last commit has not written.
    """
    fd = os.open(mount_point, os.O_RDONLY)
    try:
        key = (_CHUNK_TREE, _CHUNK_OBJECT, _CHUNK_OBJECT, 0, _U64_MAX, 0, _U64_MAX, _CHUNK_ITEM_TYPE, _CHUNK_ITEM_TYPE)
        buffer = bytearray(struct.pack("=QQQQQQQLLLL4Q", *key, 4096, 0, 0, 0, 0, 0) + bytes(3992))
        fcntl.ioctl(fd, _BTRFS_IOC_TREE_SEARCH, buffer, True)
        items, position = struct.unpack_from("=L", buffer, 64)[0], 104
        for _ in range(items):
            _, _, start, _, item_bytes = struct.unpack_from("=QQQLL", buffer, position)
            position += 32
            length, _, _, profile, _, _, _, stripes, _ = struct.unpack_from("=QQQQLLLHH", buffer, position)
            if start <= logical < start + length:
                if profile & _STRIPED_PROFILES:
                    raise NoPlainBytesError(f"btrfs profile {profile:#x} is striped: use single, DUP or RAID1")
                return [
                    Position(_get_backing(_get_btrfs_device(fd, device)), offset + logical - start)
                    for device, offset in (
                        struct.unpack_from("=QQ", buffer, position + 48 + 32 * stripe) for stripe in range(stripes)
                    )
                ]
            position += item_bytes
        raise NoPlainBytesError(f"btrfs logical address {logical} is in no chunk")
    finally:
        os.close(fd)


def _get_btrfs_device(fd: int, device: int) -> bytes:
    """Return the path of a btrfs device by its id."""
    info = bytearray(struct.pack("=Q", device) + bytes(4088))
    fcntl.ioctl(fd, _BTRFS_IOC_DEV_INFO, info, True)
    return bytes(info[-1024:]).split(b"\0")[0]


def get_positions(path: AnyPath, offset: int) -> list[Position]:
    """
    Return where byte ``offset`` of ``path`` lies, one position for each mirror.

    Raises:
        NoPlainBytesError: it is in a hole, past the end, or in an extent without plain bytes.
    """
    mount = get_mount(path)
    for extent in find_extents(path):
        if not extent.logical <= offset < extent.logical + extent.length:
            continue
        if reasons := [word for flag, word in _NO_PLAIN_BYTES.items() if extent.flags & flag]:
            raise NoPlainBytesError(f"{path!r}: the extent at {offset} is {', '.join(reasons)}")
        physical = extent.physical + offset - extent.logical
        if mount.fs_type == "btrfs":
            return _map_btrfs(mount.point, physical)
        return [Position(_get_backing(mount.source), physical)]
    raise NoPlainBytesError(f"{path!r}: byte {offset} is in a hole or past the end")


def allow_damage(image: AnyPath) -> None:
    """Note that a test has made ``image``, or a disk of it: it may be damaged from now on, by this process."""
    _images_of_tests.add(os.path.realpath(os.fsencode(image)))


def read_at(position: Position, size: int = 1) -> bytes:
    """Read bytes of an image."""
    fd = os.open(position.image, os.O_RDONLY)
    try:
        return os.pread(fd, size, position.offset)
    finally:
        os.close(fd)


def overwrite_at(position: Position, data: bytes) -> None:
    """
    Overwrite bytes of an image; the file system in it need not be mounted.

    Raises:
        NotOursError: no test has made this image, or it is a device.
    """
    if os.path.realpath(position.image) not in _images_of_tests:
        raise NotOursError(
            f"{os.fsdecode(position.image)!r} is no image of a LoopFS of this test run: nothing was written;"
            " damage files on a LoopFS, a FlakyDisk or a CrashDisk only"
        )
    fd = os.open(position.image, os.O_RDWR)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NotOursError(f"{os.fsdecode(position.image)!r} is a device, not an image: nothing was written")
        os.pwrite(fd, data, position.offset)
        os.fsync(fd)
    finally:
        os.close(fd)


def flip_at(position: Position, bit: int = 0) -> None:
    """Flip one bit of an image; see ``overwrite_at``."""
    overwrite_at(position, bytes([read_at(position)[0] ^ (1 << bit)]))


def flip_bit(path: AnyPath, offset: int = 0, bit: int = 0) -> None:
    """
    Flip one bit of byte ``offset`` of ``path`` on its device; the page cache keeps what it has.

    Args:
        path: a file on a mounted LoopFS.
        offset: of the byte in the file.
        bit: 0 to 7.

    Raises:
        NotOursError: it lies on another disk.
    """
    for position in get_positions(path, offset):
        flip_at(position, bit)


def rot(path: AnyPath, offset: int = 0, bit: int = 0) -> None:
    """
    Flip one bit of ``path`` on its device and drop its cached pages, so that the next reader meets it.

    Raises:
        AssertionError: pages of it stay cached (somebody has it mapped), or its identity changed meanwhile.
    """
    before = identity(path)
    flip_bit(path, offset, bit)
    left = drop_cache(path)
    assert left == 0, f"{path!r}: {left} bytes stay in the page cache"
    assert identity(path) == before, f"{path!r}: somebody wrote to it meanwhile"


def drop_cache(path: AnyPath) -> int:
    """
    Drop the cached pages of ``path`` and return how many bytes stay cached.

    Dirty pages are written first, as they are never dropped; pages still under readahead are waited for; mapped ones
    stay.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)

        def is_dropped() -> bool:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            return _count_cached(fd) == 0

        try:
            wait_until(is_dropped, "pages dropped", timeout_s=1)
        except TimedOutError:
            return _count_cached(fd)
        return 0
    finally:
        os.close(fd)


def cached_bytes(path: AnyPath) -> int:
    """Return how much of ``path`` is in the page cache, in whole pages, without touching any."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return _count_cached(fd)
    finally:
        os.close(fd)


def _count_cached(fd: int) -> int:
    """Ask cachestat(2), or mincore(2) on kernels before 6.5."""
    whole_file, answer = (ctypes.c_uint64 * 2)(0, 0), (ctypes.c_uint64 * 5)()
    if _libc.syscall(_CACHESTAT_SYSCALL, fd, whole_file, answer, 0) == 0:
        return int(answer[0]) * _PAGE_BYTES
    if ctypes.get_errno() != errno.ENOSYS:
        raise OSError(ctypes.get_errno(), f"cachestat: {os.strerror(ctypes.get_errno())}")
    size = os.fstat(fd).st_size
    return _count_resident(fd, size) if size else 0


def _count_resident(fd: int, size: int) -> int:
    """Map the file and ask mincore(2)."""
    _libc.mmap.restype = ctypes.c_void_p
    address = _libc.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0))
    pages = (ctypes.c_ubyte * ((size + _PAGE_BYTES - 1) // _PAGE_BYTES))()
    try:
        if _libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), pages) != 0:
            raise OSError(ctypes.get_errno(), f"mincore: {os.strerror(ctypes.get_errno())}")
    finally:
        _libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    return sum(page & 1 for page in pages) * _PAGE_BYTES


def read_direct(path: AnyPath, offset: int = 0, length: int = 4096) -> bytes:
    """Read with O_DIRECT, past the page cache; ``offset`` and ``length`` are multiples of 4096."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, length) as buffer:  # page-aligned
            # An untouched buffer faults in mid-read, and btrfs then silently reads through the cache instead.
            buffer[:] = b"\xa5" * length
            return buffer[: os.preadv(fd, [buffer], offset)]
    finally:
        os.close(fd)
