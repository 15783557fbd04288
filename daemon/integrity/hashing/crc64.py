"""
CRC-64/NVME, the checksum that S3 keeps of whole objects: decide whether the C core computes it or Python stands in.

Values are integers; where they are bytes, they are 8 with the most significant first. The values of pieces can be put
together without the pieces, so that those of a file's blocks answer for an object whatever parts it was uploaded in.

The choice is made once, when this module is imported: the C core, unless ``INTEGRITY_NATIVE=off`` is set, or the
extension cannot be loaded, or fails its self-test on this machine. Values are the same either way; the stand-in is a
thousand times slower.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from integrity.hashing.crc64_standin import VALUE_BYTES

__all__ = ["VALUE_BYTES", "combine", "combine_blocks", "crc64", "digest_blocks", "find_path", "is_native", "pack"]


def _find_native() -> bool:
    """Load the C core, limit it to the path that is set, and say whether it is right."""
    setting = os.environ.get("INTEGRITY_NATIVE", "")
    if setting == "off":
        return False
    try:
        from integrity.hashing import crc64_native
    except ImportError:
        # hashing.md5 keeps the reason and `integrity --version` shows it: the extension is one and the same.
        return False
    if setting:
        crc64_native.limit_path(setting)
    return crc64_native.get_path() is not None


is_native = _find_native()
"""Whether the C core computes. Nobody should be made to wait for the stand-in who did not ask for these values."""

if TYPE_CHECKING or is_native:
    # A type checker needs one of them to speak of; the tests hold both to the same behaviour.
    from integrity.hashing.crc64_native import combine, combine_blocks, crc64, digest_blocks
else:
    from integrity.hashing.crc64_standin import combine, combine_blocks, crc64, digest_blocks


def pack(value: int) -> bytes:
    """Write a value as bytes, as the catalog and S3 do."""
    return value.to_bytes(VALUE_BYTES, "big")


def find_path() -> str:
    """Name what computes: a path of the C core, or ``python``."""
    if not is_native:
        return "python"
    from integrity.hashing import crc64_native

    return crc64_native.get_path() or "none"
