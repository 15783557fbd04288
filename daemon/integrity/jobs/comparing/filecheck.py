"""
Re-read the files whose copies say something else, so that the file has a vote of its own.

What is found is judged, confirmed and told as in a scrub; only counted it is not: a comparison counts what the copy
says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from integrity.catalog.rows import FileRecord
from integrity.errors import Unstable, Vanished
from integrity.files.span import ReadMode
from integrity.hashing.digests import want_to_record
from integrity.hashing.tasks import Done, Partial, Result, Task
from integrity.jobs.batching import IdSet
from integrity.jobs.checkpoints import Checkpoints
from integrity.jobs.judge.assess import Assessor
from integrity.jobs.judge.replaced_inodes import Replaced
from integrity.jobs.scan.apply_changes import settle

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun


class FileCheck:
    """
    Verify files of a run.

    Attributes:
        moved: files that changed, went or could not be looked at meanwhile: nothing is to be concluded of them now.
    """

    def __init__(self, run: RootRun) -> None:
        self._run = run
        self._want = want_to_record(blake3="blake3" in run.settings.digests)
        self._assessor = Assessor(run, from_disk=True, replaced=Replaced())
        self._checkpoints = Checkpoints(run)
        self.moved = IdSet()

    def check(self, records: Sequence[FileRecord]) -> None:
        """Read files from the disk, and have everything written that follows from it."""
        run = self._run
        self._assessor.account.answered.update(record.id for record in records)  # counted by what their copies say
        for result in run.engine(ReadMode.DISK).run(self._tasks(records)):
            self._take(result)
        self._assessor.confirm()
        self.moved.update(record.id for record in self._assessor.account.take_incomplete())
        with run.writing() as connection:
            self._assessor.account.flush(connection)
        if not run.context.stop.is_set():
            settle(run, len(records))

    def _tasks(self, records: Iterable[FileRecord]) -> Iterable[Task]:
        default = self._run.settings.block_size_bytes
        for one in records:
            yield Task(one.path, one.witness.size_bytes, self._want, one.block_size_bytes or default, one)

    def _take(self, result: Result) -> None:
        record = result.task.tag
        assert isinstance(record, FileRecord)
        if isinstance(result, Partial):
            self._checkpoints.keep(result)
        elif isinstance(result, Done):
            done = self._checkpoints.complete(result)
            self._run.counts.bytes_read += done.reading.bytes_read
            self._assessor.take(record, done)
        elif isinstance(result.error, Unstable | Vanished):
            self.moved.add(record.id)
        else:
            self._assessor.failures.failed(record, result.error)
