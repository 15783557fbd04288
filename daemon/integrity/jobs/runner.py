"""
Run a job on roots: lock, check the root, start the run's record, do the job, finish the record.

Both the command line and the scheduler use this module.

I1  Only one job at a time works on a root (R9).
I2  Each run leaves a record of how it ended; the next run closes the record of a killed one (R8).
I3  A root that is not the recorded one is suspended, and nothing is concluded about its files (R5).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog import findings, maintenance, roots, runs
from integrity.catalog.connection import Catalog
from integrity.catalog.root_meta import find_repairs
from integrity.config import Config, RootSettings, default_catalog_path
from integrity.errors import AppError, CatalogCorrupt, ConfigError, CopyBeingMade, ReadInterrupted, show_path
from integrity.files.block_devices import find_counters
from integrity.files.excludes import Excludes, ScopeExcludes, TreeScope
from integrity.files.read_errors import ErrorBudget
from integrity.files.span import Pace
from integrity.jobs import messages
from integrity.jobs.batching import iterate_files
from integrity.jobs.context import Context, RootRun
from integrity.jobs.lock import lock_root
from integrity.jobs.open_root import RELEASED, Opened, make_excludes, open_disk, report_absent
from integrity.jobs.options import CompareOptions, ScanOptions, ScrubOptions
from integrity.jobs.pace.throttle import Throttle
from integrity.jobs.report import Compared, Note, NoteKind, Report, Stop, Summary
from integrity.jobs.scan.scanner import Scanner
from integrity.jobs.targets import Target, find_shared_root, find_targets, is_inside
from integrity.kinds import ARCHIVE_FINDINGS, COVERAGE_PROBLEMS, INTEGRITY_PROBLEMS
from integrity.model import FindingKind, Job, Outcome, RootId, RootState, RunCounts, RunId, SkipReason, Tally
from integrity.verdict import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integrity.jobs.parity.protect import ProtectOptions, ProtectReport
    from integrity.jobs.repair.kept import KeptReport
    from integrity.jobs.repair.run import OnDone, OnPlan, RepairOptions, RepairSummary
    from integrity.jobs.repair.targets import Wanted


_LOOK_S = 600.0
"""Limit for a look into the versions of backups after a run; what it does not reach is looked at after the next one."""


def make_context(
    catalog: Catalog,
    config: Config,
    report: Report,
    *,
    jobs: int | None,
    stop: Stop,
    shard: TreeScope | None = None,
) -> Context:
    """
    Return the context of a job with the real clock and waiting.

    Args:
        shard: the catalog is a local copy of that of a shard with this scope, which is kept elsewhere.
    """
    scope = None if shard is None or shard.is_whole else shard
    return Context(catalog, config, report, jobs=jobs, stop=stop, scope=scope, makes_backups=shard is None)


def scan(context: Context, paths: Sequence[bytes], options: ScanOptions) -> Summary:
    """
    Scan roots or parts of them.

    Args:
        paths: real paths; new folders become roots. Empty: all roots.

    Raises:
        ConfigError: a path can't be used.
        CatalogLocked: another job works on one of the roots.
    """
    return _run_all(context, paths, Job.SCAN, context.pace, lambda run: Scanner(run, options).run())


def scan_hints(context: Context, root: bytes, hints: Sequence[bytes]) -> Summary:
    """
    Scan only names with file system events.

    Args:
        root: the path of a recorded root.
        hints: names relative to the root, at least one; a folder includes everything below it.

    Raises:
        CatalogLocked: another job works on the root.
    """
    names = tuple(_without_inner(hints))

    def work(run: RootRun) -> None:
        run.hints = names
        Scanner(run, ScanOptions()).run()

    return _run_all(context, (root,), Job.SCAN, context.pace, work)


def _without_inner(names: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the names that do not lie below another one."""
    last: bytes | None = None
    for name in sorted(set(names), key=lambda name: name.split(b"/")):
        if last is None or not is_inside(name, last):
            last = name
            yield name


def scrub(context: Context, paths: Sequence[bytes], options: ScrubOptions) -> Summary:
    """Scrub roots or parts of them; see ``scan`` for arguments and errors."""
    from integrity.jobs.scrub.scrubber import Scrubber

    began_at = context.monotonic()
    pace = context.pace if options.rate is None else _throttle(context, options.rate)
    return _run_all(context, paths, Job.SCRUB, pace, lambda run: Scrubber(run, options, began_at=began_at).run())


