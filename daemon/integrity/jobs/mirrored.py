"""
What each copy of a mirror holds of a recorded file.

A reading through the file system is answered by one of the copies. So a good one does not end what was found, and
``repair`` writes those blocks anew although it reads them well: unless each copy was read by itself and is right.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from xxhash import xxh3_128_digest

from integrity.catalog import findings
from integrity.catalog.blocks import BLOCKS_PER_RUN, load_run
from integrity.catalog.rows import FileRecord
from integrity.files.mirrors import read_copies
from integrity.files.open_beneath import open_beneath
from integrity.hashing.md5 import Md5
from integrity.model import FindingKind, Witness
from integrity.verdict import Pair, is_match

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun

_UNREADABLE = Pair(b"", b"")
"""The digests of a copy that fails to read: equal to no others."""


def load_baseline(connection: Connection, run: RootRun, record: FileRecord, index: int) -> Pair:
    """Return the recorded digests of one block, or of a whole file of one block; none if they are lost."""
    if record.block_size_bytes is None:
        return Pair(record.digests.xxh3_128, record.digests.md5)
    known = load_run(connection, run.catalog.sealer, record.id, record.version, index // BLOCKS_PER_RUN)
    if known is None:
        return Pair(None, None)
    at = slice(index % BLOCKS_PER_RUN * 16, index % BLOCKS_PER_RUN * 16 + 16)
    return Pair(known.xxh3_128[at], known.md5[at] or None)


def digest_copies(run: RootRun, record: FileRecord, index: int) -> list[tuple[str, Pair]]:
    """
    Digest a block, or a whole file of one block, on each device of the mirror that the root lies on.

    Returns:
        Devices and digests; none where there is no mirror, or its copies can't be read one by one.
    """
    size = record.block_size_bytes or record.witness.size_bytes
    length = min(size, record.witness.size_bytes - index * size)
    if run.mirror is None or length <= 0:
        return []
    try:
        fd = open_beneath(run.root_fd, record.path, os.O_RDONLY)
    except OSError:
        return []  # gone, or replaced, since it was read: nothing is known of its copies
    with open(fd, "rb", buffering=0):
        copies = read_copies(run.mirror, fd, index * size, length)
    return [(copy.device, _UNREADABLE if copy.data is None else _digest(copy.data)) for copy in copies]


def _digest(data: bytes) -> Pair:
    return Pair(xxh3_128_digest(data), Md5(data).digest())


def find_doubtful_blocks(run: RootRun, record: FileRecord, seen: Witness) -> tuple[int, ...]:
    """
    Find the blocks of a file that a copy of the mirror may still hold wrong, however well they were just read.

    Args:
        run: of the root.
        record: of the file.
        seen: its witness now: what was written anew since is the same in every copy.

    Returns:
        Those that an open finding calls damaged, without those that each copy has right; in order.
    """
    if run.mirror is None or (seen.inode, seen.mtime_ns) != (record.witness.inode, record.witness.mtime_ns):
        return ()
    kinds = (FindingKind.ROT, FindingKind.SILENT_REWRITE)
    with run.catalog.read() as connection:
        found = findings.find_findings(connection, root_id=run.root.id, prefix=record.path, copy="")
        said = {block for one in found if one.path == record.path and one.kind in kinds for block in one.blocks}
        baselines = {block: load_baseline(connection, run, record, block) for block in sorted(said)}
    return tuple(block for block, baseline in baselines.items() if not _is_each_right(run, record, block, baseline))


def _is_each_right(run: RootRun, record: FileRecord, block: int, baseline: Pair) -> bool:
    copies = digest_copies(run, record, block)
    return bool(copies) and all(is_match(baseline, pair) for _, pair in copies)
