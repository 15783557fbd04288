"""
File wrappers that digest what is read or written, and digests of whole files and messages in one call.

    with open("photo.jpg", "rb") as file, HashingReader(file) as reader:
        while block := reader.read(1 << 20):
            reader.md5.reset()      # optional: without it the digest covers everything so far
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from integrity.hashing.md5 import Md5, digest_many

if TYPE_CHECKING:
    from typing_extensions import Buffer

_AT_ONCE_BYTES = 1 << 20


def md5_many(buffers: Iterable[Buffer]) -> list[bytes]:
    """
    Digest independent messages, side by side: much faster than one by one.

    Args:
        buffers: each contiguous; they must not change during the call.

    Returns:
        The digests, 16 bytes each, in the same order.

    Raises:
        TypeError: an item is no buffer (encode text first).
    """
    return digest_many(list(buffers))


def md5_file(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bytes:
    """
    Return the 16-byte MD5 of a file, or of anything else that can be read to an end.

    Raises:
        OSError: it cannot be opened or read.
    """
    md5 = Md5()
    buffer = memoryview(bytearray(_AT_ONCE_BYTES))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            md5.update(buffer[:count])
    return md5.digest()


class _HashingFile(io.BufferedIOBase):
    """Base class: owns a file and a digest."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.md5 = Md5()

    def close(self) -> None:
        """Close the file as well; may be called twice."""
        if not self.closed:
            try:
                super().close()
            finally:
                self._file.close()


class HashingReader(_HashingFile):
    """
    Read from a binary file and digest the data. Closing it closes the file.

    Attributes:
        md5: the digest of everything read so far, or since its reset.
    """

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Read at most this many bytes, all if negative; empty at the end."""
        return self._digest(self._file.read(-1 if size is None else size))

    def read1(self, size: int = -1) -> bytes:
        """Read with one call of the file, at most this many bytes; empty at the end."""
        read1 = getattr(self._file, "read1", self._file.read)
        return self._digest(read1(size))

    def readinto(self, buffer: Buffer) -> int:
        """Read into a buffer without a copy; return the number of bytes, 0 at the end."""
        with memoryview(buffer) as view, view.cast("B") as target:
            count: int = self._file.readinto(target)  # type: ignore[attr-defined] # binary files have it
            self.md5.update(target[:count])
        return count

    def readline(self, size: int | None = -1) -> bytes:
        """Read up to the end of a line, at most this many bytes."""
        return self._digest(self._file.readline(-1 if size is None else size))

    def _digest(self, data: bytes) -> bytes:
        self.md5.update(data)
        return data


class HashingWriter(_HashingFile):
    """
    Write to a binary file and digest the data. Closing it closes the file.

    Attributes:
        md5: the digest of everything written so far, or since its reset.
    """

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer) -> int:
        """Write bytes; return the number that the file accepted, which are also those digested."""
        with memoryview(data) as view, view.cast("B") as source:
            count = self._file.write(source)
            self.md5.update(source[:count])
        return count

    def flush(self) -> None:
        """Flush the file."""
        if not self.closed:
            self._file.flush()
