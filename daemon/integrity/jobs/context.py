"""
What every job is given, and what a run on one root shares between its parts.

When a run that has limits stops; stopping at one is no error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from integrity.catalog import findings, roots
from integrity.catalog.connection import Catalog
from integrity.catalog.findings import NewFinding
from integrity.catalog.paging import write_in_pages
from integrity.catalog.roots import RootRecord
from integrity.catalog.rows import FileRecord, require_current
from integrity.config import Config, RootSettings
from integrity.errors import CatalogError, show_path
from integrity.files.block_devices import Device
from integrity.files.excludes import Excludes
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
from integrity.jobs.judge.repair_advice import advise_repair
from integrity.jobs.report import Note, NoteKind, Progress, Report, Stop
from integrity.model import (
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

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection


PROGRESS_INTERVAL_S = 0.1

T = TypeVar("T")


@dataclass(slots=True)
class Context:
    """
    What a job needs from its surroundings.

    Args:
        catalog: open for writing, used by the job's thread alone.
        config: the whole of it.
        report: takes what the job tells.
        jobs: threads; None for one per processor.
        stop: set by whoever wants the job to end early.
        clock: seconds UTC.
        monotonic: seconds, for durations.
        wait: waits that many seconds; returns True at once when the job was asked to stop.
        boot_uuid: of the running kernel.
        may_add_roots: whether a named folder that lies in no root becomes one.
        pace: holds back the readings of jobs that name no rate of their own.
        rest: set by whoever wants a scrub to end as at a limit, to go on later.
        socket: where the service takes requests; None for a command.
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
    rest: Stop = field(default_factory=Stop)
    socket: str | None = None

    def now(self) -> int:
        """Tell the time in whole seconds UTC."""
        return int(self.clock())

    def pause(self, duration_s: float) -> bool:
        """Wait; say whether the job was asked to stop."""
        return (self.wait or self.stop.wait)(duration_s) or self.stop.is_set()


