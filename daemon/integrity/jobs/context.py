"""
Define what every job receives, and what the parts of a run on one root share.

``RunLimit`` decides when a limited run stops; stopping at a limit is no error.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from integrity.arbitration import find_stand
from integrity.catalog import findings, roots
from integrity.catalog.connection import Catalog, write_in_pages
from integrity.catalog.findings import NewFinding
from integrity.catalog.roots import RootRecord
from integrity.catalog.rows import FileRecord, require_current
from integrity.config import Config, RootSettings
from integrity.errors import CatalogError, show_path
from integrity.files.block_devices import Device
from integrity.files.excludes import Excludes, TreeScope
from integrity.files.listing import Skip
from integrity.files.mirrors import Mirror
from integrity.files.read import Reader
from integrity.files.read_errors import ErrorBudget
from integrity.files.span import UNLIMITED, Pace, ReadMode
from integrity.files.system_load import read_boot_uuid
from integrity.hashing.engine import STALL_S, Engine
from integrity.hashing.tasks import StopSignal
from integrity.hashing.work_queue import BUFFER_BYTES
from integrity.jobs import messages
from integrity.jobs.actor import find_user
from integrity.jobs.repair_advice import advise_repair, renew_copy_advice
from integrity.jobs.report import Note, NoteKind, Progress, Report, Stop
from integrity.kinds import ARCHIVE_FINDINGS
from integrity.model import (
    Actor,
    Capability,
    Certainty,
    FileId,
    Finding,
    FindingId,
    FindingKind,
    Job,
    RunCounts,
    RunId,
    SkipReason,
    Tally,
)
from integrity.pauses import Pauses, read_pauses
from integrity.verdict import VERDICTS, Judgement

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection


PROGRESS_INTERVAL_S = 0.1

Item = TypeVar("Item")


@dataclass(slots=True)
class Context:
    """
    What a job needs from its surroundings.

    Args:
        catalog: open for writing, used by the job's thread only.
        report: receives progress, findings and notes.
        jobs: number of threads; None for one per processor.
        stop: set to end the job early.
        clock: seconds UTC.
        monotonic: seconds, for durations.
        wait: waits this many seconds; returns True at once if the job was asked to stop. None: ``stop.wait``.
        boot_uuid: of the running kernel.
        may_add_roots: a named folder outside all roots becomes a root.
        pace: throttles jobs without a rate of their own.
        preempted: set to end a scrub as at a limit, to be resumed later.
        socket: where the service accepts requests; None for a command.
        actor: the person for whom the job works; None: the user of this process.
        scope: the part of the root that its catalog covers; None: all of it.
        makes_backups: back the catalog up when that is due.
        pauses: before files are read again.
    """

    catalog: Catalog
    config: Config
    report: Report
    jobs: int | None = None
    stop: Stop = field(default_factory=Stop)
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    wait: Callable[[float], bool] | None = None
    boot_uuid: str = field(default_factory=read_boot_uuid)
    may_add_roots: bool = True
    pace: Pace = UNLIMITED
    preempted: Stop = field(default_factory=Stop)
    socket: str | None = None
    actor: Actor | None = None
    scope: TreeScope | None = None
    makes_backups: bool = True
    pauses: Pauses = field(default_factory=read_pauses)

    def now(self) -> int:
        """Return the time in whole seconds UTC."""
        return int(self.clock())

    def find_actor(self) -> Actor:
        """Return the person for whom the job works."""
        return self.actor or find_user()

    def pause(self, duration_s: float) -> bool:
        """Wait; return whether the job was asked to stop."""
        return (self.wait or self.stop.wait)(duration_s) or self.stop.is_set()


@dataclass(slots=True)
class RootRun:
    """
    One run on one root, or a part of it.

    Args:
        prefix: the requested part of the root; empty for all of it.
        hints: names in the root with file system events: only these, and what lies below them, are read.
        boot_id: the catalog's latest boot or mount id; verifications refer to it.
        file_systems: names of the root's file system, at the empty path, and of those inside it, by path.
        mirror: the mirror below the root: each read may return another copy of the data.
        root_fd: the open folder of the root; it still shows the root if something is mounted over it.
        counts: what was covered so far.
        damaged: the files counted as damaged.
        altered: how many of them somebody wrote to where nobody should; known when the run has ended.
        kinds_met: kinds of all findings that this run met, new or still open.
        is_incomplete: something could not be covered.
        looked_at: number of previously recorded files that a walk met or missed.
        unrecorded: number of counted names without a record.
        skips: why names without a record were skipped, and how many.
        counts_unrecorded: False while a walk only looks for recorded files.
    """

    context: Context
    root: RootRecord
    settings: RootSettings
    prefix: bytes
    job: Job
    run_id: RunId
    boot_id: int
    started_at: int
    root_fd: int
    capability: Capability
    device: Device
    mirror: Mirror | None
    excludes: Excludes
    rewrites: Excludes
    file_systems: dict[bytes, str] = field(default_factory=dict)
    hints: tuple[bytes, ...] = ()
    pace: Pace = UNLIMITED
    counts: RunCounts = field(default_factory=RunCounts)
    damaged: list[FileId] = field(default_factory=list)
    altered: int = 0
    kinds_met: set[FindingKind] = field(default_factory=set)
    is_incomplete: bool = False
    looked_at: int = 0
    unrecorded: int = 0
    skips: Counter[SkipReason] = field(default_factory=Counter)
    counts_unrecorded: bool = True
    budget: ErrorBudget = field(default_factory=ErrorBudget)
    _progress_at: float = 0.0
    holds_findings: bool = False  # more may be said of what was found just now
    _to_report: dict[FindingId, Finding] = field(default_factory=dict)  # of one incident, unless they are held
    _noted: set[FindingId] = field(default_factory=set)  # incidents whose end was noted

    @property
    def catalog(self) -> Catalog:
        """The catalog of the context."""
        return self.context.catalog

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The covered parts of the root: folders with their subfolders, or files; ``(b"",)`` for all of it."""
        return self.hints or (self.prefix,)

    @property
    def is_whole(self) -> bool:
        """Whether the run covers the whole root."""
        return not (self.prefix or self.hints)

    def get_file_system(self, path: bytes) -> str:
        """Return the name of the file system of a file in the root."""
        inner = [place for place in self.file_systems if place and path.startswith(place + b"/")]
        return self.file_systems.get(max(inner, key=len, default=b""), "")

    def now(self) -> int:
        """Return the time in whole seconds UTC."""
        return self.context.now()

    @contextmanager
    def writing(self, *, is_synced: bool = True) -> Iterator[Connection]:
        """
        Open a transaction; ``is_synced``: see ``Catalog.transaction``.

        Raises:
            CatalogError: the root was deleted meanwhile: a person's decision takes no lock (R9).
        """
        with self.catalog.transaction(is_synced=is_synced) as connection:
            if not roots.has_root(connection, self.root.id):
                raise CatalogError(
                    f"{show_path(self.root.path)}: was forgotten while it was worked on; nothing is kept"
                )
            yield connection

    def write_in_pages(self, items: Sequence[Item], write: Callable[[Connection, Sequence[Item]], object]) -> None:
        """Write many items in short transactions. Another run must be able to complete a part of them."""
        write_in_pages(self.writing, items, write, monotonic=self.context.monotonic)

    def reader(self, mode: ReadMode, *, use_holes: bool = True) -> Reader:
        """Return a reader of this root."""
        return Reader(self.root_fd, self.capability, mode=mode, pace=self.pace, budget=self.budget, use_holes=use_holes)

    def engine(self, mode: ReadMode, *, stop: StopSignal | None = None, jobs: int | None = None) -> Engine:
        """Return an engine that reads this root; ``jobs`` overrides the run's number of threads."""
        return self.engine_of(self.reader(mode), self.device, self.budget, stop=stop, jobs=jobs)

    def engine_of(
        self,
        reader: Reader,
        device: Device,
        budget: ErrorBudget,
        *,
        stop: StopSignal | None = None,
        jobs: int | None = None,
    ) -> Engine:
        """Return an engine. ``--jobs`` overrides what the disk reports: virtual disks often report wrongly."""
        jobs = jobs or self.context.jobs
        # a reader that waits for its turn at a low rate is not stalled
        stall_s = STALL_S + self.pace.duration_s(BUFFER_BYTES * (jobs or os.cpu_count() or 1))
        return Engine(
            reader,
            jobs=jobs,
            is_serial=device.is_rotational and jobs is None,
            budget=budget,
            stop=stop or self.context.stop,
            monotonic=self.context.monotonic,
            stall_s=stall_s,
        )

    def wait_for_clock_tick(self) -> bool:
        """Wait until a new write gets a new timestamp (R1); return whether the job was asked to stop."""
        return self.context.pause(self.capability.granularity_ns / 1e9 + 0.02)

    def leave_out_written(self, paths: Iterable[bytes]) -> list[bytes]:
        """Return the files that no program has open for writing; the end of such a write is unknown."""
        reader = self.reader(ReadMode.RECORD)
        return [path for path in paths if not reader.is_being_written(path)]

    def open_finding(
        self,
        connection: Connection,
        kind: FindingKind,
        message: str,
        *,
        path: bytes | None = None,
        record: FileRecord | None = None,
        certainty: Certainty | None = None,
        blocks: tuple[int, ...] = (),
        block_size_bytes: int | None = None,
        ranges: tuple[tuple[int, int], ...] = (),
        confirmed_reads: int = 0,
        copy: str | None = None,
        step: str | None = None,
        command: str | None = None,
    ) -> None:
        """
        Open a finding or update an open one, and report it, with a copy that can repair the file if there is one.

        A recorded file is given by its ``record``, as it was judged; ``path`` is for findings without a record.

        Raises:
            RecordSuperseded: the record was replaced meanwhile; the file must be judged again.
        """
        if record is not None:
            require_current(connection, record)
            path = record.path
        if copy is None and record is not None and (step is None or kind in ARCHIVE_FINDINGS):
            advice = advise_repair(connection, self.root.id, self.root.path, record.path, record.id, kind)
            if advice is not None:
                step = advice.words if step is None else f"{step}; otherwise, {advice.words}"
                command = advice.command
        new = NewFinding(
            kind,
            self.root.id,
            None if record is None else record.id,
            path,
            message,
            certainty=certainty,
            blocks=blocks,
            block_size_bytes=block_size_bytes,
            ranges=ranges,
            confirmed_reads=confirmed_reads,
            copy=copy,
            step=step,
            command=command,
        )
        finding, is_new = findings.open_finding(connection, new, now=self.now(), run_id=self.run_id)
        if is_new and copy is None and record is not None and kind in VERDICTS:
            stand = find_stand(Judgement(VERDICTS[kind]))
            renew_copy_advice(connection, self.root.path, record.path, record.id, stand=stand)
        self.counts.findings_opened += is_new and finding.incident is None
        self.queue_finding(finding)

    def report_open_findings(self, connection: Connection, path: bytes) -> None:
        """Report the open findings on a path that this run met again."""
        for finding in findings.find_findings_at(connection, self.root.id, path, copy=""):
            self.queue_finding(finding)

    def queue_finding(self, finding: Finding) -> None:
        """Queue an open finding that this run met. Those of one incident (names of one file) are reported together."""
        self.kinds_met.add(finding.kind)
        if any(one.incident_id != finding.incident_id for one in islice(self._to_report.values(), 1)):
            self._report_unheld()
        self._to_report[finding.id] = finding

    def report_queued(self) -> None:
        """Report the queued incidents."""
        incidents: dict[FindingId, list[Finding]] = {}
        for one in self._to_report.values():
            incidents.setdefault(one.incident_id, []).append(one)
        self._to_report = {}
        for first, *others in incidents.values():
            names = dict.fromkeys(one.path for one in others if one.path is not None and one.path != first.path)
            self.context.report.finding(first._replace(names=tuple(names)))

    def _report_unheld(self) -> None:
        if not self.holds_findings:
            self.report_queued()

    def resolve_missing(self, connection: Connection, file_id: FileId, path: bytes) -> None:
        """Resolve the finding that a file is missing, because it was met again."""
        kinds = {FindingKind.MISSING}
        for _ in findings.resolve_findings(
            connection, file_id=file_id, kinds=kinds, resolution="the file is back", now=self.now()
        ):
            self.note(NoteKind.RESOLVED, path, "is back")

    def note_resolved(self, ended: Iterable[Finding]) -> None:
        """Note the findings that this run resolved, with the reason; those of one incident once, as they were told."""
        for one in ended:
            if one.incident_id not in self._noted:
                self._noted.add(one.incident_id)
                self.note(NoteKind.RESOLVED, one.path, messages.resolved(one, one.resolution or ""))

    def count_unrecorded(self, tally: Tally) -> None:
        """Count a name without a record."""
        if self.counts_unrecorded:
            self.counts.add(tally)
            self.unrecorded += 1

    def uncount_unrecorded(self, tally: Tally) -> None:
        """Uncount a name that was counted as unrecorded, because it is counted by its record."""
        if self.counts_unrecorded:
            self.counts.add(tally, -1)
            self.unrecorded -= 1

    def skip(self, skip: Skip) -> None:
        """Count a skipped name, and note it unless it is a symbolic link: those are many and contain no data."""
        self.count_unrecorded(Tally.SKIPPED)
        self.skips[skip.reason] += self.counts_unrecorded
        if self.counts_unrecorded and skip.reason is not SkipReason.SYMLINK:
            self.note_skipped(skip.path, skip.reason)

    def note_skipped(self, path: bytes, reason: SkipReason) -> None:
        """Report a name that was skipped."""
        self._note(Note(NoteKind.SKIPPED, self.root.path, path, messages.SKIPPED[reason], reason))

    def note(self, kind: NoteKind, path: bytes | None, message: str, skip_reason: SkipReason | None = None) -> None:
        """Report something worth listing."""
        self._note(Note(kind, self.root.path, path, message, skip_reason))

    def _note(self, note: Note) -> None:
        self._report_unheld()
        self.context.report.note(note)

    def progress(self, phase: str, files_done: int, bytes_done: int, *, files: int | None, size: int | None) -> None:
        """Report the progress, at most every ``PROGRESS_INTERVAL_S``."""
        now = self.context.monotonic()
        if now - self._progress_at >= PROGRESS_INTERVAL_S:
            self._progress_at = now
            self._report_unheld()
            self.context.report.progress(Progress(self.job, self.root.path, phase, files_done, files, bytes_done, size))

    def note_device(self, connection: Connection, kind: FindingKind) -> None:
        """Open the only finding of this run about a device that fails or hangs."""
        self.is_incomplete = True
        if kind not in self.kinds_met:
            text = (
                messages.DEVICE_STALLED
                if kind is FindingKind.DEVICE_STALLED
                else messages.device_failing(self.budget.errors)
            )
            self.open_finding(connection, kind, text)


class RunLimit:
    """
    Decide when a run stops: requested, out of time, or enough bytes read.

    Args:
        until: time on the monotonic clock; None without a limit.
        until_bytes: total bytes read by the run; None without a limit.
    """

    def __init__(self, run: RootRun, *, until: float | None, until_bytes: int | None) -> None:
        self._run = run
        self._until = until
        self._until_bytes = until_bytes

    @property
    def is_any(self) -> bool:
        """Whether time or bytes are limited."""
        return self._until is not None or self._until_bytes is not None

    def is_set(self) -> bool:
        """Return whether no more work should begin."""
        run = self._run
        if run.context.stop.is_set() or run.context.preempted.is_set():
            return True
        if self._until is not None and run.context.monotonic() >= self._until:
            return True
        return self._until_bytes is not None and run.counts.bytes_read >= self._until_bytes

    def half(self) -> RunLimit:
        """Return a limit that stops half-way from here."""
        now, done = self._run.context.monotonic(), self._run.counts.bytes_read
        until = None if self._until is None else (now + self._until) / 2
        return RunLimit(
            self._run, until=until, until_bytes=None if self._until_bytes is None else (done + self._until_bytes) // 2
        )
