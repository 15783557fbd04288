"""
Decide what follows when a store states other checksums than the recorded ones: an accusation.

Not every store keeps checksums of the data: where it encrypts, or counts versions, an ETag only looks like one. So an
accused file is read back before its statement counts, and what was found is kept for each sort of object.

I1  A sort of which ``_ENOUGH`` accused files were read, all as recorded, is not comparable by what the store states:
    the rest is left unread. One file that proves different keeps the sort under suspicion: its files are read on.
I2  Beyond the limits of reading, an accusation stands as the store made it, except in a sort that accused ``_ENOUGH``
    good files, before it or later in the comparison.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from integrity.arbitration import CopyVote
from integrity.copies.protocol import Kind
from integrity.jobs import messages
from integrity.jobs.compare.copy_answer import CopyAnswer

_ENOUGH = 20
_FILES_READ = 1000
_BYTES_READ = 4 << 30


class ObjectSort(NamedTuple):
    """What objects have in common whose checksums a store makes in the same way."""

    folder: bytes  # the first part of the path in the copy; empty for files at its top
    encryption: str  # as the store words it
    kinds: tuple[Kind, ...]

    @property
    def name(self) -> str:
        """Return words for people."""
        return messages.sort_of_objects(self.folder, self.encryption, self.kinds)


class ConfirmStep(Enum):
    """What to do about an accused file."""

    READ = auto()
    HOLD = auto()  # beyond the limits: to be decided by what the others of its sort show
    LEAVE = auto()  # unread: the accusation says nothing


@dataclass(slots=True)
class _SortState:
    right: int = 0  # accused files that were read and are as recorded
    different: int = 0  # accused files that were read and are not
    left: int = 0  # accused files that were not read


class Accusations:
    """The accused files of one comparison."""

    def __init__(self) -> None:
        self._sorts: defaultdict[ObjectSort, _SortState] = defaultdict(_SortState)
        self._files_left, self._bytes_left = _FILES_READ, _BYTES_READ

    def decide(self, sort: ObjectSort, size_bytes: int) -> ConfirmStep:
        """Return what to do about the next accused file; READ takes it from the limits."""
        may_read = self._files_left > 0 and size_bytes <= self._bytes_left
        if not may_read or not self._sorts[sort].different:
            if self.is_strange(sort):
                self._sorts[sort].left += 1
                return ConfirmStep.LEAVE
            if not may_read:
                return ConfirmStep.HOLD
        self._files_left -= 1
        self._bytes_left -= size_bytes
        return ConfirmStep.READ

    def is_strange(self, sort: ObjectSort) -> bool:
        """Return whether the store accused so many good files of this sort that it proves nothing."""
        return self._sorts[sort].right >= _ENOUGH

    def take(self, sort: ObjectSort, answer: CopyAnswer) -> CopyAnswer:
        """Return the answer of the reading of an accused file, after counting it."""
        state = self._sorts[sort]
        if answer.vote is CopyVote.SAME:
            state.right += 1
        elif answer.vote in (CopyVote.DIFFERS, CopyVote.OLDER):
            state.different += 1
        elif answer.vote is CopyVote.UNREADABLE:
            return answer._replace(reason=messages.accused_not_read(answer.reason))
        return answer

    def describe(self) -> str | None:
        """Return what to report of files that were accused wrongly; None if there were none."""
        wrong = {sort: state for sort, state in self._sorts.items() if state.right}
        if not wrong:
            return None
        right, left = (sum(each) for each in zip(*((one.right, one.left) for one in wrong.values()), strict=True))
        return messages.strange_checksums([sort.name for sort in wrong], right, left)
