"""
Load many small files in one call of the C core, without the interpreter lock, whatever is cached: as md5sum reads.

Takes only files about which there is nothing to decide, and leaves all others to the caller. Importing this module
fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from integrity._native import ffi, lib
from integrity.files.packed import digest, pack

_RECORD = struct.Struct("=QQ24xQ16s8x")
"""``file_batch_record`` of native/file_batch.h: status, size, offset, MD5."""

_READ = lib.FILE_BATCH_READ


class LoadedFile(NamedTuple):
    """
    A file, as far as it was loaded.

    Attributes:
        size_bytes: of a regular file.
        data: in the arena, until that is used again; None if the file is the caller's to read.
        md5: if it was asked for.
    """

    size_bytes: int
    data: memoryview | None
    md5: bytes


def load_files(paths: Sequence[bytes], limit_bytes: int, arena: memoryview, *, md5: bool) -> list[LoadedFile]:
    """
    Load files until the arena is full.

    Args:
        paths: at least one.
        limit_bytes: larger files are left alone.
        arena: writable.
        md5: digest them, all side by side.

    Returns:
        One entry for each of the first so many paths, at least one.

    Raises:
        NativeError: the C core fails its self-test.
    """
    packed = pack(paths)
    if packed is None:
        return [LoadedFile(0, None, b"")] * len(paths)
    to = ffi.from_buffer(arena)
    done = lib.load_batch_read(packed.paths, limit_bytes, to, len(arena), packed.records)
    if md5:
        digest(to, packed, done)
    return [
        LoadedFile(size, arena[offset : offset + size] if status == _READ else None, md5_digest)
        for status, size, offset, md5_digest in islice(_RECORD.iter_unpack(ffi.buffer(packed.records)), done)
    ]
