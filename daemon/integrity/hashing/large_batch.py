"""
Large files of one thread, a piece of each in turn: read and digested by the C core, all their MD5s side by side.

The MD5 of one file is a chain, which no processor computes as fast as it reads memory; those of many files have nothing
to do with each other and fill the lanes. The interpreter is asked when a file ends, or every tenth of a second.

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Generic, TypeVar

from integrity._native import ffi, lib
from integrity.errors import NativeError
from integrity.hashing.digests import Want
from integrity.hashing.md5_native import SELF_TEST_FAILED, Scheduler, export_state, import_state
from integrity.hashing.small_batch import CRC64NVME, MD5, XXH3_128
from integrity.model import CRC64NVME_BYTES, MD5_BYTES, XXH3_128_BYTES, Blocks

if TYPE_CHECKING:
    from integrity._native import CData

T = TypeVar("T")

_PIECE_BYTES = 128 << 10
"""Read at once of a file: the pieces of all files under way fit the cache that the processor's cores share."""

_STRIDE_BYTES = _PIECE_BYTES + mmap.PAGESIZE
"""Memory whose addresses differ by a large power of two shares few places in the processor's caches."""

_MOST_NS = 100_000_000
_MOST_BLOCKS = 1024


class LargeFile(Generic[T]):
    """
    One file under way; made by ``LargeBatch.begin``.

    Attributes:
        owner: as given.
    """

    __slots__ = ("_crc64s", "_data", "_md5s", "_xxh3s", "owner")

    def __init__(self, owner: T, data: CData) -> None:
        self.owner = owner
        self._data = data
        self._xxh3s = ffi.new("uint8_t[]", _MOST_BLOCKS * XXH3_128_BYTES)
        self._md5s = ffi.new("uint8_t[]", _MOST_BLOCKS * MD5_BYTES)
        self._crc64s = ffi.new("uint8_t[]", _MOST_BLOCKS * CRC64NVME_BYTES)
        data.block_xxh3s, data.block_md5s, data.block_crc64s = self._xxh3s, self._md5s, self._crc64s

    @property
    def position(self) -> int:
        """Say up to where the file is read and digested."""
        return self._data.position

    @property
    def is_active(self) -> bool:
        """Say whether it is still being read."""
        return self._data.status == lib.LARGE_BATCH_ACTIVE

    @property
    def is_halted(self) -> bool:
        """Say whether it waits at the border of a block, for ``go_on``."""
        return self._data.status == lib.LARGE_BATCH_HALTED

    @property
    def error(self) -> int | None:
        """Give the error number if it could not be read to its end."""
        return self._data.error if self._data.status == lib.LARGE_BATCH_FAILED else None

    def halt(self) -> None:
        """Have it stop at the next border of a block."""
        self._data.halts = 1

    def go_on(self) -> None:
        """Go on after it has halted."""
        self._data.halts = 0
        self._data.status = lib.LARGE_BATCH_ACTIVE

    def take_blocks(self) -> Blocks:
        """Hand over the digests of the blocks since the last call."""
        count, wanted = self._data.blocks_done, self._data.wanted_of_blocks
        self._data.blocks_done = 0
        return Blocks(
            self._data.block_bytes,
            bytes(ffi.buffer(self._xxh3s, count * XXH3_128_BYTES)) if wanted & XXH3_128 else b"",
            bytes(ffi.buffer(self._md5s, count * MD5_BYTES)) if wanted & MD5 else b"",
            bytes(ffi.buffer(self._crc64s, count * CRC64NVME_BYTES)) if wanted & CRC64NVME else b"",
        )

    def md5_state(self) -> bytes | None:
        """Export the MD5 up to ``position``, while the file has halted; None if nobody wants it."""
        return export_state(ffi.addressof(self._data, "whole_md5")) if self._data.wanted & MD5 else None

    @property
    def md5(self) -> bytes | None:
        """Give the MD5 of the file, when it has ended; None if nobody wants it."""
        return bytes(ffi.buffer(ffi.addressof(self._data, "md5"))) if self._data.wanted & MD5 else None

    @property
    def xxh3_128(self) -> bytes | None:
        """Give the XXH3-128 of the file, when it has ended; None if nobody wants it."""
        return bytes(ffi.buffer(ffi.addressof(self._data, "xxh3_128"))) if self._data.wanted & XXH3_128 else None


class LargeBatch(Generic[T]):
    """
    The large files of one thread.

    Args:
        memory: for the pieces; used as long as there are files.
        most_files: at a time.
    """

    def __init__(self, memory: memoryview, most_files: int) -> None:
        self._scheduler = Scheduler()
        self._count = min(most_files, len(memory) // _STRIDE_BYTES)
        # The bare address: CPython crashes when its collector clears a memoryview that cffi still has a buffer of.
        self._memory, self._pieces = memory, ffi.cast("uint8_t *", ffi.from_buffer(memory))
        self._files = ffi.new("large_batch_file[]", self._count)
        self._places = list(range(self._count))
        self.under_way: dict[int, LargeFile[T]] = {}

    @property
    def room(self) -> int:
        """Say how many files can be begun."""
        return len(self._places)

    def begin(
        self,
        owner: T,
        fd: int,
        want: Want,
        *,
        end: int,
        block_bytes: int,
        start: int = 0,
        md5_state: bytes | None = None,
    ) -> LargeFile[T]:
        """
        Begin a file; there must be room.

        Args:
            owner: comes back with it.
            fd: the open file; stays open until the file is released.
            want: MD5, XXH3-128, and of blocks CRC-64/NVME as well; anything else is not computed here.
            end: read no further.
            block_bytes: of its blocks.
            start: a multiple of ``block_bytes``; whole-file digests need it to be 0, MD5 may have a state instead.
            md5_state: exported at ``start``.

        Raises:
            NativeError: the state is damaged, or the C core fails its self-test.
        """
        data = ffi.addressof(self._files, self._places[-1])
        has_md5 = want.md5 and (not start or md5_state is not None)
        data.fd, data.position, data.end_bytes = fd, start, end
        data.wanted = MD5 * has_md5 | XXH3_128 * (want.xxh3_128 and not start)
        data.block_bytes, data.blocks_room = block_bytes, _MOST_BLOCKS
        data.wanted_of_blocks = MD5 * want.block_md5 | XXH3_128 * want.block_xxh3_128 | CRC64NVME * want.crc64nvme
        if start and md5_state is not None:
            import_state(ffi.addressof(data, "whole_md5"), md5_state)
        if lib.large_batch_begin(data) != 0:
            raise NativeError(SELF_TEST_FAILED)
        file = self.under_way[self._places.pop()] = LargeFile(owner, data)
        return file

    def run(self) -> list[LargeFile[T]]:
        """Read and digest for a while; give the files that are ``is_active`` no longer."""
        lib.large_batch_run(
            self._scheduler.data, self._files, self._count, self._pieces, _PIECE_BYTES, _STRIDE_BYTES, _MOST_NS
        )
        return [file for file in self.under_way.values() if not file.is_active]

    def release(self, file: LargeFile[T]) -> None:
        """Make room, after a file is ``is_active`` no longer."""
        place = next(place for place, one in self.under_way.items() if one is file)
        del self.under_way[place]
        self._places.append(place)

    def drop_all(self) -> None:
        """Make room whatever is under way: nobody needs it any more."""
        self._scheduler.flush()
        for place in list(self.under_way):
            ffi.addressof(self._files, place).status = lib.LARGE_BATCH_IDLE
            self._places.append(place)
        self.under_way.clear()
