"""
Store where the reading of a large file stopped, so that the next run resumes there (R7).

While a file is recorded, its block digests and its MD5 state are stored; while it is verified, the mismatched blocks. A
checkpoint is void if the file's witness changed: the engine then starts over, visible in ``first_block``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.catalog import blocks as store
from integrity.catalog.blocks import Purpose, join_blocks
from integrity.catalog.rows import FileRecord, is_current
from integrity.hashing.digests import combine_crc64nvme
from integrity.hashing.tasks import Done, Partial, Resume, Task
from integrity.model import Blocks

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun

LARGE_BYTES = 64 << 20
"""Smaller files are read in a second, which is not worth a catalog query per file."""


class Checkpoints:
    """
    Store and load the checkpoints of one run.

    Args:
        is_verifying: store mismatched blocks; otherwise digests.
    """

    def __init__(self, run: RootRun, *, is_verifying: bool = False) -> None:
        self._run = run
        self._purpose = Purpose.VERIFY if is_verifying else Purpose.RECORD
        self._parts: dict[bytes, list[Blocks]] = {}
        self._bad_blocks: dict[bytes, tuple[int, ...]] = {}
        self._queued: list[tuple[Partial, tuple[int, ...]]] = []
        self._saved: set[bytes] = set()
        self._finished: list[bytes] = []

    def resume(self, task: Task) -> Task:
        """Let a task resume where an earlier run stopped, if one did."""
        if task.size_bytes < LARGE_BYTES:
            return task
        with self._run.catalog.read() as connection:
            return self._find(connection, task)

    def _find(self, connection: Connection, task: Task) -> Task:
        found = store.load_checkpoint(connection, self._run.root.id, task.path, self._purpose)
        if found is None or found.block_size_bytes != task.block_size_bytes:
            return task
        self._saved.add(task.path)
        self._bad_blocks[task.path] = found.bad_blocks
        if self._purpose is Purpose.RECORD:
            if task.want.md5 and found.md5_state is None:
                return task
            self._parts[task.path] = [store.load_checkpoint_blocks(connection, found)]
        return task._replace(resume=Resume(found.offset_bytes, found.md5_state, found.witness))

    def save(self, partial: Partial, new_bad: tuple[int, ...] = ()) -> None:
        """
        Store how far a file was read.

        Written at once: a part comes every thousand blocks or every half minute, and nothing else may be queued to be
        written.
        """
        path = partial.task.path
        if partial.first_block == 0:  # a new start makes earlier parts void
            self._parts.pop(path, None)
            self._bad_blocks.pop(path, None)
        if self._purpose is Purpose.RECORD:
            self._parts.setdefault(path, []).append(partial.blocks)
        self._bad_blocks[path] = self._bad_blocks.get(path, ()) + new_bad
        self._queued.append((partial, self._bad_blocks[path]))
        with self._run.writing() as connection:
            self.flush(connection)

    def complete(self, done: Done) -> Done:
        """Join the digests of a file that was recorded in parts, and drop its checkpoint."""
        path = done.task.path
        if self._bad_blocks.pop(path, None) is None:
            return done  # read in one go, like nearly all files
        parts = self._parts.pop(path, [])
        self._end(path)
        blocks = done.reading.blocks
        if blocks is None or not done.first_block:
            return done
        whole = join_blocks(blocks.block_size_bytes, [*parts, blocks])
        crc64nvme = combine_crc64nvme(whole, done.reading.witness.size_bytes)
        digests = done.reading.digests._replace(crc64nvme=crc64nvme)
        return done._replace(reading=done.reading._replace(digests=digests, blocks=whole), first_block=0)

    @property
    def has_parts(self) -> bool:
        """Whether parts of an unfinished file are stored."""
        return bool(self._bad_blocks)

    def bad_before(self, done: Done) -> tuple[int, ...]:
        """Return the mismatched blocks before ``done.first_block``, and drop the file's checkpoint."""
        bad = self._bad_blocks.pop(done.task.path, ())
        self._end(done.task.path)
        return bad if done.first_block else ()

    def _end(self, path: bytes) -> None:
        self._queued = [(partial, bad) for partial, bad in self._queued if partial.task.path != path]
        if path in self._saved:
            self._saved.discard(path)
            self._finished.append(path)
            # At once: after a power failure the file is read again, but a checkpoint left behind would belong to a
            # reading that was never finished.
            with self._run.writing() as connection:
                self.flush(connection)

    def _is_current(self, connection: Connection, partial: Partial) -> bool:
        record = partial.task.tag
        assert isinstance(record, FileRecord)  # only recorded files are verified
        return is_current(connection, record)

    @property
    def waiting(self) -> int:
        """The number of rows queued for ``flush``."""
        return len(self._queued) + len(self._finished)

    def flush(self, connection: Connection) -> None:
        """Write the queued checkpoints and delete the finished ones."""
        root_id = self._run.root.id
        for partial, bad in self._queued:
            path = partial.task.path
            if self._purpose is Purpose.VERIFY and not self._is_current(connection, partial):
                continue  # it was compared with blocks that are no longer recorded
            if partial.first_block == 0:  # earlier blocks would be counted twice
                store.drop_checkpoint(connection, root_id, path, self._purpose)
            checkpoint_id = store.save_checkpoint(
                connection,
                root_id,
                path,
                self._purpose,
                witness=partial.witness,
                offset_bytes=partial.offset,
                block_size_bytes=partial.task.block_size_bytes,
                now=self._run.now(),
                md5_state=partial.md5_state,
                bad_blocks=bad,
            )
            if self._purpose is Purpose.RECORD:
                store.append_runs(connection, checkpoint_id, partial.blocks)
            self._saved.add(path)
        for path in self._finished:
            store.drop_checkpoint(connection, root_id, path, self._purpose)
        self._queued, self._finished = [], []
