"""
Own the memory that files are read into: a ring of page-aligned buffers, touched once and used again and again.

- Page-aligned, as O_DIRECT asks for it.
- Touched: on btrfs O_DIRECT into a page that was never touched silently goes through the page cache, and a scrub would
  see memory instead of the disk.
- Shared, though nobody shares them: after a fork private pages would be copied on the next write, which on btrfs is the
  same as never touched.
"""

from __future__ import annotations

import mmap


class Buffers:
    """
    A ring of buffers, for one reading thread.

    With ``count`` buffers the data of the last ``count`` acquisitions is whole: with two, one can be hashed while the
    next is read. Whoever holds a slice must be done with it before it is that buffer's turn again.
    """

    def __init__(self, size_bytes: int = 8 << 20, count: int = 2) -> None:
        """
        Map and touch the memory.

        Args:
            size_bytes: of each; a multiple of the page size.
            count: at least 1.
        """
        if size_bytes <= 0 or size_bytes % mmap.PAGESIZE or count < 1:
            raise ValueError(f"{count} buffers of {size_bytes} bytes: take whole pages, and at least one")
        self.size_bytes = size_bytes
        self.count = count
        self._maps = [mmap.mmap(-1, size_bytes) for _ in range(count)]
        for one in self._maps:
            one[:: mmap.PAGESIZE] = b"\1" * (size_bytes // mmap.PAGESIZE)
        self._views = [memoryview(one) for one in self._maps]
        self._next = 0

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
        self._maps.clear()

    def __enter__(self) -> Buffers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
