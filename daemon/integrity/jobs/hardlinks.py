"""
Names of one file, which a scrub reads once and answers for under each name.

They are known by their witness: inode, size and times are the same. The work order puts names of one inode next to each
other, so that they are found together; two that are not are read twice, which costs time and harms nothing.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from integrity.jobs.judge.inodes import leads_to

if TYPE_CHECKING:
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun
    from integrity.model import FileId, Witness


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
