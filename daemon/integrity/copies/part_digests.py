"""
The MD5 of the MD5s of a file's parts, as object stores state it for an upload in parts. No I/O.

It follows from the catalog's block digests where each part is one block. Otherwise one pass over the file computes it
for several sizes of parts: MD5s of adjacent ranges can't be combined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

from integrity.hashing import Md5

if TYPE_CHECKING:
    from typing_extensions import Buffer


MIB: Final = 1 << 20
_MD5_BYTES = 16
_MOST_GUESSES = 8
_USUAL_MIB = (8, 16, 5, 64, 15, 10, 100, 50, 32, 128, 25, 20, 6, 7, 256, 512, 1024)
"""Parts that programs upload, the most usual first: aws, its console, rclone and s3cmd, Duplicati, Cyberduck, ..."""


def join_parts(part_md5s: Iterable[bytes]) -> bytes:
    """Return the 16 bytes of the MD5 of the MD5s of parts."""
    return Md5(b"".join(part_md5s)).digest()


def split_evenly(size_bytes: int, part_bytes: int) -> tuple[int, ...]:
    """Cut a size into parts of one size, of which the last may be smaller; 0 bytes are one empty part."""
    whole, rest = divmod(size_bytes, part_bytes)
    return (part_bytes,) * whole + ((rest,) if rest or not whole else ())


def derive_from_blocks(parts: Sequence[int], file_md5: bytes, block_bytes: int, packed: bytes) -> bytes | None:
    """
    Derive the MD5 of the MD5s of parts from the digests in the catalog, without the file.

    Args:
        parts: the size of each.
        block_bytes: of each block.
        packed: the concatenated MD5s of the blocks; empty for a file of at most one block.

    Returns:
        None where the parts are not the blocks, so that the file has to be read.
    """
    if len(parts) == 1:
        return join_parts([file_md5])
    if tuple(parts) != split_evenly(sum(parts), block_bytes) or len(packed) != _MD5_BYTES * len(parts):
        return None
    return join_parts([packed])


def guess_part_bytes(size_bytes: int, parts: int) -> tuple[int, ...]:
    """
    List up to 8 part sizes that an upload of so many parts may have had, the likeliest first.

    For stores that do not state it. All parts but the last are taken to have one size: common ones, and multiples of a
    MiB if few fit.
    """
    if parts < 2 or size_bytes < parts:
        return (size_bytes,) if parts == 1 else ()
    least = -(-size_bytes // parts)
    most = (size_bytes - 1) // (parts - 1)
    usual = (mib * MIB for mib in _USUAL_MIB)
    fitting = range(-(-least // MIB) * MIB, most + 1, MIB)
    # For programs that cut a file into equal parts, or into decimal megabytes.
    odd = (least, -(-least // 1_000_000) * 1_000_000)
    found = dict.fromkeys(size for size in chain(usual, fitting[:_MOST_GUESSES], odd) if least <= size <= most)
    return tuple(found)[:_MOST_GUESSES]


class PartsHasher:
    """Compute the MD5 of the MD5s of parts from the bytes of a file, fed in order in pieces of any size."""

    __slots__ = ("_done", "_left_bytes", "_part", "_sizes")

    def __init__(self, parts: Sequence[int]) -> None:
        """Start; ``parts`` has the size of each."""
        self._sizes = iter(parts)
        self._done: list[bytes] = []
        self._part: Md5 | None = None
        self._left_bytes = 0
        self._begin_part()

    def _begin_part(self) -> None:
        self._left_bytes = next(self._sizes, -1)
        self._part = Md5() if self._left_bytes >= 0 else None

    def update(self, data: Buffer) -> None:
        """
        Append bytes.

        Raises:
            ValueError: there are more than the parts have.
        """
        view = memoryview(data).cast("B")
        while view.nbytes:
            if self._part is None:
                raise ValueError("there are more bytes than all parts have")
            piece = view[: self._left_bytes]
            self._part.update(piece)
            self._left_bytes -= piece.nbytes
            view = view[piece.nbytes :]
            if self._left_bytes == 0:
                self._end_part(self._part)

    def _end_part(self, part: Md5) -> None:
        self._done.append(part.digest())
        self._begin_part()

    def digest(self) -> bytes:
        """
        Return the 16 raw bytes.

        Raises:
            ValueError: bytes are missing.
        """
        while self._part is not None and self._left_bytes == 0:
            self._end_part(self._part)
        if self._part is not None:
            raise ValueError("there are fewer bytes than all parts have")
        return join_parts(self._done)
