"""
Provide the memory that files are read into: a ring of aligned buffers, touched once and reused.

- Aligned to huge pages and backed by them if possible: a disk is told the address of each page, and 2,048 small pages
  per 8 MiB read cost more than a fast disk needs for the data (on a virtual disk: a third of the rate).
- Touched: on btrfs, O_DIRECT into an untouched page silently uses the page cache, so a scrub would read memory instead
  of the disk.
- Not inherited by children: after a fork, the next write copies private pages, which on btrfs counts as untouched.
"""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress

_HUGE_PAGE_BYTES = 2 << 20  # of x86-64, and of ARM64 with pages of 4 KiB


class Buffers:
    """
    A ring of buffers for one reading thread.

    The data of the last ``count`` acquisitions is valid: with two buffers, one can be hashed while the other is filled.
    The holder of a slice must be done with it before the ring reaches that buffer again.
    """

    def __init__(self, size_bytes: int = 8 << 20, count: int = 2, memory: memoryview | None = None) -> None:
        """
        Map and touch the memory.

        Args:
            size_bytes: of each buffer; a multiple of the page size.
            count: at least 1.
            memory: use this instead; page-aligned and large enough.
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
        Cut the same memory into rings of one smaller buffer each, to read files side by side.

        A page is left out between two buffers: addresses that differ by a large power of two compete for the same sets
        of the processor's caches. The new rings and this one overwrite each other's data.
        """
        starts = range(0, len(self._memory) - size_bytes + 1, size_bytes + mmap.PAGESIZE)
        return [Buffers(size_bytes, 1, self._memory[start:]) for start in starts]

    @property
    def memory(self) -> memoryview:
        """Return all of the memory, for callers that divide it themselves; the ring's data is overwritten."""
        return self._memory

    def acquire(self) -> memoryview:
        """Return the next buffer of the ring, whole and writable."""
        view = self._views[self._next]
        self._next = (self._next + 1) % self.count
        return view

    def release(self) -> None:
        """Undo the last ``acquire``: the next one returns the same buffer."""
        self._next = (self._next - 1) % self.count

    def close(self) -> None:
        """Free the memory; slices that are still held keep it alive. May be called twice."""
        self._views.clear()
        self._memory = memoryview(b"")

    def __enter__(self) -> Buffers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _map(size_bytes: int) -> memoryview:
    """Map memory that starts on a huge page boundary, and touch it."""
    whole = mmap.mmap(-1, size_bytes + _HUGE_PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    whole.madvise(mmap.MADV_DONTFORK)
    with suppress(OSError):  # the kernel has no huge pages
        whole.madvise(mmap.MADV_HUGEPAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    memory = memoryview(whole)[-address % _HUGE_PAGE_BYTES :][:size_bytes]
    memory[:: mmap.PAGESIZE] = b"\1" * (size_bytes // mmap.PAGESIZE)
    return memory
