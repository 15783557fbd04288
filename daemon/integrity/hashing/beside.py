"""
Large files that lie in memory, several at a time in one thread.

Decides which of them can be read in this way, when what was read of one is worth to be kept, and what to make of its
end. A file about which anything is out of the ordinary (holes, a digest that the C core does not compute, a read that
fails) is left to whoever reads files one by one. Files on a disk are not read like this: it would have to jump between
them.

Importing this module fails with ImportError where the extension cannot be loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from integrity.errors import ReadError, ReadInterrupted
from integrity.hashing.digests import combine_crc64nvme
from integrity.hashing.large import PARTIAL_INTERVAL_S, find_start, or_racy
from integrity.hashing.large_batch import LargeBatch, LargeFile
from integrity.hashing.ledger import Ledger
from integrity.hashing.shared import Batch, OpenedFile, Shared
from integrity.hashing.tasks import Done, Failed, Partial, Task
from integrity.model import Digests, Reading

_LAST_WORK_S = 0.5
"""So long files that are to be interrupted may take to the border of a block, where they can be gone on with."""


@dataclass(slots=True, eq=False)
class _Reading:
    """A file under way."""

    task: Task
    file: OpenedFile
    was_racy: bool  # when its first part was read
    start: int
    first_block: int
    position: int
    saved_at: float


class SideBySide:
    """
    Answer large files from memory, for one thread.

    Args:
        shared: of the run.
        ledger: of the thread.
        memory: used while there is something to answer.
    """

    def __init__(self, shared: Shared, ledger: Ledger, memory: memoryview) -> None:
        self._shared = shared
        self._ledger = ledger
        self._files: LargeBatch[_Reading] = LargeBatch(memory, shared.side_by_side)

    def answer(self, batches: list[Batch]) -> list[Task]:
        """
        Answer batches of one file each, and what else can go beside them meanwhile.

        Returns:
            The tasks that are to be answered one by one.
        """
        left: list[Task] = []
        try:
            while batches or self._files.under_way:
                for batch in batches:
                    self._begin(batch, left)
                self._go_on(left)
                batches = self._shared.todo.take_more(self._files.room)
        finally:
            readings = [file.owner for file in self._files.under_way.values()]
            self._files.drop_all()
            for reading in readings:
                reading.file.close()
        return left

    def _begin(self, batch: Batch, left: list[Task]) -> None:
        task = batch.tasks
        assert isinstance(task, Task), "one large file"
        self._ledger.begin(task, is_large=True)
        obstacle = self._shared.find_obstacle(task)
        if obstacle is not None:
            self._ledger.add(obstacle)
            return
        try:
            with self._ledger.busy():
                file = self._shared.reader.open(task.path, task.known_bad)
        except ReadError as error:
            self._ledger.add(Failed(task, error))
            return
        try:
            is_begun = self._begin_open(task, file)
        except BaseException as error:
            file.close()
            if not isinstance(error, ReadError):
                raise
            self._ledger.add(Failed(task, error))
            return
        if not is_begun:
            file.close()
            left.append(task)

    def _begin_open(self, task: Task, file: OpenedFile) -> bool:
        """Begin to read an open file, unless it is left."""
        with self._ledger.busy():
            fd = file.lend() if file.size_bytes > task.block_size_bytes else None
        if fd is None:
            return False
        start, md5_state = find_start(task, file)
        was_racy = start > 0 and task.resume is not None and task.resume.witness.is_racy
        reading = _Reading(task, file, was_racy, start, start // task.block_size_bytes, start, self._shared.monotonic())
        self._files.begin(
            reading,
            fd,
            task.want,
            end=file.size_bytes,
            block_bytes=task.block_size_bytes,
            start=start,
            md5_state=md5_state,
        )
        return True

    def _go_on(self, left: list[Task]) -> None:
        """Read a piece of each file and digest them all; answer for those that are over."""
        is_over = self._ledger.is_abandoned or self._shared.stop.is_set()
        if is_over:
            self._interrupt()
            return
        now = self._shared.monotonic()
        for file in self._files.under_way.values():
            if now - file.owner.saved_at > PARTIAL_INTERVAL_S:
                file.halt()
        for file in self._run():
            if file.is_halted:
                self._save(file)
                file.go_on()
            else:
                self._files.release(file)
                self._end(file, left)

    def _run(self) -> list[LargeFile[_Reading]]:
        with self._ledger.busy():
            stopped = self._files.run()
        for file in self._files.under_way.values():
            reading, position = file.owner, file.position
            self._ledger.bytes_done += position - reading.position
            reading.position = position
        return stopped

    def _interrupt(self) -> None:
        """Keep what was read up to the border of a block, and answer for all files."""
        until = self._shared.monotonic() + _LAST_WORK_S
        for file in self._files.under_way.values():
            file.halt()
        while any(file.is_active for file in self._files.under_way.values()) and self._shared.monotonic() < until:
            self._run()
        for file in self._files.under_way.values():
            if file.is_halted:
                self._save(file)
            file.owner.file.close()
            self._ledger.add(Failed(file.owner.task, ReadInterrupted("interrupted; what was read is kept")))
        self._files.drop_all()

    def _save(self, file: LargeFile[_Reading]) -> None:
        """Give what a checkpoint needs, if it is worth one."""
        reading = file.owner
        blocks = file.take_blocks()
        reading.saved_at = self._shared.monotonic()
        if blocks:
            witness = or_racy(reading.file.witness, reading.was_racy)
            first, reading.first_block = reading.first_block, reading.first_block + len(blocks)
            self._ledger.add(Partial(reading.task, file.position, first, blocks, file.md5_state(), witness))

    def _end(self, file: LargeFile[_Reading], left: list[Task]) -> None:
        reading = file.owner
        task, opened = reading.task, reading.file
        if file.error is not None:
            opened.close()
            left.append(task)  # one by one it is found out what of it can't be read
            return
        try:
            with self._ledger.busy(), opened:
                opened.take_back(reading.start, file.position)
                witness = or_racy(opened.finish(), reading.was_racy)
        except ReadError as error:
            self._ledger.add(Failed(task, error))
        else:
            blocks = file.take_blocks()
            crc64nvme = None if reading.first_block else combine_crc64nvme(blocks, file.position)
            digests = Digests(file.md5, file.xxh3_128, None, crc64nvme)
            result = Reading(witness, digests, blocks, opened.how, opened.bytes_read)
            self._ledger.add(Done(task, result, reading.first_block))
        self._ledger.send()