def compare(context: Context, paths: Sequence[bytes], options: CompareOptions) -> Summary:
    """
    Compare the records with a copy, after a scan if requested.

    Args:
        paths: real paths; empty: everything that the copy is a copy of.
        options: the copy, how and how far to compare.

    Raises:
        ConfigError: a path or the copy can't be used.
        CatalogLocked: another job works on the root.
        CopyUnreachable: the copy can't be reached, is not configured and was never compared.
    """
    # Imported here: it would delay the start of all other commands by 0.1 s.
    from integrity.hashing.algorithms import find_by_word
    from integrity.jobs.compare.comparer import compare_root
    from integrity.jobs.compare.source import find_source, narrow

    began_at, started_at = context.monotonic(), context.now()
    source = find_source(context.catalog, context.config, options.copy, paths, options.endpoint)
    parts = narrow(source, paths)
    if options.algorithm is not None:
        source = replace(source, algorithms=find_by_word(options.algorithm))
    shown = source.open().shown  # fails early if the copy can't be opened
    scanned = _run_all(context, parts, Job.SCAN, context.pace, _scan_all) if options.scan_first else None
    compared = Compared(source.name, shown)
    pace = context.pace if options.rate is None else _throttle(context, options.rate)

    def work(run: RootRun) -> None:
        compare_root(run, source, options, compared, began_at=began_at)

    summary = _run_all(context, parts, Job.COMPARE, pace, work, copy=source.name)
    has_problem = summary.has_integrity_problem or (scanned is not None and scanned.has_integrity_problem)
    is_incomplete = summary.is_incomplete or (scanned is not None and scanned.is_incomplete)
    if scanned is not None:
        summary.counts.bytes_read += scanned.counts.bytes_read
        summary.counts.findings_opened += scanned.counts.findings_opened
    return summary._replace(
        started_at=started_at,
        outcome=_outcome(context, has_problem=has_problem, is_incomplete=is_incomplete),
        duration_s=context.monotonic() - began_at,
        has_integrity_problem=has_problem,
        is_incomplete=is_incomplete,
        compared=compared,
    )


def _scan_all(run: RootRun) -> None:
    Scanner(run, ScanOptions()).run()


def _throttle(context: Context, rate: int) -> Pace:
    return Throttle(rate, context.stop, monotonic=context.monotonic, wait=context.wait)


def repair(
    context: Context, wanted: Sequence[Wanted], options: RepairOptions, on_plan: OnPlan, on_done: OnDone
) -> RepairSummary:
    """
    Plan the repair of files and, on request, carry it out.

    ``on_plan`` receives each plan, ``on_done`` the result for each file whose repair was attempted.

    Raises:
        CatalogLocked: another job is running on one of the roots.
    """
    from integrity.files.buffers import Buffers
    from integrity.jobs.repair.good_blocks import GoodBlocks
    from integrity.jobs.repair.run import Repairer, RepairSummary

    def warn(text: str) -> None:
        context.report.note(Note(NoteKind.WARNING, b"", None, text))

    summary = RepairSummary()
    sources = dict.fromkeys(source for one in wanted for source in one.sources)
    with GoodBlocks(list(sources), warn, context.stop.is_set) as good_blocks:
        for root_path in dict.fromkeys(one.target.root.path for one in wanted):
            chosen = [one for one in wanted if one.target.root.path == root_path]
            was_run = False

            def work(run: RootRun, chosen: Sequence[Wanted] = chosen) -> None:
                nonlocal was_run
                was_run = True
                with Buffers() as buffers:
                    Repairer(run, good_blocks, options, buffers, summary, on_plan, on_done).run(chosen)

            summary.runs.append(run_on(context, root_path, Job.REPAIR, work))
            summary.is_suspended |= not (was_run or context.stop.is_set())
    summary.is_interrupted = context.stop.is_set()
    return summary


def protect(context: Context, paths: Sequence[bytes], options: ProtectOptions, report: ProtectReport) -> Summary:
    """
    Make and renew the parity of roots or parts of them; ``report`` gets what was made.

    Raises:
        ConfigError: par2 is not installed, or there is no folder for the sets.
        CatalogLocked: another job works on the root.
    """
    from integrity.jobs.parity.protect import Protector

    def work(run: RootRun) -> None:
        with run.catalog.read() as connection:
            complete = options.complete(connection, run.root, run.settings)
        Protector(run, complete, report).run()

    return _run_all(context, paths, Job.PROTECT, context.pace, work)


