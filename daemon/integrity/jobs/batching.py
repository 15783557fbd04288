"""A set of file ids as a bitmap: a million ids in 125 KB."""

from __future__ import annotations

from collections.abc import Iterable

from integrity.model import FileId

_MOST_BYTES = 128 << 20
"""Of the bitmap: room for a thousand million files, whose ids are given one after the other."""


class IdSet:
    """A growing set of small integers; of others it may hold a few, for an id in a damaged row can be any."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._others: set[FileId] = set()
        self._count = 0

    def add(self, file_id: FileId) -> bool:
        """Put an id in; say whether it was new."""
        byte, bit = file_id >> 3, 1 << (file_id & 7)
        try:
            old = self._bits[byte]
        except IndexError:
            if not self._grow(byte):
                is_new = file_id not in self._others
                self._others.add(file_id)
                return is_new
            old = 0
        if old & bit:
            return False
        self._bits[byte] = old | bit
        self._count += 1
        return True

    def update(self, file_ids: Iterable[FileId]) -> None:
        """Put many ids in."""
        bits, count = self._bits, self._count
        for file_id in file_ids:
            byte, bit = file_id >> 3, 1 << (file_id & 7)
            try:
                old = bits[byte]
            except IndexError:
                if not self._grow(byte):
                    self._others.add(file_id)
                    continue
                old = 0
            if not old & bit:
                bits[byte] = old | bit
                count += 1
        self._count = count

    def discard(self, file_id: FileId) -> None:
        """Take an id out, if it is in."""
        if file_id in self._others:
            self._others.remove(file_id)
        elif file_id in self:
            self._bits[file_id >> 3] &= ~(1 << (file_id & 7))
            self._count -= 1

    def __contains__(self, file_id: FileId) -> bool:
        byte = file_id >> 3
        if byte < len(self._bits):
            return bool(self._bits[byte] & (1 << (file_id & 7)))
        return file_id in self._others

    def __len__(self) -> int:
        return self._count + len(self._others)

    def _grow(self, byte: int) -> bool:
        """Make room for a byte of the bitmap; return whether it may have one."""
        if not 0 <= byte < _MOST_BYTES:
            return False
        self._bits.extend(bytes(byte + 1 - len(self._bits) + 4096))
        return True
