"""
The C core's CRC-64/NVME. Importing this module raises ImportError if the extension cannot be loaded.

Every call into C releases the interpreter lock.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from integrity._native import ffi, lib
from integrity.hashing.crc64_standin import check_blocks
from integrity.model import CRC64NVME_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FEATURES = {"vclmul": lib.CRC64_FEATURE_VCLMUL, "clmul": lib.CRC64_FEATURE_CLMUL, "table": 0}
"""Paths, widest first, with the feature bit that each needs."""

PATHS = tuple(_FEATURES)

_BY_SETTING = {"avx512": lib.CRC64_FEATURES_ALL, "avx2": lib.CRC64_FEATURE_CLMUL}
"""The widest path per value of INTEGRITY_NATIVE, which names a path of MD5; carry-less multiplication is as old as
AVX."""


def get_path() -> str | None:
    """Return the path in use; None if not even the portable one passes its self-test."""
    if lib.crc64_select() != 0:
        return None
    in_use = lib.crc64_features_in_use()
    return next(name for name, feature in _FEATURES.items() if in_use & feature == feature)


def limit_path(setting: str) -> None:
    """Use no path wider than this value of INTEGRITY_NATIVE allows, in the whole process."""
    lib.crc64_set_feature_mask(_BY_SETTING.get(setting, 0))


@contextmanager
def only_path(widest: str) -> Iterator[None]:
    """Use no wider path of ``PATHS`` within the block, for measurements and tests; then restore the earlier paths."""
    in_use_before = lib.crc64_features_in_use()
    lib.crc64_set_feature_mask(max(2 * _FEATURES[widest] - 1, 0))
    try:
        yield
    finally:
        lib.crc64_set_feature_mask(in_use_before)


def crc64(data: Buffer, state: int = 0) -> int:
    """
    Return the value of all bytes so far.

    Args:
        data: one contiguous buffer; must not change during the call.
        state: the value of the preceding bytes; 0 at the start.
    """
    view = data if type(data) is bytes else ffi.from_buffer(data)
    return lib.crc64_update(state, view, len(view))


def combine(first: int, second: int, second_bytes: int) -> int:
    """Return the value of two concatenated pieces from their values and the length of the second."""
    return lib.crc64_combine(first, second, second_bytes)


def digest_blocks(data: Buffer, block_bytes: int) -> bytes:
    """
    Return the value of each block, 8 bytes each, concatenated.

    Args:
        data: one contiguous buffer.
        block_bytes: block size, at least 1; the last block may be shorter.
    """
    if block_bytes < 1:
        raise ValueError("a block has at least one byte")
    view = data if type(data) is bytes else ffi.from_buffer(data)
    values = array("Q", bytes(CRC64NVME_BYTES * -(-len(view) // block_bytes)))
    lib.crc64_blocks(view, len(view), block_bytes, ffi.from_buffer("uint64_t[]", values))
    return _order(values).tobytes()


def combine_blocks(packed: Buffer, block_bytes: int, size_bytes: int) -> int:
    """
    Return the value of a whole file from those of its blocks.

    Args:
        packed: values of all blocks, as ``digest_blocks`` returns them.
        block_bytes: block size, at least 1.

    Raises:
        ValueError: a file of this size does not have this number of blocks.
    """
    values = array("Q", bytes(packed))
    check_blocks(len(values), block_bytes, size_bytes)
    last_bytes = size_bytes - block_bytes * (len(values) - 1) if values else 0
    return lib.crc64_combine_blocks(ffi.from_buffer("uint64_t[]", _order(values)), len(values), block_bytes, last_bytes)


def _order(values: array[int]) -> array[int]:
    """Convert values between this machine's byte order and that of packed values."""
    if sys.byteorder == "little":
        values.byteswap()
    return values