def remove_kept(context: Context, found: Sequence[KeptReport]) -> list[KeptReport]:
    """
    Remove damaged files that repairs left, until the job is asked to stop; return what became of each.

    Raises:
        CatalogLocked: another job is running on one of the roots.
    """
    from integrity.files.buffers import Buffers
    from integrity.jobs.repair.kept import KeptRemover

    done: list[KeptReport] = []

    def work(run: RootRun) -> None:
        with Buffers() as buffers, suppress(ReadInterrupted):
            remover = KeptRemover(run, buffers)
            own = (one.kept for one in found if one.root.id == run.root.id)
            done.extend(remover.remove(kept) for kept in own)

    for path in dict.fromkeys(one.root.path for one in found):
        if not context.stop.is_set():
            run_on(context, path, Job.REPAIR, work)
    return done


def run_on(context: Context, path: bytes, job: Job, work: Callable[[RootRun], None]) -> Summary:
    """
    Run another job on a root or a part of it; a new folder becomes a root, as in a scan.

    Args:
        path: a real path.
        job: the job named in the run's record.
        work: does the job; not called if the root could not be opened (I3).

    Raises:
        ConfigError: the path can't be used.
        CatalogLocked: another job works on the root.
    """
    return _run_all(context, (path,), job, context.pace, work)


def _run_all(
    context: Context,
    paths: Sequence[bytes],
    job: Job,
    pace: Pace,
    work: Callable[[RootRun], None],
    *,
    copy: str | None = None,
) -> Summary:
    """Run a job on each target in turn and sum up the results; ``copy``: the copy to compare with."""
    started_at, began_at = context.now(), context.monotonic()
    _refuse_shared(context.config, paths)
    configured = [root.path for root in context.config.own_roots]
    targets = find_targets(context.catalog, paths, configured, now=started_at, may_add=context.may_add_roots)
    skips = Counter[str]()
    counts, findings_open = RunCounts(), dict[RootId, int]()  # each root once, even if several parts are named
    altered, has_problem, is_incomplete = 0, False, False
    for target in targets:
        if context.stop.is_set():
            is_incomplete = True
            break
        if not paths and target.root.state is RootState.PAUSED:
            context.report.note(_paused(target))
            continue
        run = _run_one(context, target, job, pace, work, copy)
        counts += run.counts
        altered += run.altered
        skips += Counter({reason.value: number for reason, number in run.skips.items()})
        findings_open[run.root.id] = run.counts.findings_open
        has_problem |= _has_problem(run)
        is_incomplete |= _has_gaps(run)
    counts.findings_open = sum(findings_open.values())
    _back_up(context)
    return Summary(
        job=job,
        started_at=started_at,
        finished_at=context.now(),
        outcome=_outcome(context, has_problem=has_problem, is_incomplete=is_incomplete),
        counts=counts,
        altered=altered,
        duration_s=context.monotonic() - began_at,
        has_integrity_problem=has_problem,
        is_incomplete=is_incomplete,
        skips=tuple(skips.most_common()),
    )


def _refuse_shared(config: Config, paths: Sequence[bytes]) -> None:
    """Refuse a path in a shared tree: its records are in the catalogs of its shards."""
    for path in paths:
        root = find_shared_root(config, os.path.realpath(path))
        if root is not None:
            raise ConfigError(
                f"{show_path(path)}: lies in the shared tree {root.shared}, which is read as the hub says; to read for"
                f" the hub now: {program.command('hub work')}"
            )


def _run_one(
    context: Context, target: Target, job: Job, pace: Pace, work: Callable[[RootRun], None], copy: str | None
) -> RootRun:
    """Run a job on one target under its lock, and record how it ended."""
    began_at = context.monotonic()
    path, root = context.catalog.path, target.root
    with lock_root(path, root.id, root.path, job, now=context.now(), socket=context.socket):
        run_id, boot_id = _begin(context, target, job, copy)
        with _open_run(context, target, job, run_id, boot_id, pace) as run:
            _warn_of_catalog(run)
            outcome, error = Outcome.FAILED, None
            try:
                if run.root_fd >= 0:
                    _end_repairs(run)
                    work(run)
                    _look_for_versions(run)
                outcome = _outcome(context, has_problem=_has_problem(run), is_incomplete=_has_gaps(run))
            except AppError as failure:
                error = str(failure)
                raise
            finally:
                run.report_queued()
                _end(run, outcome, error, context.monotonic() - began_at)
    return run


