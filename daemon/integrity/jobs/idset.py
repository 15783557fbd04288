"""A set of file ids as a bitmap: a million ids in 125 KB."""

from __future__ import annotations

from collections.abc import Iterable

from integrity.model import FileId


class IdSet:
    """A growing set of small positive integers."""

    def __init__(self) -> None:
        self._bits = bytearray()
        self._count = 0

    def add(self, file_id: FileId) -> bool:
        """Put an id in; say whether it was new."""
        byte, bit = file_id >> 3, 1 << (file_id & 7)
        try:
            old = self._bits[byte]
        except IndexError:
            self._bits.extend(bytes(byte + 1 - len(self._bits) + 4096))
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
                bits.extend(bytes(byte + 1 - len(bits) + 4096))
                old = 0
            if not old & bit:
                bits[byte] = old | bit
                count += 1
        self._count = count

    def discard(self, file_id: FileId) -> None:
        """Take an id out, if it is in."""
        if file_id in self:
            self._bits[file_id >> 3] &= ~(1 << (file_id & 7))
            self._count -= 1

    def __contains__(self, file_id: FileId) -> bool:
        byte = file_id >> 3
        return byte < len(self._bits) and bool(self._bits[byte] & (1 << (file_id & 7)))

    def __len__(self) -> int:
        return self._count
