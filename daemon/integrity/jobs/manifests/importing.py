"""
Make a manifest the baseline of files that have none; each file is read and must match first.

Decides the result for each entry. Mismatches are reported and not recorded, because either side may be wrong. Recorded
files are only compared: a manifest never replaces a baseline (R6).

I1  Each entry is counted exactly once (R8); after an interruption each that was reached.
I2  A file is recorded only if all digests of its entries match one stable version of it (R1).
I3  Nothing outside of the target is examined, whatever a name says.
I4  Memory grows neither with the manifest nor with the root.
I5  A digest whose algorithm is neither stated nor shown by any file says nothing about a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from integrity.catalog import baselines, root_meta
from integrity.errors import (
    ConfigError,
    DeviceFailing,
    DeviceStalled,
    ReadError,
    ReadInterrupted,
    Unstable,
    Vanished,
    show_path,
)
from integrity.files.span import ReadMode
from integrity.hashing.algorithms import name_digests
from integrity.hashing.digests import want_to_record
from integrity.hashing.stored_digests import BLAKE3, MD5, Algorithm
from integrity.hashing.tasks import Done, Failed, Partial, Result, Task
from integrity.jobs import messages, runner
from integrity.jobs.batching import Commits
from integrity.jobs.checkpoints import Checkpoints
from integrity.jobs.manifests.entries import (
    RECORDED_ALGORITHMS,
    Claim,
    FoundFile,
    ImportCounts,
    ImportVerdict,
    Refusal,
    ReportedEntry,
    RootPlaces,
    gather,
    list_names,
    look_up,
)
from integrity.jobs.report import NoteKind
from integrity.jobs.targets import Target
from integrity.lists.entries import Form
from integrity.model import BaselineReason, FindingKind, Job, Reading, Readings, Tally
from integrity.same_name import OtherSpellings, SamePaths

if TYPE_CHECKING:
    from integrity.hashing.engine import Engine
    from integrity.jobs.context import Context, RootRun
    from integrity.jobs.manifests.source import ManifestSource
    from integrity.jobs.report import Summary


_AGAIN_AT_ONCE = 10_000
_TRIES = 3

_TALLIES = {
    ImportVerdict.ALREADY: Tally.NOT_DUE,
    ImportVerdict.DIFFERING: Tally.DAMAGED,
    ImportVerdict.MISSING: Tally.MISSING,
    ImportVerdict.UNREADABLE: Tally.UNREADABLE,
    ImportVerdict.LEFT_OUT: Tally.SKIPPED,
    ImportVerdict.UNKNOWN: Tally.SKIPPED,
}
"""
Tally in the record of the run for each verdict; verified files are NEW there. Names outside of the root and bad lines
are not counted there.
"""

_UNCOVERED = frozenset(
    {
        *(ImportVerdict.MISSING, ImportVerdict.UNREADABLE, ImportVerdict.OUTSIDE, ImportVerdict.BAD),
        ImportVerdict.UNKNOWN,
    }
)
"""Verdicts that make the run incomplete."""


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """Result of an import: the run's, the counts of entries, and the source."""

    run: Summary
    counts: ImportCounts
    manifest: str
    kind: Form


def import_manifest(
    context: Context, source: ManifestSource, root: bytes, base: bytes | None, report: Callable[[ReportedEntry], None]
) -> ImportSummary:
    """
    Import a manifest.

    Args:
        root: a root, a folder in one, or a new folder, which becomes one; as the user wrote it.
        base: absolute real path of the folder that the names are relative to; None for the default: ``root``, or for
            BagIt the folder of the manifest if that is inside ``root``.
        report: receives each entry that was neither verified nor recorded already.

    Raises:
        ConfigError: the root can't be used; nothing was done.
        CatalogCorrupt: rows of the root are lost, so files without a baseline can't be determined.
        Unreadable: reading the manifest failed.
    """
    real = os.path.realpath(root)
    if os.path.isfile(real):
        raise ConfigError(f"{show_path(root)}: is a file; name the folder that the manifest's names lie in")
    base = base or _find_base(source, real)
    counts = ImportCounts()

    def work(run: RootRun) -> None:
        places = RootPlaces(Target(run.root, run.prefix), base, os.path.abspath(root))
        Importer(run, source, places, counts, report).run()

    summary = runner.run_on(context, real, Job.IMPORT, work)
    return ImportSummary(summary, counts, source.name, source.kind)


