"""
Walk a root and bring the catalog up to date: new, changed, moved and missing files.

Decides the order of the steps, reads what ``TreeDiff`` requests, retries files that changed while they were read, and
writes the results. ``TreeDiff`` decides what to read, the assessor what a reading means.

I1  Each name is counted exactly once (R8).
I2  Only this thread writes to the catalog, at most about once a second, results together with what they cover (R7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from integrity.catalog import baselines, files
from integrity.catalog.rows import FileRecord
from integrity.errors import DeviceFailing, DeviceStalled, ReadError, ReadInterrupted, Unstable, Vanished
from integrity.files.span import ReadMode
from integrity.hashing.tasks import Done, DoneBatch, Partial, Result, Task, Work
from integrity.jobs import messages
from integrity.jobs.batching import Commits
from integrity.jobs.checkpoints import Checkpoints
from integrity.jobs.judge.assess import Assessor
from integrity.jobs.judge.inodes import ReplacedInodes, TreePlace
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import NoteKind
from integrity.jobs.scan.apply_changes import apply_changes, discard_staged
from integrity.jobs.scan.missing_files import MetFiles, MissingFiles
from integrity.jobs.scan.new_files import NewFiles
from integrity.jobs.scan.tree_diff import TreeDiff
from integrity.model import FileId, Tally

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

TRIES = 3


class Scanner:
    """
    Scan one root, or a part of it.

    Args:
        counts_known_files: no scrub follows that reads and counts them.

    Attributes:
        judge_again: moved files whose verdict was about another file that had taken their former name.
        changed: the recorded files whose stat indicates a write; those that are not counted are left to the scrub.
        remove_damaged: see ``MissingFiles``; called after everything was read, before changes are applied.
    """

    def __init__(self, run: RootRun, options: ScanOptions, *, counts_known_files: bool = True) -> None:
        self._run = run
        self._counts_known_files = counts_known_files
        self._seen = MetFiles(run.catalog)
        self.replaced = ReplacedInodes()
        self.assessor = Assessor(run, from_disk=False, replaced=self.replaced)
        self._new_files = NewFiles(run, self._seen, self.replaced, counts_known_files=counts_known_files)
        account = self.assessor.account
        self._missing_files = MissingFiles(run, account, self._new_files, self.replaced)
        self._checkpoints = Checkpoints(run)
        self._commits = Commits(run.context.monotonic, waiting=self._waiting, write=self._write)
        self._tree_diff = TreeDiff(
            run, options, account, self._new_files, self._missing_files, counts_known_files=counts_known_files
        )
        self._unstable: dict[bytes, Unstable] = {}
        self._mode = ReadMode.RECORD
        self.judge_again = self._new_files.moved.judge_again
        self.changed = self._tree_diff.changed
        self.remove_damaged = self._missing_files.remove_damaged

    def run(self) -> None:
        """Scan and apply the staged changes."""
        discard_staged(self._run)
        self.prepare()
        while not self._is_stopped() and self.assessor.queue_moved_together(has_read_all=self._run.is_whole):
            self._confirm()
            self._commits.write()
        if self._is_stopped():
            self._missing_files.count_unreached()
        else:
            self.remove_damaged()
            apply_changes(self._run, self._run.looked_at)

    def prepare(self) -> None:
        """Scan without applying the changes: a scrub applies its own and these together."""
        self._read(self._walk())
        self._retry_unstable()
        self._reread_racy()
        self._confirm()
        self._commits.write()
        if self._tree_diff.put_back and not self._is_stopped():
            # Files with a finding that were written since are read from their disk: memory may hold what was there.
            self._mode, self.assessor.account.from_disk = ReadMode.DISK, True
            put_back, self._tree_diff.put_back = self._tree_diff.put_back, []
            self._judge(self._tree_diff.recheck(put_back, is_read=True))
            self._mode, self.assessor.account.from_disk = ReadMode.RECORD, False
        if not self._is_stopped():
            self._missing_files.account()
            unshown = self._missing_files.take_unshown()
            if unshown:
                self._judge(self._tree_diff.recheck(map(TreePlace.of, unshown)))
            self._commits.write()
        restored, self._new_files.restored = self._new_files.restored, []
        if restored and self._counts_known_files and not self._is_stopped():  # else the scrub judges them
            self._judge(self._tasks_for(restored))

    def _tasks_for(self, paths: Iterable[bytes]) -> Iterator[Work]:
        """Return tasks for names that were met before, with their current records."""
        return self._tree_diff.recheck(map(TreePlace.of, paths), is_read=True)

    def _walk(self) -> Iterator[Work]:
        for tasks in self._tree_diff.walk():
            yield from tasks
            self._commits.write_if_due()  # a walk without reads has no other occasion for it

    def _judge(self, tasks: Iterable[Work]) -> None:
        """Read files, again if they change meanwhile, and write what is concluded."""
        self._read(tasks)
        self._retry_unstable()
        self._confirm()
        self._commits.write()

    def _is_stopped(self) -> bool:
        return self._run.context.stop.is_set()

    def _read(self, tasks: Iterable[Work]) -> None:
        """Read files; then let the records of renamed files that were met follow them, and read what is left."""
        self._read_tasks(tasks)
        while self._new_files.found.has_names and not self._is_stopped():
            for names in self._new_files.found.follow():
                self._read_tasks(self._tree_diff.compare_found(names))

    def _read_tasks(self, tasks: Iterable[Work]) -> None:
        engine = self._run.engine(self._mode)
        resume = self._checkpoints.resume
        self._commits.read(
            engine,
            (resume(one) if isinstance(one, Task) else one for one in tasks),
            handle=self._take,
            handle_batch=self._take_batch,
            report_progress=lambda: self._run.progress(
                "record", len(self._seen), engine.bytes_done, files=None, size=None
            ),
        )

    def _take(self, result: Result) -> None:
        if isinstance(result, Done):
            result = self._checkpoints.complete(result)
            task, reading = result.task, result.reading
            self._run.counts.bytes_read += reading.bytes_read
            if isinstance(task.tag, FileRecord):
                self.assessor.assess(task.tag, result)
            else:
                self._new_files.add_reading(task, reading)
        elif isinstance(result, Partial):
            self._checkpoints.save(result)
        else:
            self._failed(result.task, result.error)

    def _take_batch(self, done: DoneBatch) -> None:
        if any(done.tasks.tags) or self._checkpoints.has_parts:
            for one in done.each():
                self._take(one)
        else:
            self._run.counts.bytes_read += sum(done.readings.sizes_bytes)
            self._new_files.add_batch(done)

    def _failed(self, task: Task, error: ReadError) -> None:
        """Handle an unreadable file: retry later, treat as gone, or open a finding."""
        record = task.tag if isinstance(task.tag, FileRecord) else None
        paths = self._new_files.take_paths(task) if record is None else [task.path]
        if isinstance(error, Unstable):
            self._unstable |= dict.fromkeys(paths, error)
        elif isinstance(error, Vanished):
            if record is not None:
                self._seen.discard(record.id)
        elif record is not None:
            self.assessor.count_failed(record, error)
        elif not isinstance(error, ReadInterrupted):
            self._count_unreadable(paths, error)

    def _count_unreadable(self, paths: Iterable[bytes], error: ReadError) -> None:
        is_device = isinstance(error, DeviceFailing | DeviceStalled)
        if is_device:
            self.assessor.account.report_device(error)
        for path in paths:
            if not is_device:
                self.assessor.account.report_unreadable(path, error)
            self._run.count_unrecorded(Tally.SKIPPED if is_device else Tally.UNREADABLE)

    def _retry_unstable(self) -> None:
        """Re-read files that changed while they were read (R1); report those that keep changing as unstable."""
        for _ in range(TRIES - 1):
            if not self._unstable or self._run.context.pause(self._run.context.pauses.retry_s):
                break
            paths, self._unstable = self._unstable, {}
            self._read(self._tasks_for(paths))
        for path, error in self._unstable.items():
            with self._run.catalog.read() as connection:
                record = files.find_file(connection, self._run.root.id, path)
            if record is not None:
                self.assessor.account.count_unstable(record, error)
            else:
                self._run.is_incomplete = True
                self._run.count_unrecorded(Tally.UNSTABLE)
                self._run.note(NoteKind.UNSTABLE, path, messages.unstable(error))

    def _reread_racy(self) -> None:
        """
        Hash files with a racy witness again, once the clock granule is over (R1).

        Until then their records are no grounds for rot.
        """
        paths = self._run.leave_out_written(self._new_files.racy) + [
            record.path for record in self.assessor.account.take_racy()
        ]
        self._new_files.racy = []
        if not paths or self._run.wait_for_clock_tick():
            return
        counted, newly_counted = self.assessor.account.counted, list[FileId]()

        def mark_counted() -> Iterator[Work]:
            """Mark them as counted: they count as new already, or the scrub counts them."""
            for task in self._tasks_for(paths):
                if isinstance(task, Task) and isinstance(task.tag, FileRecord) and counted.add(task.tag.id):
                    newly_counted.append(task.tag.id)
                yield task

        self._read(mark_counted())
        if not self._counts_known_files:
            for file_id in newly_counted:
                counted.discard(file_id)

    def _confirm(self) -> None:
        """Confirm mismatches; re-read files that changed meanwhile."""
        self.assessor.confirm()
        for _ in range(TRIES - 1):
            moved = self.assessor.account.take_rereads()
            if not moved:
                return
            self._read(self._tasks_for(record.path for record in moved))
            self._retry_unstable()
            self.assessor.confirm()
        for record in self.assessor.account.take_rereads():
            self.assessor.account.count_unstable(record)

    def _waiting(self) -> int:
        return self._new_files.waiting + self.assessor.account.waiting + len(self._tree_diff.suspects)

    def _write(self) -> None:
        """Write all queued rows, in several transactions if needed: thousands of moves may be queued."""
        is_all = False
        while not is_all:
            with self._run.writing() as connection:
                is_all = self._new_files.flush(connection)
                if is_all:
                    self.assessor.account.flush(connection)
                    baselines.mark_suspects(connection, self._tree_diff.suspects)
                    self._checkpoints.flush(connection)
        self._tree_diff.suspects.clear()
