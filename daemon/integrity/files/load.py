"""
Load many small files in one call of the C core, without the interpreter lock, whatever is cached: as md5sum reads.

Takes only files about which there is nothing to decide, and leaves all others to the caller. Importing this module
fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from integrity._native import lib
from integrity.files.arena import Arena


def load_files(paths: Sequence[bytes], limit_bytes: int, arena: Arena) -> None:
    """
    Load files until the arena is full.

    Args:
        paths: at least one.
        limit_bytes: larger files are left alone.
        arena: gets a record for each of the first so many paths, at least one; for none if one of the paths is none
            that any file can have. Of times and inodes it says nothing.
    """
    packed = arena.pack(paths)
    if packed is not None:
        arena.count = lib.load_batch_read(packed, limit_bytes, arena.data, len(arena.memory), arena.records)
