"""
Re-read recorded files from the disk and judge them.

The catalog's worklist decides what is read and in which order: overdue files first, then suspects, then the stalest,
within a day in disk order. Unrecorded files are recorded first. Stopping at a limit is no error: files that were not
reached count as not due (R7, R8).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog import files, findings, roots
from integrity.catalog.blocks import load_blocks
from integrity.catalog.coverage import coverage
from integrity.catalog.files import WorkOrder
from integrity.catalog.rows import FileRecord, is_current
from integrity.errors import ReadError, ReadInterrupted, RootSuspended, Unreadable, Unstable, Vanished
from integrity.files.block_devices import find_positions
from integrity.files.span import ReadMode
from integrity.hashing.digests import want_to_record, want_to_verify
from integrity.hashing.tasks import Done, DoneBatch, Failed, Partial, Result, StopSignal, Task, TaskBatch, Work
from integrity.hashing.work_queue import small_bytes
from integrity.jobs import messages
from integrity.jobs.batching import Commits, IdSet, iterate_files
from integrity.jobs.checkpoints import LARGE_BYTES, Checkpoints
from integrity.jobs.context import RunLimit
from integrity.jobs.judge.assess import Assessor
from integrity.jobs.judge.content_diff import KEEPS_BEGINNING, compare_blocks, prefix_probe
from integrity.jobs.judge.inodes import HardLinks
from integrity.jobs.open_root import open_guarded
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.presence import find_hidden_mounts, may_be_there
from integrity.jobs.report import NoteKind
from integrity.jobs.scan.apply_changes import apply_changes, discard_staged
from integrity.jobs.scan.scanner import TRIES, Scanner
from integrity.jobs.targets import is_inside
from integrity.kinds import STOPPED_READING
from integrity.model import FileId, FindingKind, SkipReason, Tally

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

_PAGE = 1000


class Scrubber:
    """
    Scrub one root, or a part of it.

    Args:
        began_at: when the command began, on the monotonic clock; limits count from there.
    """

    def __init__(self, run: RootRun, options: ScrubOptions, *, began_at: float) -> None:
        self._run = run
        self._options = options
        until = None if options.time_limit_s is None else began_at + options.time_limit_s
        self._limit = RunLimit(run, until=until, until_bytes=options.byte_limit)
        blake3 = "blake3" in run.settings.digests
        self._want = want_to_record(blake3=blake3)
        self._verify = [want_to_verify(is_one_block=one, deep=options.deep, blake3=blake3) for one in (False, True)]
        self._scanner = Scanner(run, ScanOptions(), counts_known_files=False) if options.scan_first else None
        self._scanners = [] if self._scanner is None else [self._scanner]
        replaced = None if self._scanner is None else self._scanner.replaced
        self._assessor = Assessor(run, from_disk=True, replaced=replaced)
        self._checkpoints = Checkpoints(run, is_verifying=True)
        self._recordings = Checkpoints(run)  # of files read for a new baseline
        self._links = HardLinks(run)
        self._unstable: list[tuple[FileRecord, Unstable]] = []
        self._vanished: list[FileRecord] = []
        self._ungrouped: list[FileRecord] = []
        self._commits = Commits(run.context.monotonic, waiting=self._waiting, write=self._write)
        self._done_files = 0
        self._parts_read: dict[bytes, int] = {}  # bytes of unfinished large files, already counted
        self._damaged_blocks = IdSet()  # large files whose blocks are not recorded (any more)
        self._hidden_mounts: set[bytes] = set()  # mounts already reported
        self._bytes_before = 0  # bytes of this run's earlier reads
        self._work = 0, 0  # number of files, and bytes
        self._rows = 0  # files of the root when the worklist was created

    def run(self) -> None:
        """Scan if requested, read, judge, apply the staged changes."""
        discard_staged(self._run)
        if self._scanner is not None:
            self._scanner.prepare()
            self._assessor.account.counted = self._scanner.assessor.account.counted
        with self._run.catalog.snapshot() as connection:
            self._work = files.create_worklist(connection, self._order())
        self._rows = self._count_rows()
        self._read_worklist()
        ungrouped, self._ungrouped = self._ungrouped, []
        self._read((self._task(record) for record in ungrouped), self._limit)
        self._assessor.confirm()
        self._read_again(self._limit)
        self._account_for_vanished()
        self._commits.write()
        self._judge_moved_together()
        self._count_rest()
        if self._run.settings.inspect:
            from integrity.jobs.judge.own_checks import check_new_files  # here, for others do without the formats

            check_new_files(self._run, self._limit)
        self._end_device_findings()
        self._end_overdue()
        if not self._run.context.stop.is_set():
            for scanner in self._scanners:
                scanner.remove_damaged()
            apply_changes(self._run, self._run.looked_at or self._work[0])

    def _judge_moved_together(self) -> None:
        """Judge changed files by the times of those beside them, whatever limit the run has."""
        stop = self._run.context.stop
        has_read_all = self._options.is_everything and self._run.is_whole and not self._limit.is_set()
        while not stop.is_set() and self._assessor.queue_moved_together(has_read_all=has_read_all):
            self._read_again(stop)
            self._commits.write()

    def _order(self) -> WorkOrder:
        options, now = self._options, self._run.now()
        promised_at = now - self._run.settings.verify_every_s
        older_than_at = None if options.older_than_s is None else now - options.older_than_s
        return WorkOrder(
            root_id=self._run.root.id,
            prefix=self._run.prefix,
            now=now,
            never_verified_only=options.new,
            older_than_at=promised_at if options.due else older_than_at,
            due_before_at=promised_at + options.due_within_s,
            percent=options.percent,
            at_least_bytes=options.at_least_bytes,
            has_suspects=options.due or options.touched,
        )

    def _read_worklist(self) -> None:
        """
        Read the files on the worklist.

        With limits and large files, large files get the first half of the limit, because a single one may take very
        long. Then follow the small files, then large ones again.
        """
        large = max(self._options.large_bytes, LARGE_BYTES)
        with self._run.catalog.read() as connection:
            has_large = self._limit.is_any and files.count_larger(connection, large) > 0
        if not has_large:
            self._read(self._tasks(self._limit), self._limit)
            return
        half = self._limit.half()
        self._read(self._tasks(half, larger_than=large), half)
        self._read(self._tasks(self._limit, up_to=large), self._limit)
        self._read(self._tasks(self._limit, larger_than=large), self._limit)

    def _tasks(self, limit: RunLimit, *, larger_than: int | None = None, up_to: int | None = None) -> Iterator[Work]:
        after = 0
        while not limit.is_set():
            with self._run.catalog.read() as connection:
                page = files.page_worklist(connection, after, limit=_PAGE, larger_than=larger_than, up_to=up_to)
            if not page:
                return
            after = page[-1][0]
            records = self._links.group(self._in_disk_order(self._leave_out_unreadable([record for _, record in page])))
            for is_small, some in groupby(records, self._is_small):
                for work in (self._batch(list(some)),) if is_small else map(self._task, some):
                    if limit.is_set():
                        return
                    yield work

    def _is_small(self, record: FileRecord) -> bool:
        """Return whether a file is read in one piece."""
        most = small_bytes(self._run.settings.block_size_bytes)
        return record.block_size_bytes is None and record.witness.size_bytes <= most

    def _batch(self, records: list[FileRecord]) -> TaskBatch:
        asks_beginning = self._run.settings.policy in KEEPS_BEGINNING
        return TaskBatch(
            [record.path for record in records],
            [record.witness.size_bytes for record in records],
            [self._want if self._is_changed(record) else self._verify[True] for record in records],
            records,
            [prefix_probe(record) if asks_beginning else None for record in records],
            [self._assessor.account.known_bad.get(record.path, ()) for record in records],
            self._run.settings.block_size_bytes,
        )

    def _is_changed(self, record: FileRecord) -> bool:
        return self._scanner is not None and record.id in self._scanner.changed

    def _leave_out_unreadable(self, records: Iterable[FileRecord]) -> list[FileRecord]:
        """Leave out files that the scan has counted, or that are hidden by a mount."""
        hidden_mounts = find_hidden_mounts(self._run)  # for each page, because a scrub may take days
        usable: list[FileRecord] = []
        for record in records:
            if record.id in self._assessor.account.counted:
                continue
            hidden_mount = next((point for point in hidden_mounts if is_inside(record.path, point)), None)
            if hidden_mount is not None:
                self._count_hidden(record, hidden_mount)
            else:
                usable.append(record)
        return usable

    def _count_hidden(self, record: FileRecord, hidden_mount: bytes) -> None:
        """Count a file hidden by a mount. Report each mount once; the run is incomplete if it hides the named path."""
        run = self._run
        self._assessor.account.count(record.id, Tally.SKIPPED)
        run.is_incomplete |= is_inside(run.prefix, hidden_mount)
        if hidden_mount not in self._hidden_mounts:
            self._hidden_mounts.add(hidden_mount)
            run.note_skipped(hidden_mount, SkipReason.MOUNT)

    def _in_disk_order(self, records: list[FileRecord]) -> list[FileRecord]:
        """Sort a page in the physical order of a rotational disk; otherwise it is already sorted by inode (R4)."""
        if not self._run.device.is_rotational:
            return records
        paths, is_over = [record.path for record in records], self._run.context.stop.is_set
        positions = find_positions(self._run.root_fd, paths, is_over)
        order = sorted(zip(positions, [record.witness.inode for record in records], range(len(records)), strict=True))
        return [records[number] for _, _, number in order]

    def _task(self, record: FileRecord) -> Task:
        want = self._want if self._is_changed(record) else self._verify[record.block_size_bytes is None]
        probe = prefix_probe(record) if self._run.settings.policy in KEEPS_BEGINNING else None
        size = record.block_size_bytes or self._run.settings.block_size_bytes
        bad = self._assessor.account.known_bad.get(record.path, ())
        task = Task(record.path, record.witness.size_bytes, want, size, record, probe=probe, known_bad=bad)
        return self._checkpoints_of(task).resume(task)

    def _checkpoints_of(self, task: Task) -> Checkpoints:
        """Return the checkpoints that keep the parts of a large file: for a new baseline or for verification."""
        return self._recordings if task.want is self._want else self._checkpoints

    def _read(self, tasks: Iterable[Work], limit: StopSignal) -> None:
        engine = self._run.engine(ReadMode.DISK, stop=limit)
        files_total, bytes_total = self._work
        self._commits.read(
            engine,
            tasks,
            handle=self._take,
            handle_batch=self._take_batch,
            report_progress=lambda: self._run.progress(
                "scrub", self._done_files, self._bytes_before + engine.bytes_done, files=files_total, size=bytes_total
            ),
        )
        self._bytes_before += engine.bytes_done

    def _take_batch(self, done: DoneBatch) -> None:
        """Handle small files: the intact ones together, the others one by one."""
        has_parts = self._checkpoints.has_parts or self._recordings.has_parts  # one may have been large before
        if not has_parts:
            left = self._assessor.count_intact(done, self._links.leaders)
            self._done_files += len(done.tasks) - len(left)
            sizes = done.readings.sizes_bytes
            self._run.counts.bytes_read += sum(sizes) - sum(sizes[index] for index in left)
            done = done.select(left)
        for one in done.each():
            self._take(one)

    def _take(self, result: Result) -> None:
        record = result.task.tag
        assert isinstance(record, FileRecord)
        if isinstance(result, Partial):
            self._take_part(record, result)
            return
        if isinstance(result, Failed) and isinstance(result.error, ReadInterrupted):
            self._links.take(record)  # its names were not reached; they are not due or come again in this run
            return
        self._done_files += 1
        if isinstance(result, Failed):
            self._failed(record, result.error)
            return
        self._done(record, result)

    def _done(self, record: FileRecord, result: Done) -> None:
        """Judge a file under all of its names."""
        self._run.counts.bytes_read += result.reading.bytes_read - self._parts_read.pop(record.path, 0)
        bad_before: tuple[int, ...] = ()
        if self._checkpoints_of(result.task) is self._recordings:
            result = self._recordings.complete(result)
        else:
            bad_before = self._checkpoints.bad_before(result)
            if record.id in self._damaged_blocks:
                self._damaged_blocks.discard(record.id)
                self._assessor.account.report_damaged_record(record)
                self._ungrouped += self._links.take(record)
                return
        reading = result.reading
        self._assessor.assess(record, result, bad_before)
        for other in self._links.take(record):
            if self._links.is_still(other, reading.witness) and (
                not result.first_block or self._have_same_blocks(record, other)
            ):
                self._done_files += 1
                self._assessor.assess(other, result._replace(reading=reading._replace(bytes_read=0)), bad_before)
            else:
                self._ungrouped.append(other)

    def _have_same_blocks(self, record: FileRecord, other: FileRecord) -> bool:
        """Return whether two names have the same recorded blocks, so that parts verified for one hold for the other."""
        with self._run.catalog.read() as connection:
            blocks = [
                load_blocks(connection, one.id, one.version, one.block_size_bytes or 1) for one in (record, other)
            ]
        return blocks[0] is not None and blocks[0] == blocks[1]

    def _take_part(self, record: FileRecord, partial: Partial) -> None:
        """Compare the next part of a large file, store how far it was read, and count its bytes at once."""
        size = partial.offset - partial.first_block * partial.task.block_size_bytes
        self._run.counts.bytes_read += size
        self._parts_read[record.path] = self._parts_read.get(record.path, 0) + size
        if self._checkpoints_of(partial.task) is self._recordings:
            self._recordings.save(partial)
            return
        with self._run.catalog.read() as connection:
            bad = compare_blocks(connection, record, partial.blocks, partial.first_block)
        if bad is None or record.id in self._damaged_blocks:  # no later scrub may resume after this part, either
            self._damaged_blocks.add(record.id)
        else:
            self._checkpoints.save(partial, tuple(bad))

    def _failed(self, record: FileRecord, error: ReadError) -> None:
        """Handle an unreadable file. A read error of the disk applies to all names of the file."""
        for other in self._links.take(record):
            if isinstance(error, Unreadable) and error.ranges and self._links.is_still(other, error.witness):
                self._assessor.count_failed(other, error)
            else:
                self._ungrouped.append(other)
        if isinstance(error, Unstable):
            self._unstable.append((record, error))
        elif isinstance(error, Vanished):
            self._vanished.append(record)
        else:
            self._assessor.count_failed(record, error)

    def _read_again(self, limit: StopSignal) -> None:
        """Re-read files that changed or may have changed while read (R1), and changed files without all digests."""
        for _ in range(TRIES):
            unstable = [record for record, _ in self._unstable]
            again = unstable + self._assessor.account.take_rereads() + self._ungrouped
            if not again or (unstable and self._run.context.pause(self._run.context.pauses.retry_s)):
                break
            self._unstable, self._ungrouped = [], []
            self._read(self._tasks_again(self._links.group(again)), limit)
            self._assessor.confirm()
        racy = self._assessor.account.take_racy()
        if racy and not self._run.wait_for_clock_tick():
            self._read(self._tasks_again(racy), limit)
            self._assessor.confirm()
        for record, error in self._unstable:
            self._assessor.account.count_unstable(record, error)
        for record in self._assessor.account.take_rereads() + self._ungrouped:
            self._assessor.account.count_unstable(record)

    def _account_for_vanished(self) -> None:
        """
        Decide what happened to recorded files that were missing or replaced when they were read.

        A scan of the run's part of the root tells a move from a deletion. Files it could not decide get a finding in
        archives; otherwise the run is incomplete.
        """
        displaced = self._assessor.take_displaced()
        if not (self._vanished or displaced) or self._run.context.stop.is_set():
            return  # not due
        if self._options.scan_missing and self._is_root_itself():
            judge_again = self._scan_again()
            again = self._take_undecided([*(record.id for record, _ in displaced), *judge_again])
            self._read(self._tasks_again(again), self._limit)
            self._assessor.confirm()
            self._read_again(self._limit)
        else:
            self._assessor.count_displaced(displaced)
        for record in self._take_undecided():
            self._count_missing(record)

    def _is_root_itself(self) -> bool:
        """Return whether the root is still the recorded one; emptied or replaced, its files would look deleted (R5)."""
        try:
            os.close(open_guarded(self._run.root).fd)
        except RootSuspended:
            return False
        return True

    def _scan_again(self) -> list[FileId]:
        """Scan; return the files that were judged by another file under their former names, to be judged again."""
        run = self._run
        scanner = Scanner(run, ScanOptions(), counts_known_files=False)
        self._scanners.append(scanner)
        scanner.assessor.account.counted = self._assessor.account.counted
        run.counts_unrecorded = False
        scanner.prepare()
        run.counts_unrecorded = True
        self._assessor.follow_walk(scanner.replaced)
        self._assessor.account.revert(scanner.judge_again)
        return scanner.judge_again

    def _take_undecided(self, others: Iterable[FileId] = ()) -> list[FileRecord]:
        """Return the current records of vanished and other files, without those already counted."""
        vanished, self._vanished = self._vanished, []
        wanted = dict.fromkeys([*(record.id for record in vanished), *others])
        ids = [file_id for file_id in wanted if file_id not in self._assessor.account.counted]
        with self._run.catalog.read() as connection:
            return files.find_files(connection, ids)

    def _count_missing(self, record: FileRecord) -> None:
        """Count a missing file that no scan decided."""
        run = self._run
        with run.writing() as connection:
            if not is_current(connection, record):
                return  # a person decided meanwhile: not due
            has_finding = not may_be_there(run.root_fd, record.path) and self._assessor.account.count_missing(
                connection, record
            )
        if not has_finding:
            self._assessor.account.count(record.id, Tally.MISSING)
            run.is_incomplete = True
            run.note(NoteKind.MISSING, record.path, messages.vanished(program.command("scan", run.root.path)))

    def _tasks_again(self, records: Iterable[FileRecord]) -> Iterator[Task]:
        """Return tasks that read files again from the beginning, with all digests."""
        return (self._task(record)._replace(want=self._want, resume=None) for record in records)

    def _end_device_findings(self) -> None:
        """Resolve device findings once the whole root was read without an error."""
        run = self._run
        is_whole = self._options.is_everything and run.is_whole and not self._limit.is_set()
        if not is_whole or run.budget.errors or run.kinds_met & STOPPED_READING:
            return
        resolution = "the whole folder was read without an error"
        with run.writing() as connection:
            ended = findings.resolve_findings(
                connection, root_id=run.root.id, kinds=STOPPED_READING, resolution=resolution, now=run.now()
            )
        run.note_resolved(ended)

    def _end_overdue(self) -> None:
        """Resolve the overdue finding once nothing is overdue, because no service may be running to do it."""
        run = self._run
        with run.catalog.read() as connection:
            if not findings.has_open(connection, run.root.id, FindingKind.OVERDUE):
                return
            every_s = run.settings.verify_every_s
            if coverage(connection, run.root.id, now=run.now(), verify_every_s=every_s).overdue_files:
                return
        with run.writing() as connection:
            ended = findings.resolve_findings(
                connection,
                root_id=run.root.id,
                kinds={FindingKind.OVERDUE},
                copy="",
                resolution=messages.VERIFIED_IN_TIME,
                now=run.now(),
            )
        run.note_resolved(ended)

    def _count_rest(self) -> None:
        """Count files that were not reached as not due. Answered files may have been deleted from the catalog since."""
        run, counted = self._run, self._assessor.account.counted
        if run.is_whole and self._count_rows() == self._rows:
            run.counts.add(Tally.NOT_DUE, self._rows - len(counted))
        else:
            run.counts.add(Tally.NOT_DUE, sum(1 for file_id, _ in iterate_files(run) if file_id not in counted))

    def _count_rows(self) -> int:
        with self._run.catalog.read() as connection:
            return roots.count_files(connection, self._run.root.id)

    def _waiting(self) -> int:
        return self._assessor.account.waiting + self._checkpoints.waiting + self._recordings.waiting

    def _write(self) -> None:
        with self._run.writing() as connection:
            self._assessor.account.flush(connection)
            self._checkpoints.flush(connection)
            self._recordings.flush(connection)
