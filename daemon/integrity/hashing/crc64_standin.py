"""CRC-64/NVME in Python, used without the C core; native/crc64.h defines it."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from integrity.model import CRC64NVME_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer

_POLYNOMIAL = 0x9A6C9329AC4BC9B5  # the lowest power in the highest bit, without x^64
_ALL_ONES = (1 << 64) - 1
_ONE = 1 << 63
_X_TO_8 = 1 << 55


@cache
def _make_table() -> tuple[int, ...]:
    """Return the table of a byte-wise CRC: entry b is the remainder of byte b after eight shifts."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return tuple(table)


def crc64(data: Buffer, state: int = 0) -> int:
    """Return the value of all bytes so far; ``state`` is that of the preceding bytes."""
    table = _make_table()
    register = state ^ _ALL_ONES
    for byte in memoryview(data).cast("B"):
        register = register >> 8 ^ table[(register ^ byte) & 0xFF]
    return register ^ _ALL_ONES


def combine(first: int, second: int, second_bytes: int) -> int:
    """Return the value of two concatenated pieces from their values and the length of the second."""
    return _multiply(_find_shift(second_bytes), first) ^ second


def digest_blocks(data: Buffer, block_bytes: int) -> bytes:
    """Return the value of each block, 8 bytes each, concatenated."""
    if block_bytes < 1:
        raise ValueError("a block has at least one byte")
    view = memoryview(data).cast("B")
    blocks = (view[at : at + block_bytes] for at in range(0, len(view), block_bytes))
    return b"".join(crc64(block).to_bytes(CRC64NVME_BYTES, "big") for block in blocks)


def combine_blocks(packed: Buffer, block_bytes: int, size_bytes: int) -> int:
    """Return the value of a whole file from those of its blocks; raise ValueError if their number does not fit."""
    data = bytes(packed)
    check_blocks(len(data) // CRC64NVME_BYTES, block_bytes, size_bytes)
    shift = _find_shift(block_bytes)
    whole = 0
    left_bytes = size_bytes
    for at in range(0, len(data), CRC64NVME_BYTES):
        value = int.from_bytes(data[at : at + CRC64NVME_BYTES], "big")
        whole = _multiply(shift, whole) ^ value if left_bytes >= block_bytes else combine(whole, value, left_bytes)
        left_bytes -= block_bytes
    return whole


def check_blocks(count: int, block_bytes: int, size_bytes: int) -> None:
    """Raise ValueError unless a file of this size has this number of blocks."""
    if block_bytes < 1:
        raise ValueError("a block has at least one byte")
    if count != -(-size_bytes // block_bytes):
        raise ValueError(f"{count} blocks of {block_bytes} bytes are not those of {size_bytes} bytes")


@lru_cache(maxsize=64)
def _find_shift(bytes_behind: int) -> int:
    """Return x^(8n) modulo the polynomial: the factor that n following bytes apply to a value."""
    shift, square = _ONE, _X_TO_8
    while bytes_behind:
        if bytes_behind & 1:
            shift = _multiply(shift, square)
        square = _multiply(square, square)
        bytes_behind >>= 1
    return shift


def _multiply(first: int, second: int) -> int:
    product = 0
    while first:
        if first & _ONE:
            product ^= second
        first = first << 1 & _ALL_ONES
        second = second >> 1 ^ (_POLYNOMIAL if second & 1 else 0)
    return product
