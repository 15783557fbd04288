"""
Ask a file and its copy for the checksum inside them: exactly one side passes, and that side is right.

I1  A side fails by a checksum, not by its structure. The other passes, and whatever its checksum does not cover is the
    same in both: names in a zip, tags of FLAC.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from typing import IO, TYPE_CHECKING, NamedTuple

from integrity.arbitration import FailingSide
from integrity.errors import CopyUnreachable, ReadError, ReadInterrupted
from integrity.files.buffers import Buffers
from integrity.files.random_access import RandomAccessFile
from integrity.files.span import ReadMode
from integrity.inspect.checked_file import CheckedFile
from integrity.inspect.formats import HEAD_BYTES, find_damaged_beginning, find_format
from integrity.inspect.inspector import Inspector
from integrity.inspect.outcome import CheckResult, OwnCheck, OwnCheckFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    from integrity.catalog.rows import FileRecord
    from integrity.copies.protocol import Copy, CopyFile
    from integrity.jobs.context import RootRun

_PIECE_BYTES = 1 << 20
_MOST_FILE_BYTES = 1 << 30
_MOST_BYTES = 4 << 30
"""Most bytes that one run copies aside to test them, of both sides."""


class OwnWitness(NamedTuple):
    """The side that fails the checksum inside it, and what that check said."""

    side: FailingSide
    found: OwnCheck


class OwnWitnesses:
    """
    Test files and copies that differ. Both are read past the cache into a file without a name, which is tested.

    Args:
        find_place: returns the path in the copy of a path in the root.
    """

    def __init__(self, run: RootRun, copy: Copy, find_place: Callable[[bytes], bytes]) -> None:
        self._run, self._copy, self._find_place = run, copy, find_place
        self._inspector = Inspector(run.context.stop.is_set)
        self._bytes_left = _MOST_BYTES

    def close(self) -> None:
        """End the processes that test."""
        self._inspector.close()

    def find(self, record: FileRecord) -> OwnWitness | None:
        """Return the side that fails while the other passes; None if there is none, or it can't be tested."""
        if not self._copy.has_bytes or record.witness.size_bytes > min(_MOST_FILE_BYTES, self._bytes_left):
            return None
        try:
            with (
                Buffers(_PIECE_BYTES, 1) as buffers,
                closing(RandomAccessFile(self._run.reader(ReadMode.DISK), record.path, buffers)) as file,
                closing(self._copy.open(self._find_place(record.path))) as other,
                tempfile.TemporaryFile() as ours,
                tempfile.TemporaryFile() as theirs,
            ):
                head = file.read(0, HEAD_BYTES)
                one = find_format(head, record.path) or find_damaged_beginning(head, record.path)
                if one is None or not one.has_checksum or other.size_bytes > _MOST_FILE_BYTES:
                    return None
                self._copy_aside(file, ours)
                file.finish()
                self._copy_aside(other, theirs)
                return self._judge(record.path, ours, theirs)
        except (ReadError, CopyUnreachable, OSError):
            return None  # what is known decides

    def _copy_aside(self, source: RandomAccessFile | CopyFile, target: IO[bytes]) -> None:
        for offset in range(0, source.size_bytes, _PIECE_BYTES):
            if self._run.context.stop.is_set():
                raise ReadInterrupted("the comparison was interrupted")
            data = source.read(offset, _PIECE_BYTES)
            self._bytes_left -= len(data)
            target.write(data)
        target.flush()

    def _judge(self, path: bytes, ours: IO[bytes], theirs: IO[bytes]) -> OwnWitness | None:
        found = {
            FailingSide.FILE: (self._inspector.inspect(ours.fileno(), path), ours),
            FailingSide.COPY: (self._inspector.inspect(theirs.fileno(), path), theirs),
        }
        for side, other in ((FailingSide.FILE, FailingSide.COPY), (FailingSide.COPY, FailingSide.FILE)):
            (mine, bad), (passing, good) = found[side], found[other]
            is_witness = mine.result is CheckResult.FAILS and mine.has_checksum
            if is_witness and passing.result is CheckResult.PASSES and passing.uncovered is not None:
                is_covered = _are_equal(CheckedFile(bad.fileno()), CheckedFile(good.fileno()), passing.uncovered)
                return OwnWitness(side, mine) if is_covered else None
        return None


def _are_equal(one: CheckedFile, other: CheckedFile, ranges: tuple[tuple[int, int], ...]) -> bool:
    try:
        return all(
            mine == theirs
            for start, end in ranges
            for mine, theirs in zip(one.pieces(start, end), other.pieces(start, end), strict=True)
        )
    except OwnCheckFailed:  # one ends before
        return False
