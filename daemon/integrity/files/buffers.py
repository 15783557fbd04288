"""
Own the memory that files are read into: a ring of aligned buffers, touched once and used again and again.

- Aligned to huge pages, and asked to be made of them: a disk is told where to put each page by itself, and 2,048 small
  ones for a read of 8 MiB cost more than a fast disk needs for the data (on a virtual disk: a third of the rate).
- Touched: on btrfs O_DIRECT into a page that was never touched silently goes through the page cache, and a scrub would
  see memory instead of the disk.
- Not given to children: after a fork private pages would be copied on the next write, which on btrfs is the same as
  never touched.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress

_HUGE_PAGE_BYTES = 2 << 20  # of x86-64, and of ARM64 with pages of 4 KiB


class Buffers:
    """
    A ring of buffers, for one reading thread.

    With ``count`` buffers the data of the last ``count`` acquisitions is whole: with two, one can be hashed while the
    next is read. Whoever holds a slice must be done with it before it is that buffer's turn again.
    """

    def __init__(self, size_bytes: int = 8 << 20, count: int = 2, memory: memoryview | None = None) -> None:
        """
        Map and touch the memory.

        Args:
            size_bytes: of each; a multiple of the page size.
            count: at least 1.
            memory: to use instead; begins with a page and is large enough.
        """
        if size_bytes <= 0 or size_bytes % mmap.PAGESIZE or count < 1:
            raise ValueError(f"{count} buffers of {size_bytes} bytes: take whole pages, and at least one")
        self.size_bytes = size_bytes
        self.count = count
        self._memory = _map(size_bytes * count) if memory is None else memory
        self._views = [self._memory[index * size_bytes :][:size_bytes] for index in range(count)]
        self._next = 0

    def cut(self, size_bytes: int) -> list[Buffers]:
        """
        Cut the same memory into rings of one smaller buffer each, for files that are read side by side.

        A page is left out between two: memory whose addresses differ by a large power of two shares few places in the
        processor's caches. What the rings hold and what this one holds overwrite each other.
        """
        starts = range(0, len(self._memory) - size_bytes + 1, size_bytes + mmap.PAGESIZE)
        return [Buffers(size_bytes, 1, self._memory[start:]) for start in starts]

    @property
    def memory(self) -> memoryview:
        """Give all of it, for whoever cuts it up; what the ring holds is overwritten."""
        return self._memory

    def acquire(self) -> memoryview:
        """Return the next buffer of the ring, whole and writable."""
        view = self._views[self._next]
        self._next = (self._next + 1) % self.count
        return view

    def release(self) -> None:
        """Take back the last ``acquire``: nothing in it is needed, so the same buffer is next."""
        self._next = (self._next - 1) % self.count

    def close(self) -> None:
        """Free the memory; what somebody still holds a slice of goes with that slice. May be called twice."""
        self._views.clear()
        self._memory = memoryview(b"")

    def __enter__(self) -> Buffers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _map(size_bytes: int) -> memoryview:
    """Map memory that begins with a huge page, and touch it."""
    whole = mmap.mmap(-1, size_bytes + _HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole.madvise(mmap.MADV_DONTFORK)
    with suppress(OSError):  # a kernel without huge pages
        whole.madvise(mmap.MADV_HUGEPAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    memory = memoryview(whole)[-address % _HUGE_PAGE_BYTES :][:size_bytes]
    memory[:: mmap.PAGESIZE] = b"\1" * (size_bytes // mmap.PAGESIZE)
    return memory
