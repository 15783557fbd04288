"""
Read many small files in one call of the C core and without the interpreter lock.

The short way beside ``read``: it takes only files about which there is nothing to decide, and leaves all others to
``Reader.open``, which knows what to do and what to say. So it never raises, and what it gives is what the long way
would have given. To record, it reads what lies in memory, and waits for no disk, so any thread may use it at any time;
to see the disk, it reads past the page cache (R4).

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from integrity._native import ffi, lib
from integrity.files.packed import digest, digest_crc64, pack
from integrity.files.racy import RacyWindow
from integrity.model import ReadHow, Witness

if TYPE_CHECKING:
    from integrity._native import CData

_RECORD = struct.Struct("=QQqqqQ16s8s")
"""``file_batch_record`` of native/file_batch.h: status, size, mtime, ctime, inode (folded), offset, MD5, CRC."""

_READ = lib.FILE_BATCH_READ


class BatchFile(NamedTuple):
    """One stable version of a file. ``data`` lies in the arena, until the arena is used again."""

    witness: Witness
    data: memoryview
    md5: bytes | None
    crc64nvme: bytes | None = None


class BatchReader:
    """
    The short way into one root; made by ``Reader.batch``. Any thread may use it, each with its own arena.

    Args:
        root_fd: the root's folder; stays the caller's.
        begin_window: begins to note which times are in doubt.
        from_disk: past the page cache, on a file system that has no other; else from memory only.

    Attributes:
        how: how sure it is that the disk answered.
    """

    def __init__(self, root_fd: int, begin_window: Callable[[], RacyWindow], *, from_disk: bool) -> None:
        self._root_fd = root_fd
        self._begin_window = begin_window
        self._read = lib.stable_batch_read_disk if from_disk else lib.stable_batch_read
        self.how = ReadHow.DIRECT if from_disk else ReadHow.CACHE_POSSIBLE

    def read(
        self, paths: Sequence[bytes], limit_bytes: int, arena: memoryview, *, md5: bool = False, crc64nvme: bool = False
    ) -> list[BatchFile | None]:
        """
        Read files until the arena is full.

        Args:
            paths: relative to the root; at least one.
            limit_bytes: larger files are left alone.
            arena: writable; begins with a page.
            md5: digest them, all side by side.
            crc64nvme: digest them with CRC-64/NVME; only where ``hashing.crc64`` says that C computes it.

        Returns:
            One entry for each of the first so many paths, at least one: None for a file to be read the long way.
        """
        packed = pack(paths)
        if packed is None:
            return [None] * len(paths)
        window = self._begin_window()
        to = ffi.from_buffer(arena)
        done = self._read(
            self._root_fd, packed.paths, limit_bytes, window.recent_since_ns, to, len(arena), packed.records
        )
        in_doubt = window.end()
        if md5:
            digest(to, packed, done)
        if crc64nvme:
            digest_crc64(to, packed, done)
        return _decode(packed.records, done, in_doubt, arena, has_md5=md5, has_crc=crc64nvme)


def _decode(
    records: CData, count: int, in_doubt: tuple[int, int], arena: memoryview, *, has_md5: bool, has_crc: bool
) -> list[BatchFile | None]:
    files: list[BatchFile | None] = []
    since_ns, until_ns = in_doubt
    rows = islice(_RECORD.iter_unpack(ffi.buffer(records)), count)
    for status, size, mtime_ns, ctime_ns, inode, offset, md5, crc in rows:
        if status != _READ:
            files.append(None)
            continue
        is_racy = since_ns <= mtime_ns <= until_ns or since_ns <= ctime_ns <= until_ns
        witness = Witness(size, mtime_ns, ctime_ns, inode, is_racy)
        data = arena[offset : offset + size]
        files.append(BatchFile(witness, data, md5 if has_md5 else None, crc if has_crc else None))
    return files