def _look_for_versions(run: RootRun) -> None:
    """Look which versions of backups have the files whole that this run found damaged or missing."""
    if run.kinds_met.isdisjoint(VERDICTS):
        return
    from integrity.jobs.versions.of_file import StopIf, look_for_versions

    context = run.context
    run.report_queued()  # nobody waits with the damage for what may take minutes
    until = context.monotonic() + _LOOK_S
    stop = StopIf(lambda: context.stop.is_set() or context.preempted.is_set() or context.monotonic() >= until)
    for one in look_for_versions(
        context.catalog,
        context.config,
        stop=stop,
        warn=lambda text: run.note(NoteKind.WARNING, None, text),
        root_id=run.root.id,
    ):
        run.queue_finding(one)


def _begin(context: Context, target: Target, job: Job, copy: str | None) -> tuple[RunId, int]:
    now = context.now()
    with context.catalog.transaction() as connection:
        boot_id = runs.ensure_boot(connection, context.boot_uuid, now)
        runs.close_dead_runs(connection, target.root.id, now)
        run_id = runs.start_run(connection, target.root.id, job, now=now, boot_id=boot_id, pid=os.getpid(), copy=copy)
    return run_id, boot_id


def _write_mounts(context: Context, opened: Opened) -> int:
    """Record the mounts that a run works on; its verifications refer to them."""
    with context.catalog.transaction() as connection:
        return runs.ensure_mounts(connection, context.boot_uuid, opened.mounts.values(), context.now())


@contextmanager
def _open_run(context: Context, target: Target, job: Job, run_id: RunId, boot_id: int, pace: Pace) -> Iterator[RootRun]:
    """Open the root if it is the recorded one; otherwise yield a run without a root (``root_fd`` is -1)."""
    with context.catalog.read() as connection:
        root = roots.get_root(connection, target.root.id)  # read again under the lock
    settings = context.config.settings_for(root.path)
    opened = open_disk(context.catalog, root, settings)
    try:
        run = RootRun(
            context=context,
            root=root,
            settings=settings,
            prefix=target.prefix,
            job=job,
            run_id=run_id,
            boot_id=boot_id if opened.fd < 0 else _write_mounts(context, opened),
            file_systems={path: seen.fs_id for path, seen in opened.mounts.items()},
            started_at=context.now(),
            root_fd=opened.fd,
            capability=opened.capability,
            device=opened.device,
            mirror=opened.mirror,
            excludes=_make_excludes(context, settings, root.path, opened),
            rewrites=Excludes(settings.rewrites_in_place, builtin=False, kept=False),
            pace=pace,
            budget=ErrorBudget(counters=find_counters(opened.fd, opened.capability.fs_type)),
        )
        if opened.fd < 0:
            _suspend(run, opened.suspension, is_named=target.is_named)
        else:
            _resume(run)
            report_absent(run, opened.absent)
        yield run
    finally:
        if opened.fd >= 0:
            os.close(opened.fd)


def _make_excludes(context: Context, settings: RootSettings, root: bytes, opened: Opened) -> Excludes:
    excludes = make_excludes(settings, root, context.catalog.path, opened.absent)
    return excludes if context.scope is None else ScopeExcludes(excludes, context.scope)


def _suspend(run: RootRun, reason: str, *, is_named: bool) -> None:
    """
    Suspend a root that is not the recorded one: count its files as skipped and keep all records (R5).

    A removable disk that is absent is no alarm, but a command that names it reports that it was not covered.
    """
    run.counts.add(Tally.SKIPPED, sum(1 for _ in iterate_files(run)))
    may_be_absent = run.settings.presence == "sometimes"
    run.is_incomplete = is_named or not may_be_absent
    with run.writing() as connection:
        if may_be_absent:
            run.note(NoteKind.WARNING, None, f"{reason}; it is allowed to be absent, so that is no finding")
            return
        roots.set_root_state(connection, run.root.id, RootState.SUSPENDED, reason)
        if run.root.was_seen:
            run.open_finding(connection, FindingKind.ROOT_SUSPENDED, messages.suspended(reason))
            return
        run.open_finding(
            connection,
            FindingKind.ROOT_SUSPENDED,
            messages.never_there(reason),
            step="correct its path in the configuration, or mount its disk; then look again",
            command=program.stored_command("scan", run.root.path),
        )