@dataclass(slots=True)
class RootRun:
    """
    One run on one root, or a part of it.

    Args:
        prefix: the part of the root that was asked for; empty for all of it.
        hints: names in the root that something happened to: only these are looked at, and what lies below them.
        boot_id: the catalog's newest number of a boot or mount: what is verified refers to it.
        file_systems: names of the root's file system, at the empty path, and of those inside it, by their paths.
        mirror: that the root lies on: each reading may be answered by another copy of the data.
        root_fd: the open folder of the root: it goes on seeing the root if something is mounted over it.
        counts: what was covered so far.
        kinds_met: of all findings that this run met, new or still open.
        is_incomplete: something could not be covered.
        looked_at: files recorded before the run that a walk met or missed.
        unrecorded: names counted that the catalog has no record of.
        counts_unrecorded: False while a walk only looks for recorded files: it counts no other names.
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
    kinds_met: set[FindingKind] = field(default_factory=set)
    is_incomplete: bool = False
    looked_at: int = 0
    unrecorded: int = 0
    counts_unrecorded: bool = True
    budget: ErrorBudget = field(default_factory=ErrorBudget)
    _told_at: float = 0.0
    _to_report: dict[FindingId, Finding] = field(default_factory=dict)  # of one incident

    @property
    def catalog(self) -> Catalog:
        """Reach the catalog."""
        return self.context.catalog

    @property
    def parts(self) -> tuple[bytes, ...]:
        """Name what of the root the run is about: folders with all below them, or files; empty for all of it."""
        return self.hints or (self.prefix,)

    @property
    def is_whole(self) -> bool:
        """Say whether the run is about all of the root."""
        return not (self.prefix or self.hints)

    def get_file_system(self, path: bytes) -> str:
        """Return the name of the file system that a file of the root lies on."""
        inner = [place for place in self.file_systems if place and path.startswith(place + b"/")]
        return self.file_systems.get(max(inner, key=len, default=b""), "")

    def now(self) -> int:
        """Tell the time in whole seconds UTC."""
        return self.context.now()

    @contextmanager
    def writing(self, *, is_synced: bool = True) -> Iterator[Connection]:
        """
        Open a transaction; ``is_synced``: see ``Catalog.transaction``.

        Raises:
            CatalogError: the root was forgotten meanwhile: what a person decides needs no lock (R9).
        """
        with self.catalog.transaction(is_synced=is_synced) as connection:
            if not roots.has_root(connection, self.root.id):
                raise CatalogError(
                    f"{show_path(self.root.path)}: was forgotten while it was worked on; nothing is kept"
                )
            yield connection

    def write_in_pages(self, items: Sequence[T], write: Callable[[Connection, Sequence[T]], object]) -> None:
        """Write many items in short transactions: what half of them leaves is a state that another run can end."""
        write_in_pages(self.writing, items, write, monotonic=self.context.monotonic)

    def reader(self, mode: ReadMode, *, use_holes: bool = True) -> Reader:
        """Make a reader of this root."""
        return Reader(self.root_fd, self.capability, mode=mode, pace=self.pace, budget=self.budget, use_holes=use_holes)

    def engine(self, mode: ReadMode, *, stop: StopSignal | None = None, jobs: int | None = None) -> Engine:
        """Make an engine that reads this root; ``jobs``: threads, in the place of the run's."""
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
        """Make an engine; ``--jobs`` overrides what the disk says of itself, for virtual ones often lie."""
        jobs = jobs or self.context.jobs
        # readers that wait for their turn of a low rate do not hang
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

    def let_clock_tick(self) -> bool:
        """Wait until the next write gets another stamp than the last one (R1); say whether to stop was asked."""
        return self.context.pause(self.capability.granularity_ns / 1e9 + 0.02)

    def leave_out_written(self, paths: Iterable[bytes]) -> list[bytes]:
        """Leave out the files that somebody has open for writing: nobody knows how long that takes."""
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
        Open a finding, or bring an open one up to date, and tell it; a copy that can mend it is named.

        What is about a recorded file has its ``record``, as it was judged; ``path`` is for what has none.

        Raises:
            RecordSuperseded: the file is not recorded like that any more: it is to be judged anew.
        """
        if record is not None:
            require_current(connection, record)
            path = record.path
        if step is None and copy is None and record is not None:
            advice = advise_repair(connection, self.root.path, record.path, record.id, kind)
            step, command = advice or (None, None)
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
        self.counts.findings_opened += is_new and finding.incident is None
        self.meet(finding)

    def meet_open_findings(self, connection: Connection, path: bytes) -> None:
        """Tell the findings on a path that are still open and that this run met again."""
        for finding in findings.find_findings_at(connection, self.root.id, path, copy=""):
            self.meet(finding)

    def meet(self, finding: Finding) -> None:
        """Report a finding that is open and that this run met; those about names of one file follow each other."""
        self.kinds_met.add(finding.kind)
        if any(one.incident_id != finding.incident_id for one in islice(self._to_report.values(), 1)):
            self.report_met()
        self._to_report[finding.id] = finding

    def report_met(self) -> None:
        """Report the last incident that this run met."""
        found, self._to_report = list(self._to_report.values()), {}
        if found:
            names = dict.fromkeys(one.path for one in found if one.path is not None and one.path != found[0].path)
            self.context.report.finding(replace(found[0], names=tuple(names)))

    def resolve_missing(self, connection: Connection, file_id: FileId, path: bytes) -> None:
        """End the finding that a file is missing: it was met again."""
        kinds = {FindingKind.MISSING}
        for _ in findings.resolve_findings(
            connection, file_id=file_id, kinds=kinds, resolution="the file is back", now=self.now()
        ):
            self.note(NoteKind.RESOLVED, path, "is back")

    def note_over(self, ended: Iterable[Finding]) -> None:
        """List the findings that this run resolved, with what ended them."""
        for one in ended:
            self.note(NoteKind.RESOLVED, one.path, f"{one.kind.value} {one.id} is over: {one.resolution}")

    def count_unrecorded(self, tally: Tally) -> None:
        """Count a name that the catalog has no record of."""
        if self.counts_unrecorded:
            self.counts.add(tally)
            self.unrecorded += 1

    def is_recorded(self, tally: Tally) -> None:
        """Take back that a name was counted as one that the catalog has no record of: it is counted by its record."""
        if self.counts_unrecorded:
            self.counts.add(tally, -1)
            self.unrecorded -= 1

    def skip(self, skip: Skip) -> None:
        """Count a name that is left out, and list it unless it is a symbolic link: those are many, and no loss."""
        self.count_unrecorded(Tally.SKIPPED)
        if self.counts_unrecorded and skip.reason is not SkipReason.SYMLINK:
            self.note(NoteKind.SKIPPED, skip.path, f"left out: {skip.reason.value}")

    def note(self, kind: NoteKind, path: bytes | None, message: str) -> None:
        """Tell something that is worth listing."""
        self.report_met()
        self.context.report.note(Note(kind, self.root.path, path, message))

    def progress(self, phase: str, files_done: int, bytes_done: int, *, files: int | None, size: int | None) -> None:
        """Tell how far the run is, not more often than eyes can follow."""
        now = self.context.monotonic()
        if now - self._told_at >= PROGRESS_INTERVAL_S:
            self._told_at = now
            self.report_met()
            self.context.report.progress(Progress(self.job, self.root.path, phase, files_done, files, bytes_done, size))

    def note_device(self, connection: Connection, kind: FindingKind) -> None:
        """Open the one finding about a device that fails or hangs."""
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
    Say when to stop: asked to, out of time, or enough bytes read.

    Args:
        run: whose context and counts are looked at.
        until: on the monotonic clock.
        until_bytes: so many in all.
    """

    def __init__(self, run: RootRun, *, until: float | None, until_bytes: int | None) -> None:
        self._run = run
        self._until = until
        self._until_bytes = until_bytes

    @property
    def is_any(self) -> bool:
        """Say whether there is one, apart from being asked to stop."""
        return self._until is not None or self._until_bytes is not None

    def is_set(self) -> bool:
        """Say whether no more is to be begun."""
        run = self._run
        if run.context.stop.is_set() or run.context.rest.is_set():
            return True
        if self._until is not None and run.context.monotonic() >= self._until:
            return True
        return self._until_bytes is not None and run.counts.bytes_read >= self._until_bytes

    def half(self) -> RunLimit:
        """Make one that stops half-way from here."""
        now, done = self._run.context.monotonic(), self._run.counts.bytes_read
        until = None if self._until is None else (now + self._until) / 2
        return RunLimit(
            self._run, until=until, until_bytes=None if self._until_bytes is None else (done + self._until_bytes) // 2
        )
