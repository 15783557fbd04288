"""
What goes into and comes out of a call of the C core that reads a batch of files.

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from integrity._native import ffi, lib
from integrity.errors import NativeError

if TYPE_CHECKING:
    from integrity._native import CData


class Packed:
    """
    Paths, and room for a record of each.

    Attributes:
        paths: ``file_batch_paths *`` of native/file_batch.h.
        records: ``file_batch_record[]``.
    """

    __slots__ = ("_text", "paths", "records")

    def __init__(self, text: bytes, count: int) -> None:
        self._text = ffi.from_buffer(text)  # keeps the bytes that the structure points to
        self.paths = ffi.new("file_batch_paths *", (self._text, len(text), count))
        self.records = ffi.new("file_batch_record[]", count)


def pack(paths: Sequence[bytes]) -> Packed | None:
    """
    Pack paths.

    Returns:
        None if one of them holds a NUL byte: there is no such file, and all paths behind it would be mistaken.
    """
    text = b"\0".join(paths) + b"\0"
    return Packed(text, len(paths)) if text.count(b"\0") == len(paths) else None


def digest(arena: CData, packed: Packed, count: int) -> None:
    """
    Write the MD5 of the first so many files that were read into their records.

    Raises:
        NativeError: the C core fails its self-test.
    """
    if lib.file_batch_digest(arena, packed.records, count) != 0:
        raise NativeError("cannot compute MD5: the C core fails its self-test; set INTEGRITY_NATIVE=off")


def digest_crc64(arena: CData, packed: Packed, count: int) -> None:
    """Write the CRC-64/NVME of those files into their records; only where ``hashing.crc64`` says that C computes it."""
    lib.file_batch_crc64(arena, packed.records, count)