def _resume(run: RootRun) -> None:
    """Resume a root that is the recorded one again, or that a person released."""
    root = run.root
    is_released = root.state_reason == RELEASED
    if root.state is not RootState.SUSPENDED and not is_released and root.was_seen:
        return
    resolution = "the disk is back" if root.was_seen else "the folder is there now"
    if is_released:
        resolution = "released as it is"
    with run.writing() as connection:
        roots.set_root_state(connection, root.id, RootState.ACTIVE, None)
        findings.resolve_findings(
            connection, root_id=root.id, kinds={FindingKind.ROOT_SUSPENDED}, resolution=resolution, now=run.now()
        )
    run.note(NoteKind.RESOLVED, None, resolution)


def _warn_of_catalog(run: RootRun) -> None:
    """
    Warn if the catalog lies in the tree that it describes: a failed disk would take both.

    At its usual place, in a home folder, that is no mistake of its owner: it is listed with what is left out.
    """
    path = os.path.realpath(run.catalog.path)
    if path.startswith(run.root.path.rstrip(b"/") + b"/"):
        is_usual = run.catalog.path == default_catalog_path()
        text = f"the catalog {show_path(path)} lies in this folder and is left out; if the disk fails, both are lost:"
        text += f" keep a copy elsewhere, with: {program.command('catalog backup FOLDER')}"
        run.note(NoteKind.WARNING, None, text, SkipReason.EXCLUDED if is_usual else None)
    for warning in run.catalog.warnings:
        run.note(NoteKind.WARNING, None, warning)


def _end_repairs(run: RootRun) -> None:
    """
    Complete interrupted repairs.

    Raises:
        RepairFailed: a displaced file can't be restored; no run may take it for deleted.
    """
    with run.catalog.read() as connection:
        repairs = find_repairs(connection, run.root)
    if repairs:
        from integrity.jobs.repair.recover import end_repairs  # needed only after a kill

        end_repairs(run, repairs)


def _end(run: RootRun, outcome: Outcome, error: str | None, duration_s: float) -> None:
    with run.writing() as connection:
        run.counts.findings_open = findings.count_open(connection, run.root.id)
        run.altered = findings.count_files(connection, run.damaged, ARCHIVE_FINDINGS)
        runs.finish_run(connection, run.run_id, outcome, run.counts, now=run.now(), duration_s=duration_s, error=error)


def _has_problem(run: RootRun) -> bool:
    """Return whether the run found damage, or left what it was to repair."""
    is_left = run.job is Job.REPAIR and bool(run.counts.damaged or run.counts.missing)
    return is_left or bool(run.kinds_met & INTEGRITY_PROBLEMS)


def _has_gaps(run: RootRun) -> bool:
    is_short = run.counts.unreadable or run.counts.unstable
    return run.is_incomplete or bool(is_short) or bool(run.kinds_met & COVERAGE_PROBLEMS)


def _outcome(context: Context, *, has_problem: bool, is_incomplete: bool) -> Outcome:
    if context.stop.is_set():
        return Outcome.INTERRUPTED
    if has_problem:
        return Outcome.FINDINGS
    return Outcome.INCOMPLETE if is_incomplete else Outcome.CLEAN


def _paused(target: Target) -> Note:
    return Note(NoteKind.WARNING, target.root.path, None, f"is paused: {target.root.state_reason or 'by hand'}")


def _back_up(context: Context) -> None:
    """Back up the catalog if it is due; a failed backup is reported but does not fail the run."""
    settings, now = context.config.catalog_backup, context.now()
    if not context.makes_backups:
        return
    with context.catalog.read() as connection:
        if not maintenance.due_for_backup(connection, settings.every_s, now):
            return
    try:
        maintenance.back_up(context.catalog, os.fsencode(settings.folder), keep=settings.keep, now=now)
    except CopyBeingMade:
        pass  # by another run that ended in the same second
    except CatalogCorrupt:
        raise
    except AppError as error:
        context.report.note(Note(NoteKind.WARNING, b"", None, f"the catalog could not be backed up: {error}"))
