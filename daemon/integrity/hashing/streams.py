"""
Files that digest what goes through them, and whole files and messages digested in one call.

    with open("photo.jpg", "rb") as file, HashingReader(file) as reader:
        while block := reader.read(1 << 20):
            reader.md5.reset()      # or not: then the digest is of everything so far
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
    Digest messages that have nothing to do with each other; side by side, which is much faster than one by one.

    Args:
        buffers: each contiguous, none of which may be written to meanwhile.

    Returns:
        The digests, 16 bytes each, in the same order.

    Raises:
        TypeError: one of them is no buffer (text must be encoded first).
    """
    return digest_many(list(buffers))


def md5_file(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bytes:
    """
    Digest a file, or whatever else can be read to an end, and return 16 bytes.

    Raises:
        OSError: it can't be opened or read.
    """
    md5 = Md5()
    buffer = memoryview(bytearray(_AT_ONCE_BYTES))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            md5.update(buffer[:count])
    return md5.digest()


class _HashingFile(io.BufferedIOBase):
    """What both have: a file that is theirs to close, and a digest."""

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
    Read from a binary file and digest what was read. Closing it closes the file.

    Attributes:
        md5: the digest of everything read so far, or since it was reset.
    """

    def readable(self) -> bool:
        """Say yes."""
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Read at most so many bytes, all of them if negative; none at the end."""
        return self._digest(self._file.read(-1 if size is None else size))

    def read1(self, size: int = -1) -> bytes:
        """Read what one call gives, at most so many bytes; none at the end."""
        read1 = getattr(self._file, "read1", self._file.read)
        return self._digest(read1(size))

    def readinto(self, buffer: Buffer) -> int:
        """Read into a buffer without a copy; return how many bytes, 0 at the end."""
        with memoryview(buffer) as view, view.cast("B") as target:
            count: int = self._file.readinto(target)  # type: ignore[attr-defined] # binary files have it
            self.md5.update(target[:count])
        return count

    def readline(self, size: int | None = -1) -> bytes:
        """Read up to the end of a line, at most so many bytes."""
        return self._digest(self._file.readline(-1 if size is None else size))

    def _digest(self, data: bytes) -> bytes:
        self.md5.update(data)
        return data


class HashingWriter(_HashingFile):
    """
    Write to a binary file and digest what was written. Closing it closes the file.

    Attributes:
        md5: the digest of everything written so far, or since it was reset.
    """

    def writable(self) -> bool:
        """Say yes."""
        return True

    def write(self, data: Buffer) -> int:
        """Write bytes; return how many the file took, which are the ones that were digested."""
        with memoryview(data) as view, view.cast("B") as source:
            count = self._file.write(source)
            self.md5.update(source[:count])
        return count

    def flush(self) -> None:
        """Hand on what the file holds back."""
        if not self.closed:
            self._file.flush()