def _find_base(source: ManifestSource, root: bytes) -> bytes:
    folder = os.path.dirname(source.path)
    is_inside = folder == root or folder.startswith(root.rstrip(b"/") + b"/")
    return folder if source.manifest.form is Form.BAGIT and is_inside else root


class Importer:
    """
    Import a manifest into one root, or a part of it.

    Args:
        counts: updated in place.
        report: receives each entry that was neither verified nor recorded already.
    """

    def __init__(
        self,
        run: RootRun,
        source: ManifestSource,
        places: RootPlaces,
        counts: ImportCounts,
        report: Callable[[ReportedEntry], None],
    ) -> None:
        self._run = run
        self._source = source
        self._places = places
        self._counts = counts
        self._report_entry = report
        self._checkpoints = Checkpoints(run)
        self._reader = run.reader(ReadMode.RECORD)
        self._has_blake3 = "blake3" in run.settings.digests
        self._waiting: dict[bytes, tuple[Claim, Reading]] = {}
        self._commits = Commits(run.context.monotonic, waiting=self._waiting.__len__, write=self._write)
        self._is_named = False
        self._again: dict[bytes, Claim] = {}
        self._algorithms = source.manifest.algorithms
        self._early: dict[bytes, tuple[Reading, Mapping[Algorithm, bytes]]] = {}
        self._paths = SamePaths(partial(list_names, run), ignores_case=True, has_backslashes=True)
        self._spelled, self._listed_as = OtherSpellings(), dict[bytes, bytes]()
        self._page: Mapping[bytes, Claim] = {}

    def run(self) -> None:
        """Import the manifest; results are kept however it ends."""
        try:
            for number, page in enumerate(gather(self._source.lines, self._places, self._refuse, self._is_stopped)):
                self._page = {claim.path: claim for claim in page}
                if not number:
                    self._find_algorithms(page)
                for claim in page:
                    claim.digests = dict(self._algorithms.name_all(claim.digests))
                self._read(self._find_unrecorded(page))
                if len(self._again) >= _AGAIN_AT_ONCE:
                    self._read_again()
            self._read_again()
        except ReadError:
            self._commits.write()
            raise
        interpreted = (*self._source.manifest.describe(), *self._spelled.describe())
        for text in (*interpreted, *self._algorithms.describe_unknown()):
            self._run.note(NoteKind.WARNING, None, f"{self._source.name}: {text}")

    def _find_algorithms(self, page: Sequence[Claim]) -> None:
        """Find the algorithms that the manifest does not name, by records or by reading files, small ones first."""
        readable = []
        for claim in self._algorithms.sample(page, lambda claim: claim.digests):
            found = self._look_up(claim)
            if isinstance(found, FoundFile):
                if found.record is not None:
                    self._algorithms.take(claim.digests, name_digests(found.record.digests))
                claim.expected_bytes = found.size_bytes
                readable.append(claim)
        for claim in sorted(readable, key=lambda claim: claim.expected_bytes):
            if self._algorithms.is_open(claim.digests) and not self._is_stopped():
                self._read_early(claim)
        self._algorithms.conclude()

    def _read_early(self, claim: Claim) -> None:
        """Read a file with all candidates; it is not read again when its turn comes."""
        others = self._find_others(claim)
        for result in self._run.engine(ReadMode.RECORD).run(self._make_tasks([claim])):
            if isinstance(result, Done):
                digests = dict(zip(others, result.reading.others, strict=True)) | name_digests(result.reading.digests)
                self._algorithms.take(claim.digests, digests)
                self._early[claim.path] = self._checkpoints.complete(result).reading._replace(others=()), digests

    def _look_up(self, claim: Claim) -> FoundFile | Refusal:
        """Look up a claim's file, also under another spelling of its name that is not in the manifest itself."""
        if self._absolute(claim) == self._source.path:
            return Refusal(ImportVerdict.LEFT_OUT, "is the manifest itself")
        with self._run.catalog.read() as connection:
            found = look_up(self._run, connection, claim.path)
            if not isinstance(found, Refusal) or found.verdict is not ImportVerdict.MISSING:
                return found
            path = self._paths.find(claim.path)
            if path is None or path in self._page or self._listed_as.setdefault(path, claim.path) != claim.path:
                return found
            self._spelled.add(claim.path, path)
            claim.path = path
            return look_up(self._run, connection, path)

    def _is_stopped(self) -> bool:
        return self._run.context.stop.is_set()

    def _find_unrecorded(self, claims: Iterable[Claim]) -> Iterator[Claim]:
        """Settle claims that need no reading; yield the others."""
        for claim in claims:
            if self._is_stopped():
                return
            if claim.path in self._again:
                self._again[claim.path].add(claim.count, claim.digests, claim.size_bytes)
                continue
            found = self._look_up(claim)
            if isinstance(found, Refusal):
                self._settle(claim, *found)
            elif not claim.digests:
                self._settle(claim, ImportVerdict.UNKNOWN)
            elif found.record is not None:
                former = "" if found.former is None else f" (recorded as {show_path(found.former)})"
                size_bytes = found.record.witness.size_bytes
                self._compare(claim, name_digests(found.record.digests), size_bytes, f" in its record{former}")
            elif (waiting := self._waiting.get(claim.path)) is not None:
                self._compare(claim, name_digests(waiting[1].digests), waiting[1].witness.size_bytes, "")
            elif (difference := claim.find_difference({}, found.size_bytes)) is not None:
                self._settle(claim, ImportVerdict.DIFFERING, difference)
            elif (early := self._early.get(claim.path)) is not None and claim.digests.keys() <= early[1].keys():
                self._judge(claim, *early)
            else:
                claim.expected_bytes = found.size_bytes
                yield claim

    def _compare(self, claim: Claim, digests: Mapping[Algorithm, bytes], size_bytes: int, where: str) -> None:
        """Compare a claim with what is recorded; the file is not read."""
        difference = claim.find_difference(digests, size_bytes)
        if difference is not None:
            self._settle(claim, ImportVerdict.DIFFERING, f"is recorded already, but otherwise: {difference}{where}")
            return
        if not claim.digests.keys() & digests.keys():
            self._counts.not_compared += claim.count
        self._settle(claim, ImportVerdict.ALREADY)

    def _read(self, claims: Iterable[Claim]) -> None:
        """Read and judge files; very sparse ones twice, because a recording computes no digest of the whole file."""
        sparse: list[Claim] = []
        while claims:
            engine = self._run.engine(ReadMode.RECORD)
            tick, handle = partial(self._report_progress, engine), partial(self._handle, sparse)
            self._commits.read(engine, self._make_tasks(claims), handle=handle, report_progress=tick)
            claims, sparse = sparse, []

    def _find_others(self, claim: Claim) -> list[Algorithm]:
        """Return the algorithms to compute in addition to those of a recording."""
        algorithms = self._algorithms.expand(claim.digests)
        return [one for one in algorithms if claim.needs_all or one not in RECORDED_ALGORITHMS]

    def _make_tasks(self, claims: Iterable[Claim]) -> Iterator[Task]:
        block_size = self._run.settings.block_size_bytes
        for claim in claims:
            makers = tuple(algorithm.find_constructor() for algorithm in self._find_others(claim))
            has_blake3 = self._has_blake3 or BLAKE3 in self._algorithms.expand(claim.digests)
            want = want_to_record(blake3=has_blake3)._replace(others=makers)
            task = Task(claim.path, claim.expected_bytes, want, block_size, claim)
            if claim.digests.keys() == {MD5} and not makers:  # only MD5 can resume where an earlier run stopped
                task = self._checkpoints.resume(task)
            yield task

    def _handle(self, sparse: list[Claim], result: Result) -> None:
        if isinstance(result, Partial):
            self._checkpoints.save(result)
            return
        claim = result.task.tag
        assert isinstance(claim, Claim)
        if isinstance(result, Failed):
            self._failed(claim, result.error)
            return
        reading = self._checkpoints.complete(result).reading
        digests = dict(zip(self._find_others(claim), reading.others, strict=True)) | name_digests(reading.digests)
        if claim.digests.keys() <= digests.keys():
            self._judge(claim, reading._replace(others=()), digests)
        else:
            claim.needs_all = True
            sparse.append(claim)

    def _judge(self, claim: Claim, reading: Reading, digests: Mapping[Algorithm, bytes]) -> None:
        self._run.counts.bytes_read += reading.bytes_read
        difference = claim.find_difference(digests, reading.witness.size_bytes)
        if difference is not None:
            self._settle(claim, ImportVerdict.DIFFERING, difference)
        elif reading.witness.is_racy and not claim.was_racy and not self._reader.is_being_written(claim.path):
            claim.was_racy = True
            self._again[claim.path] = claim
        else:
            # BLAKE3 may have been computed for the comparison alone.
            recorded = reading.digests if self._has_blake3 else reading.digests._replace(blake3=None)
            self._waiting[claim.path] = claim, reading._replace(digests=recorded)

    def _failed(self, claim: Claim, error: ReadError) -> None:
        if isinstance(error, Unstable):
            self._again[claim.path] = claim
        elif isinstance(error, Vanished):
            self._settle(claim, ImportVerdict.MISSING, "is not there any more")
        elif not isinstance(error, ReadInterrupted):
            if isinstance(error, DeviceFailing | DeviceStalled):
                is_stalled = isinstance(error, DeviceStalled)
                with self._run.writing() as connection:
                    self._run.note_device(
                        connection, FindingKind.DEVICE_STALLED if is_stalled else FindingKind.DEVICE_FAILING
                    )
            self._settle(claim, ImportVerdict.UNREADABLE, str(error))

    def _read_again(self) -> None:
        """Re-read files that changed while they were read, or were written just before (R1)."""
        for _ in range(_TRIES - 1):
            is_unstable = any(not claim.was_racy for claim in self._again.values())
            granule_s = self._run.capability.granularity_ns / 1e9 + 0.02
            pause_s = self._run.context.pauses.retry_s if is_unstable else granule_s
            if not self._again or self._run.context.pause(pause_s):
                break
            claims, self._again = self._again, {}
            self._read(claims.values())
        if self._is_stopped():
            return
        for claim in self._again.values():
            self._run.counts.add(Tally.UNSTABLE)
            self._run.is_incomplete = True
            self._report(ImportVerdict.UNREADABLE, self._absolute(claim), claim.line, messages.unstable(), claim.count)
        self._again = {}

    def _settle(self, claim: Claim, verdict: ImportVerdict, message: str = "") -> None:
        """Count and report a claim that needs no further work."""
        self._run.counts.add(_TALLIES[verdict])
        self._report(verdict, self._absolute(claim), claim.line, message, claim.count)

    def _absolute(self, claim: Claim) -> bytes:
        return self._run.root.path.rstrip(b"/") + b"/" + claim.path

    def _refuse(self, verdict: ImportVerdict, name: bytes | None, line: int, message: str) -> None:
        self._report(verdict, name, line, message, 1)

    def _report(self, verdict: ImportVerdict, path: bytes | None, line: int, message: str, count: int) -> None:
        self._counts.by_verdict[verdict] += count
        self._run.is_incomplete |= verdict in _UNCOVERED
        if verdict is ImportVerdict.DIFFERING:
            self._run.kinds_met.add(FindingKind.COPY_DIFFERS)  # reported, but no finding: either side may be wrong
        if verdict not in (ImportVerdict.ALREADY, ImportVerdict.UNKNOWN):
            self._report_entry(ReportedEntry(verdict, path, line, message))

    def _report_progress(self, engine: Engine) -> None:
        done = self._counts.entries + len(self._waiting)
        self._run.progress("read", done, engine.bytes_done, files=None, size=None)

    def _write(self) -> None:
        """Record what was read; the first file recorded also notes the manifest as the source of its digests."""
        with self._run.writing() as connection:
            ids = baselines.record_files(
                connection,
                self._run.root,
                list(self._waiting),
                Readings.of([reading for _, reading in self._waiting.values()]),
                now=self._run.now(),
                boot_id=self._run.boot_id,
                because=BaselineReason.IMPORTED,
            )
            if not self._is_named:
                root_meta.keep_import(connection, self._run.root.id, ids[0], self._source.name)
        self._is_named = True
        self._run.counts.add(Tally.NEW, len(self._waiting))
        self._counts.by_verdict[ImportVerdict.VERIFIED] += sum(claim.count for claim, _ in self._waiting.values())
        self._waiting.clear()
