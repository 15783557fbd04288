"""
Compute CRC-64/NVME, which S3 stores per object; decide between the C core and the Python fallback.

Values are integers, or 8 bytes with the most significant first. The values of pieces can be combined without their
data, so a file's block values give an object's value, whatever parts it was uploaded in.

The choice is made on import: the C core, unless ``INTEGRITY_NATIVE=off`` is set, the extension cannot be loaded, or it
fails its self-test. Both return the same values; the fallback is a thousand times slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.hashing.native_setting import OFF, read_setting
from integrity.model import CRC64NVME_BYTES

__all__ = ["combine", "combine_blocks", "crc64", "digest_blocks", "find_path", "is_native", "pack"]


def _find_native() -> bool:
    """Load the C core, limit it to the configured path, and return whether it passes its self-test."""
    setting = read_setting()
    if setting == OFF:
        return False
    try:
        from integrity.hashing import crc64_native
    except ImportError:
        # hashing.md5 stores the reason for `integrity --version`: the extension is the same.
        return False
    if setting:
        crc64_native.limit_path(setting)
    return crc64_native.get_path() is not None


is_native = _find_native()
"""Whether the C core computes. If not, compute these values only on explicit request: the fallback is slow."""

if TYPE_CHECKING or is_native:
    # Type checkers need one of the two; the tests require both to behave alike.
    from integrity.hashing.crc64_native import combine, combine_blocks, crc64, digest_blocks
else:
    from integrity.hashing.crc64_standin import combine, combine_blocks, crc64, digest_blocks


def pack(value: int) -> bytes:
    """Return a value as 8 bytes, as the catalog and S3 store it."""
    return value.to_bytes(CRC64NVME_BYTES, "big")


def find_path() -> str:
    """Return the implementation in use: a path of the C core, or ``python``."""
    if not is_native:
        return "python"
    from integrity.hashing import crc64_native

    return crc64_native.get_path() or "none"
