"""
Re-read files whose copies disagree with the record, so that each file has a vote of its own.

Results are judged, confirmed and reported as in a scrub, but not counted: a comparison counts the copy's answers.
``look_up`` then returns the current state of many files at once; one query per file would take longer than reading
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from integrity.catalog import files, findings, versions
from integrity.catalog.rows import FileRecord
from integrity.catalog.versions import FileVersion, VersionState
from integrity.errors import Unstable, Vanished
from integrity.files.span import ReadMode
from integrity.hashing.digests import want_to_record
from integrity.hashing.tasks import Done, DoneBatch, Partial, Result, Task, singly
from integrity.jobs.batching import IdSet
from integrity.jobs.checkpoints import Checkpoints
from integrity.jobs.judge.assess import Assessor
from integrity.jobs.judge.inodes import ReplacedInodes
from integrity.jobs.scan.apply_changes import apply_changes
from integrity.model import FileId, Finding, FindingKind
from integrity.verdict import VERDICTS, Judgement, Verdict

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


class FileCheck:
    """
    Verify files of a run.

    Args:
        read_here: receives the files that were read.
        mode: of the readings; only those from the disk verify files and resolve findings.

    Attributes:
        moved: files that changed, vanished or were not confirmed during the check; nothing may be concluded about them.
        intact: files found exactly as recorded. About the others, open findings say what was found.
    """

    def __init__(self, run: RootRun, read_here: IdSet, *, mode: ReadMode = ReadMode.DISK) -> None:
        self._run = run
        self._mode = mode
        self._want = want_to_record(blake3="blake3" in run.settings.digests)
        self._assessor = Assessor(run, from_disk=mode is ReadMode.DISK, replaced=ReplacedInodes())
        self._checkpoints = Checkpoints(run)
        self._read_here = read_here
        self.moved = IdSet()
        self.intact = IdSet()

    def check(self, records: Sequence[FileRecord]) -> None:
        """Read files, and record verdicts and findings."""
        run = self._run
        self._assessor.account.counted.update(record.id for record in records)  # counted by their copies' answers
        for answer in run.engine(self._mode).run_batches(self._tasks(records)):
            for result in singly(self._count_intact(answer) if isinstance(answer, DoneBatch) else answer):
                self._take(result)
        self._assessor.confirm()
        self.moved.update(record.id for record in self._assessor.account.take_rereads())
        with run.writing() as connection:
            self._assessor.account.flush(connection)
        if not run.context.stop.is_set():
            apply_changes(run, len(records))

    def _tasks(self, records: Iterable[FileRecord]) -> Iterable[Task]:
        default = self._run.settings.block_size_bytes
        for one in records:
            yield Task(one.path, one.witness.size_bytes, self._want, one.block_size_bytes or default, one)

    def _count_intact(self, done: DoneBatch) -> DoneBatch:
        """Count the files that are exactly as recorded, and return the others."""
        others = done.select(self._assessor.count_intact(done, ()))
        left = {record.id for record in cast("Sequence[FileRecord]", others.tasks.tags)}
        intact = {record.id for record in cast("Sequence[FileRecord]", done.tasks.tags)} - left
        self.intact.update(intact)
        self._read_here.update(intact)
        self._run.counts.bytes_read += sum(done.readings.sizes_bytes) - sum(others.readings.sizes_bytes)
        return others

    def _take(self, result: Result) -> None:
        record = result.task.tag
        assert isinstance(record, FileRecord)
        if isinstance(result, Partial):
            self._checkpoints.save(result)
        elif isinstance(result, Done):
            done = self._checkpoints.complete(result)
            self._run.counts.bytes_read += done.reading.bytes_read
            self._read_here.add(record.id)
            self._assessor.assess(record, done)
        elif isinstance(result.error, Unstable | Vanished):
            self.moved.add(record.id)
        else:
            self._read_here.add(record.id)
            self._assessor.count_failed(record, result.error)


class FileRecheck(NamedTuple):
    """
    State of one file.

    Attributes:
        record: the current one; None if the file left the catalog.
        own: open findings about the file itself.
        about_copy: open findings about its copy.
        candidate: newer content, or the file's absence, that is not accepted yet.
    """

    record: FileRecord | None
    own: tuple[Finding, ...]
    about_copy: tuple[Finding, ...]
    candidate: FileVersion | None

    def is_still(self, record: FileRecord) -> bool:
        """Return whether the record is unchanged."""
        now = self.record
        return now is not None and (now.version, now.path) == (record.version, record.path)

    def judge(self) -> Judgement | None:
        """
        Return the file's verdict from its open findings; without any the file is what was recorded.

        What was written after a finding is no longer the content that it is about.

        Returns:
            None if the record contradicts itself.
        """
        if self._was_written_since():
            return Judgement(Verdict.CHANGED)
        for finding in self.own:
            if finding.kind in VERDICTS:
                return Judgement(VERDICTS[finding.kind], finding.certainty)
        if any(finding.kind is FindingKind.CATALOG_DAMAGED for finding in self.own):
            return None
        held = self.candidate
        if held is not None and held.state is VersionState.HELD:
            if held.is_gone:
                return Judgement(Verdict.MISSING)
            return Judgement(Verdict.CHANGED, because=held.reason)
        return Judgement(Verdict.INTACT)

    def _was_written_since(self) -> bool:
        """Return whether newer content was seen since the findings about the file's content were opened."""
        newer = self.candidate
        if newer is None or newer.is_gone or newer.is_damage:
            return False
        # Runs, not times: the clock may have been wrong at one of them.
        opened_by = [one.opened_by or 0 for one in self.own if one.kind in VERDICTS]
        return bool(opened_by) and (newer.run_id or 0) >= max(opened_by)


def look_up(connection: Connection, ids: Sequence[FileId], copy: str) -> dict[FileId, FileRecheck]:
    """Return the state of each file in ``ids``; ``copy`` is the name of the copy."""
    records = {one.id: one for one in files.find_files(connection, ids)}
    opened = findings.find_open_of_files(connection, ids)
    newer = versions.get_candidates(connection, ids)
    return {
        one: FileRecheck(
            records.get(one),
            tuple(_about(opened.get(one, ()), None)),
            tuple(_about(opened.get(one, ()), copy)),
            newer.get(one),
        )
        for one in ids
    }


def _about(found: Iterable[Finding], copy: str | None) -> Iterable[Finding]:
    return (finding for finding in found if finding.copy == copy)
