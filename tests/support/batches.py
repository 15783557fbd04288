"""Files as the C core reads them, a batch at a time: ``read_batch(reader, [b"f"], limit_bytes, memory)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from integrity.files.batch import READ, Arena
from integrity.files.read import Reader
from integrity.model import Witness


class BatchFile(NamedTuple):
    """One stable version of a file. ``data`` lies in the memory that was given."""

    witness: Witness
    data: memoryview


def read_batch(reader: Reader, paths: Sequence[bytes], limit_bytes: int, memory: memoryview) -> list[BatchFile | None]:
    """Read the first so many of some files, at least one; None for each that the first way leaves to the next."""
    batch, arena = reader.small_readers()[0], Arena(memory)
    since_ns, until_ns = batch.read(paths, [limit_bytes] * len(paths), limit_bytes, arena)
    if not arena.count:
        return [None] * len(paths)
    files: list[BatchFile | None] = []
    for status, size, mtime_ns, ctime_ns, inode, offset, *_ in arena.rows():
        is_racy = since_ns <= mtime_ns <= until_ns or since_ns <= ctime_ns <= until_ns
        witness = Witness(size, mtime_ns, ctime_ns, inode, is_racy)
        files.append(BatchFile(witness, memory[offset : offset + size]) if status == READ else None)
    return files
