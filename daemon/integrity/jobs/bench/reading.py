"""Hash a file in this process: the one loop that all of our own rows about files share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from integrity.files.buffers import Buffers
from integrity.jobs.bench.measure import measure
from integrity.jobs.bench.turns import Turn

_CHUNK_BYTES = 1 << 20


class Hasher(Protocol):
    """Takes bytes and gives a digest in the end."""

    def update(self, data: memoryview, /) -> object:
        """Append bytes."""

    def digest(self) -> bytes:
        """Return the digest of all of them."""


def hash_file(path: bytes, make: Callable[[], Hasher]) -> Turn:
    """Read a file and hash it, piece by piece."""
    with Buffers(_CHUNK_BYTES, count=1) as buffers:
        buffer = buffers.acquire()
        return Turn(measure(lambda: _read(path, make(), buffer)))


def _read(path: bytes, hasher: Hasher, buffer: memoryview) -> bytes:
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            hasher.update(buffer[:count])
    return hasher.digest()
