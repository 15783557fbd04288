"""
Whether an inode is the one that a record is about, or another file that got its number.

Names of one file, which a scrub reads once and answers for under each name.

They are known by their witness: inode, size and times are the same. The work order puts names of one inode next to each
other, so that they are found together; two that are not are read twice, which costs time and harms nothing.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from integrity.catalog import candidates
from integrity.catalog.rows import FileRecord
from integrity.files.direct_io import find_birth_ns
from integrity.files.open_beneath import stat_beneath
from integrity.files.stamps import witness_of

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.history import HistoryRecord
    from integrity.jobs.context import RootRun
    from integrity.model import FileId, Witness


_SECOND_NS = 1_000_000_000


def as_last_seen(connection: Connection, record: FileRecord) -> FileRecord:
    """Write a record as its file was last seen: not what was saved over it, but with what moved of its inode since."""
    known = candidates.get_candidate(connection, record.id) if record.is_frozen else None
    last = record.witness
    if known is not None and known.witness is not None and known.witness.inode == last.inode:
        last = known.witness
    if record.seen is not None and record.seen.ctime_ns > last.ctime_ns:
        last = last._replace(inode=record.seen.inode, ctime_ns=record.seen.ctime_ns)
    return record._replace(witness=last)


def is_same_inode(root_fd: int, path: bytes, record: FileRecord | HistoryRecord, *, stands: bool = False) -> bool:
    """
    Say whether the inode under a name is a recorded one of the same number, size and mtime, not another that got them.

    An inode that was made after the recorded change of the recorded one is another. Where no time of birth is kept, a
    file is told by its mtime, unless that is a whole second: archives are unpacked with such, and the files of a
    reproducible build share one. A record with an open finding then goes along: its content would not tell (R6).

    Args:
        root_fd: the root.
        path: the name.
        record: of the file, present or former.
        stands: the inode is still found under the record's own name, where it is held against the record in any case.
    """
    is_old = was_born_before(root_fd, path, record)
    if is_old is None:
        is_frozen = isinstance(record, FileRecord) and record.is_frozen
        return stands or is_frozen or record.witness.mtime_ns % _SECOND_NS != 0
    return is_old


def leads_to(root_fd: int, path: bytes, witness: Witness) -> bool:
    """Say whether a file with this witness stands under a name: not one with another size, other times or inode."""
    try:
        return witness_of(stat_beneath(root_fd, path)).stamps == witness.stamps
    except OSError:
        return False


def was_born_before(root_fd: int, path: bytes, record: FileRecord | HistoryRecord) -> bool | None:
    """Say whether the inode under a name was made before the recorded change of a file; None if nothing tells."""
    try:
        birth_ns = find_birth_ns(root_fd, path)
    except OSError:
        return False  # it can't be looked at any more: the one who reads it says why
    return None if birth_ns is None else is_born_before(birth_ns, record.witness)


def is_born_before(birth_ns: int, witness: Witness) -> bool:
    """Say whether an inode was made before the recorded change of a file."""
    return birth_ns < witness.ctime_ns or (birth_ns == witness.ctime_ns and not witness.is_racy)


class HardLinks:
    """Put names of one file behind the one that is read. ``run``: whose root they are in."""

    def __init__(self, run: RootRun) -> None:
        self._run = run
        self._others: dict[FileId, list[FileRecord]] = {}

    def group(self, records: Sequence[FileRecord]) -> list[FileRecord]:
        """Keep back all but one name of each file; those kept back are had by ``take``."""
        if not self._run.capability.has_stable_inodes:
            return list(records)
        first: dict[tuple[object, ...], FileRecord] = {}
        leaders: list[FileRecord] = []
        for record in records:
            leader = first.setdefault((*record.witness.stamps, record.block_size_bytes), record)
            if leader is record:
                leaders.append(record)
            else:
                self._others.setdefault(leader.id, []).append(record)
        return leaders

    @property
    def leaders(self) -> Container[FileId]:
        """Name the files that were given and have other names."""
        return self._others

    def take(self, record: FileRecord) -> list[FileRecord]:
        """Hand over the other names of a file that was read."""
        return self._others.pop(record.id, []) if self._others else []

    def is_still(self, record: FileRecord, witness: Witness | None) -> bool:
        """Say whether a name leads to the file with this witness, if it is known."""
        return witness is not None and leads_to(self._run.root_fd, record.path, witness)
