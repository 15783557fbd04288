"""
Walk a root and bring the catalog up to date: new, changed, moved and missing files.

Decides what has to be read and in which order; what a reading means is the assessor's to say. Unchanged files cost an
lstat and a comparison. Where only ctime or inode moved the file becomes a suspect that scrubs read early (R2).

I1  Each name is counted exactly once (R8).
I2  The catalog is written by this thread alone, about once a second at most, results together with what they cover
    (R7).
I3  Nothing is concluded from an unknown name while rows are known to be lost (R9).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from stat import S_ISREG
from typing import TYPE_CHECKING

from integrity.catalog import candidates, files, folders, roots
from integrity.catalog.files import FileRecord, KnownFile
from integrity.errors import DeviceFailing, DeviceStalled, ReadError, ReadInterrupted, Unstable, Vanished
from integrity.files.opening import stat_beneath
from integrity.files.read import ReadMode
from integrity.files.stamps import witness_of
from integrity.files.walk import Listing, Seen, walk
from integrity.hashing.digests import recording
from integrity.hashing.engine import Done, Failed, Partial, Result, Task
from integrity.jobs import messages
from integrity.jobs.arrivals import Arrival, Arrivals, Place
from integrity.jobs.assess import Assessor
from integrity.jobs.checkpoints import Checkpoints
from integrity.jobs.contents import prefix_probe
from integrity.jobs.departures import Departures
from integrity.jobs.idset import IdSet
from integrity.jobs.replaced import Replaced
from integrity.jobs.report import NoteKind
from integrity.jobs.settle import forget_unsettled, settle
from integrity.jobs.unchanged import gather, split_unchanged
from integrity.model import FileId, FindingKind, Policy, Tally, Witness
from integrity.verdict import compare_witness

if TYPE_CHECKING:
    from integrity.catalog.connect import Connection
    from integrity.jobs.context import RootRun

COMMIT_S = 1.0
_ROWS_AT_ONCE = 20_000
_TRIES = 3
_WAIT_S = 3.0
"""Between two tries of a file that changed while it was read: three tries, less than ten seconds (R1)."""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How to scan. ``full``: read files whose witness is unchanged, too."""

    full: bool = False


class Scanner:
    """
    Scan one root, or a part of it.

    Args:
        run: what it works on.
        options: how.
        is_prelude: a scrub follows: known files are left for it to read and to count.
    """

    def __init__(self, run: RootRun, options: ScanOptions, *, is_prelude: bool = False) -> None:
        self._run = run
        self._options = options
        self._is_prelude = is_prelude
        self._want = recording(blake3="blake3" in run.settings.digests)
        self._seen = IdSet()
        self.replaced = Replaced()
        self.assessor = Assessor(run, from_disk=False, replaced=self.replaced)
        self._arrivals = Arrivals(run, self._seen, is_prelude=is_prelude)
        self._departures = Departures(run, self.assessor, self._arrivals, self._seen)
        self._checkpoints = Checkpoints(run)
        self._suspects: list[FileId] = []
        self._unstable: list[bytes] = []
        self._flushed_at = run.context.monotonic()
        self._rows_are_lost = False
        self.changed = IdSet()

    def run(self) -> None:
        """Scan, and settle what was found."""
        self.prepare()
        if not self._is_stopped():
            settle(self._run, len(self._seen))

    def prepare(self) -> None:
        """Scan without settling: for a scrub, which settles what both found together."""
        forget_unsettled(self._run)
        self._check_rows()
        self._read(self._walk())
        self._read_what_was_replaced()
        self._read_again_what_moved()
        self._read_again_what_is_racy()
        self._confirm()
        self._flush()
        if not self._is_stopped():
            self._departures.account()
            self._flush()

    def _is_stopped(self) -> bool:
        return self._run.context.stop.is_set()

    def _check_rows(self) -> None:
        """Notice rows that were lost or added behind the catalog's back (R9)."""
        run = self._run
        with run.catalog.read() as connection:
            actual = roots.count_files(connection, run.root.id)
            expected = roots.get_root(connection, run.root.id).file_count
        if actual != expected:
            self._rows_are_lost = True
            with run.writing() as connection:
                text = messages.rows_lost(expected, actual)
                run.open_finding(connection, FindingKind.CATALOG_DAMAGED, text)

    # ---- what to read

    def _walk(self) -> Iterator[Task]:
        """Compare what is there with what is recorded; give what has to be read."""
        for group in gather(self._listings()):
            if self._is_stopped():
                return
            for listing in group:
                self._take_skips(listing)
            with self._run.catalog.read() as connection:
                tasks = self._compare_all(connection, group)
            yield from tasks
            self._tell("scan")

    def _listings(self) -> Iterator[Listing]:
        run = self._run
        if run.prefix:
            try:
                stat = stat_beneath(run.root_fd, run.prefix)
            except OSError:
                return  # gone, or it can't be looked at: the departures find out which
            if S_ISREG(stat.st_mode):
                folder, _, name = run.prefix.rpartition(b"/")
                yield Listing(folder, [_as_seen(name, stat)], False, True, [], None)
                return
        yield from walk(
            run.root_fd,
            run.prefix,
            excludes=run.excludes,
            cross_mounts=run.settings.cross_mounts,
            leave_out=_catalog_files(run.catalog.path),
        )

    def _take_skips(self, listing: Listing) -> None:
        for skip in listing.skips:
            self._departures.was_skipped(skip)
            self._run.skip(skip)
        if listing.error is not None:
            self._departures.could_not_list(listing.error.path)
            error = listing.error
            self._run.is_incomplete = True
            with self._run.writing() as connection:
                self._run.open_finding(connection, FindingKind.UNREADABLE, f"{error.message}", path=error.path)

    def _compare_all(self, connection: Connection, listings: list[Listing]) -> list[Task]:
        """Compare folders: together those that are unchanged, and the others file by file."""
        ids: list[FileId] = []
        if not self._options.full and not self.assessor.missing_paths:
            ids, listings = split_unchanged(connection, self._run.root.id, listings)
        self._seen.update(ids)
        if not self._is_prelude:
            self._run.counts.not_due += len(ids)
        return [task for listing in listings for task in self._compare(connection, listing)]

    def _compare(self, connection: Connection, listing: Listing) -> list[Task]:
        """Sort the files of one folder into unchanged, suspect, to be read, and unknown."""
        known = self._find_known(connection, listing)
        prefix = listing.folder + b"/" if listing.folder else b""
        missing_paths = self.assessor.missing_paths
        inodes_are_stable = self._run.capability.has_stable_inodes
        tasks: list[Task] = []
        unchanged = 0
        for seen in listing.files:
            old = known.get(seen.name)
            if old is None:
                task = self._unknown(connection, Place(listing.folder, seen.name), seen)
            else:
                self._seen.add(old.id)
                if missing_paths and prefix + seen.name in missing_paths:
                    self._is_back(prefix + seen.name, old)
                if old[1:5] == seen[1:5] and not self._options.full and not old.is_racy and not old.is_frozen:
                    unchanged += 1
                    continue
                place = Place(listing.folder, seen.name)
                if old.inode != seen.inode and inodes_are_stable:
                    if self.replaced.add(place, seen):
                        continue
                    self._arrivals.stays(old.id)
                task = self._known(connection, seen, old)
            if task is not None:
                tasks.append(task)
        if not self._is_prelude:
            self._run.counts.not_due += unchanged
        return tasks

    def _find_known(self, connection: Connection, listing: Listing) -> dict[bytes, KnownFile]:
        if listing.is_whole:
            return files.find_known(connection, self._run.root.id, listing.folder)
        folder_id = folders.get_folder_id(connection, self._run.root.id, listing.folder)
        if folder_id is None:
            return {}
        return files.find_known_names(connection, folder_id, [seen.name for seen in listing.files])

    def _unknown(self, connection: Connection, place: Place, seen: Seen) -> Task | None:
        if self._rows_are_lost:
            self._run.counts.add(Tally.SKIPPED)
            return None
        task = self._arrivals.meet(connection, place, seen)
        return None if task is None else self._checkpoints.resume(connection, task)

    def _known(self, connection: Connection, seen: Seen, old: KnownFile) -> Task | None:
        """Decide over a recorded file whose witness moved, is racy, or that has an open finding."""
        shift = compare_witness(self._run.capability, Witness(*old[1:5]), Witness(*seen[1:5]))
        is_touched = shift.touches_content or old.is_racy
        if not is_touched and not shift.is_nothing and not old.is_suspect:
            self._suspects.append(old.id)
        if self._is_prelude:
            if is_touched:
                self.changed.add(old.id)
            return None
        if old.is_frozen and not (is_touched and self._is_news(connection, old, seen)):
            self.assessor.count(old.id, Tally.DAMAGED)
            return None
        if not is_touched and not self._options.full:
            self.assessor.count(old.id, Tally.NOT_DUE)
            return None
        return self._task(connection, old.id)

    def _is_news(self, connection: Connection, old: KnownFile, seen: Seen) -> bool:
        """Say whether a frozen file's content is neither its baseline's nor its candidate's, going by the witness."""
        if old[1:5] == seen[1:5]:
            return False
        candidate = candidates.get_candidate(connection, old.id)
        return candidate is None or candidate.witness is None or candidate.witness[:4] != seen[1:5]

    def _is_back(self, path: bytes, old: KnownFile) -> None:
        """A file that was missing was met again; what is in it now is judged like that of any other."""
        with self._run.writing() as connection:
            self._run.resolve_missing(connection, old.id, path)
        self.assessor.missing_paths.discard(path)

    def _read_what_was_replaced(self) -> None:
        """
        Decide over the names under which another file stands now.

        First those whose record moved on with its file: they may tell of the next ones (log.1 to log.2, log to log.1).
        """
        waiting = self.replaced.take()
        while waiting and not self._is_stopped():
            freed = [place for place in waiting if not self._is_recorded(place)]
            self._read(self._recheck(freed or waiting))
            if not freed:
                return
            left = set(freed)
            waiting = [place for place in waiting if place not in left]

    def _is_recorded(self, place: Place) -> bool:
        with self._run.catalog.read() as connection:
            return self._find_one(connection, place) is not None

    def _find_one(self, connection: Connection, place: Place) -> KnownFile | None:
        folder_id = folders.get_folder_id(connection, self._run.root.id, place.folder)
        known = {} if folder_id is None else files.find_known_names(connection, folder_id, [place.name])
        return known.get(place.name)

    def _recheck(self, places: Iterable[Place]) -> Iterator[Task]:
        """Look at names once more, as they are recorded or not recorded now."""
        for place in places:
            with self._run.catalog.read() as connection:
                old = self._find_one(connection, place)
                try:
                    stat = stat_beneath(self._run.root_fd, place.path)
                except OSError:  # gone since: if it is recorded, the departures find out what became of it
                    task = None
                    if old is not None:
                        self._seen.discard(old.id)
                else:
                    seen = _as_seen(place.name, stat)
                    task = self._unknown(connection, place, seen) if old is None else self._known(connection, seen, old)
            if task is not None:
                yield task

    def _task(self, connection: Connection, file_id: FileId) -> Task | None:
        record = files.get_file(connection, self._run.catalog.sealer, file_id)
        if not record.is_sealed:
            self.assessor.catalog_damaged(record)
            return None
        probe = prefix_probe(record) if self._run.settings.policy is Policy.GROWING else None
        block_size = record.block_size_bytes or self._run.settings.block_size_bytes
        task = Task(record.path, record.witness.size_bytes, self._want, block_size, record, probe=probe)
        return self._checkpoints.resume(connection, task)

    def _tasks_for(self, paths: Iterable[bytes]) -> Iterator[Task]:
        """Make tasks for names that were met before, as they are recorded or not recorded now."""
        for path in paths:
            with self._run.catalog.read() as connection:
                task = self._task_for(connection, path)
            if task is not None:
                yield task

    def _task_for(self, connection: Connection, path: bytes) -> Task | None:
        folder, _, name = path.rpartition(b"/")
        record = files.find_file(connection, self._run.catalog.sealer, self._run.root.id, path)
        if record is not None:
            self._seen.add(record.id)
            return self._task(connection, record.id)
        try:
            stat = stat_beneath(self._run.root_fd, path)
        except OSError:
            return None  # gone since: unknown and not there, so there is nothing to account for
        return self._unknown(connection, Place(folder, name), _as_seen(name, stat))

    # ---- what was read

    def _read(self, tasks: Iterable[Task]) -> None:
        engine = self._run.engine(ReadMode.RECORD)
        for result in engine.run(tasks):
            self._take(result)
            self._tell("record")
            if self._is_due():
                self._flush()
        self._flush()

    def _take(self, result: Result) -> None:
        if isinstance(result, Partial):
            self._checkpoints.keep(result)
        elif isinstance(result, Failed):
            self._failed(result.task, result.error)
        else:
            self._done(self._checkpoints.complete(result))

    def _done(self, done: Done) -> None:
        self._run.counts.bytes_read += done.reading.bytes_read
        tag = done.task.tag
        if isinstance(tag, Arrival):
            self._arrivals.done(tag, done.reading)
        else:
            assert isinstance(tag, FileRecord)
            self.assessor.take(tag, done)

    def _failed(self, task: Task, error: ReadError) -> None:
        """Account for what could not be read: later again, gone, or a finding."""
        tag = task.tag
        if isinstance(tag, Arrival):
            self._arrivals.dropped(tag)
        if isinstance(error, Unstable):
            self._unstable += [place.path for place in tag.places] if isinstance(tag, Arrival) else [task.path]
        elif isinstance(error, Vanished):
            if isinstance(tag, FileRecord):
                self._seen.discard(tag.id)
        elif isinstance(tag, FileRecord):
            self.assessor.failed(tag, error)
        elif not isinstance(error, ReadInterrupted):
            self._arrival_failed(tag, error)

    def _arrival_failed(self, tag: object, error: ReadError) -> None:
        assert isinstance(tag, Arrival)
        is_device = isinstance(error, DeviceFailing | DeviceStalled)
        if is_device:
            self.assessor.device(error)
        for place in tag.places:
            if not is_device:
                self.assessor.unreadable(place.path, error, None)
            self._run.counts.add(Tally.SKIPPED if is_device else Tally.UNREADABLE)

    def _read_again_what_moved(self) -> None:
        """Try files again that changed while they were read (R1); then say that they never held still."""
        for _ in range(_TRIES - 1):
            if not self._unstable or self._run.context.pause(_WAIT_S):
                break
            paths, self._unstable = self._unstable, []
            self._read(self._tasks_for(paths))
        for path in self._unstable:
            with self._run.catalog.read() as connection:
                record = files.find_file(connection, self._run.catalog.sealer, self._run.root.id, path)
            if record is not None:
                self.assessor.unstable(record)
            else:
                self._run.is_incomplete = True
                self._run.counts.add(Tally.UNSTABLE)
                self._run.note(NoteKind.UNSTABLE, path, messages.unstable())

    def _read_again_what_is_racy(self) -> None:
        """Hash files again whose witness was racy, now that the clock granule is over (R1)."""
        paths, self._arrivals.racy = self._arrivals.racy, []
        if not paths or self._run.context.pause(self._run.capability.granularity_ns / 1e9 + 0.02):
            return
        counted: list[FileId] = []
        self._read(self._racy_tasks(paths, counted))
        if self._is_prelude:
            for file_id in counted:
                self.assessor.answered.discard(file_id)

    def _racy_tasks(self, paths: Iterable[bytes], counted: list[FileId]) -> Iterator[Task]:
        """Make tasks for files that were counted as new, or that the scrub will count, and so are not to be here."""
        for task in self._tasks_for(paths):
            if isinstance(task.tag, FileRecord) and self.assessor.was_counted(task.tag.id):
                counted.append(task.tag.id)
            yield task

    def _confirm(self) -> None:
        """Confirm mismatches; what changed meanwhile is read again, as whatever it is now."""
        self.assessor.confirm()
        for _ in range(_TRIES - 1):
            moved = self.assessor.take_incomplete()
            if not moved:
                return
            self._read(self._tasks_for(record.path for record in moved))
            self._read_again_what_moved()
            self.assessor.confirm()
        for record in self.assessor.take_incomplete():
            self.assessor.unstable(record)

    # ---- writing

    def _is_due(self) -> bool:
        waiting = self._arrivals.waiting + self.assessor.waiting + len(self._suspects)
        if not waiting:
            return False
        return waiting >= _ROWS_AT_ONCE or self._run.context.monotonic() - self._flushed_at >= COMMIT_S

    def _flush(self) -> None:
        if self._arrivals.waiting + self.assessor.waiting + len(self._suspects):
            with self._run.writing() as connection:
                self._arrivals.flush(connection)
                self.assessor.flush(connection)
                files.mark_suspects(connection, self._suspects)
                self._checkpoints.flush(connection)
            self._suspects = []
        self._flushed_at = self._run.context.monotonic()

    def _tell(self, phase: str) -> None:
        run = self._run
        run.progress(phase, len(self._seen), run.counts.bytes_read, files=None, size=None)


def _as_seen(name: bytes, stat: os.stat_result) -> Seen:
    return Seen(name, *witness_of(stat)[:4], stat.st_nlink)


def _catalog_files(path: bytes) -> frozenset[tuple[int, int]]:
    """Identify the catalog's own files, in case they lie in the root."""
    found = set()
    for suffix in (b"", b"-wal", b"-shm", b"-journal"):
        try:
            stat = os.stat(path + suffix)
        except FileNotFoundError:
            continue
        found.add((stat.st_dev, stat.st_ino))
    return frozenset(found)
