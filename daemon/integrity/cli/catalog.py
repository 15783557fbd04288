"""``integrity catalog check|backup|restore|upgrade|salvage|stats|export|import``."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from integrity import program
from integrity.cli.console import ConsoleReport, ProgressLine
from integrity.cli.exitcodes import ExitCode, code_for_summary
from integrity.cli.output import Lines, Output, confirm
from integrity.cli.params import ALGORITHM, PATH, examples
from integrity.cli.running import real_path
from integrity.cli.session import Session
from integrity.errors import printable, show_path
from integrity.paths import absolute, path_fields
from integrity.words.text import JsonObject, iso_time, list_counts

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.maintenance import CheckReport
    from integrity.jobs.manifests.entries import ImportCounts, ReportedEntry
    from integrity.jobs.manifests.exporting import ExportCounts, ExportPlan
    from integrity.jobs.manifests.importing import ImportSummary


@click.command(
    "export",
    epilog=examples(
        ("integrity catalog export /srv/photos > photos.md5", "the recorded checksums, as md5sum writes them"),
        ("integrity catalog export --format json --output all.jsonl", "of all folders"),
    ),
)
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option(
    "--format", "form", type=click.Choice(["md5sum", "hashdeep", "bagit", "json"]),
    help="What the lines look like; md5sum unless said.",
)  # fmt: skip
@click.option("--output", "place", type=PATH, metavar="FILE", help="Write to FILE; for BagIt it may be a folder.")
@click.option("--absolute", is_flag=True, help="Write absolute names, not such as are relative to the root.")
@click.pass_obj
def export_command(
    session: Session, paths: tuple[bytes, ...], form: str | None, place: bytes | None, absolute: bool
) -> int:
    """
    Write what is recorded as a manifest that other programs check; no file is read.

    Names are relative to the root:  cd ROOT && md5sum -c FILE;  cd ROOT && hashdeep -r -l -a -k FILE .

    \b
    md5sum    as md5sum writes it (the default)
    hashdeep  size, MD5 and name, as hashdeep writes it
    bagit     PATH is a bag: what lies in its data/ folder, as manifest-md5.txt has it;
              with a folder as --output also tagmanifest-md5.txt, for all other files
    json      objects, one a line, as `integrity --json sum` prints them

    Very sparse files have no MD5 and are left out, and the exit code is 3. Of a file in question its baseline is
    written: that is what is known to be good.
    """  # noqa: D301 - \b is click's
    from integrity.jobs.manifests.exporting import plan_export
    from integrity.lists.entries import Form

    place = None if place == b"-" else place
    is_listing = session.output.is_json and place is None
    if is_listing and form not in (None, "json"):
        raise click.UsageError("with --json the lines are objects: leave out --format, or say --output FILE")
    chosen = Form(form or ("json" if is_listing else "md5sum"))
    places = _find_places(place, chosen)
    left_out = frozenset(os.path.realpath(each) for each in places)
    wanted = [real_path(path) for path in paths]
    with session.open_catalog(writes=False) as opened:
        plan = plan_export(opened, wanted, chosen, is_absolute=absolute, left_out=left_out)
        counts = _write(opened, plan, places)
    return _finish(session.output, counts, places)


def _find_places(place: bytes | None, form: str) -> list[bytes]:
    """Name the files that are to be written; none for standard output."""
    from integrity.jobs.manifests.exporting import PAYLOAD_MANIFEST, TAG_MANIFEST

    if place is None:
        return []
    if not os.path.isdir(place):
        return [place]
    if form != "bagit":
        raise click.BadParameter("is a folder; name a file in it", param_hint="--output")
    return [os.path.join(place, PAYLOAD_MANIFEST), os.path.join(place, TAG_MANIFEST)]


def _write(catalog: Catalog, plan: ExportPlan, places: list[bytes]) -> ExportCounts:
    from integrity.jobs.manifests.exporting import export, replacing

    with ExitStack() as stack:
        sinks = [stack.enter_context(replacing(place)) for place in places]
        if not sinks:
            return export(catalog, plan, stack.enter_context(Lines()))
        return export(catalog, plan, sinks[0], tags=sinks[1] if len(sinks) > 1 else None)


def _finish(output: Output, counts: ExportCounts, places: list[bytes]) -> ExitCode:
    """Say what was written and what was not: on stderr, for stdout may be the manifest."""
    from integrity.words.text import count

    if places:
        output.say(f"{count(counts.files, 'file')} written to {', '.join(show_path(place) for place in places)}")
    if counts.in_question:
        output.warn(
            f"{count(counts.in_question, 'file')} of these in question: a finding is open, and what is written is the"
            f" content recorded before it; see: {program.command('findings')}"
        )
    if counts.escaped:
        output.warn(
            f"{count(counts.escaped, 'name')} with a percent sign before two hexadecimal digits: escaped as RFC 8493"
            " demands; bagit-python up to 1.9 does not undo that and calls such a file missing"
        )
    if counts.not_payload:
        output.warn(
            f"{count(counts.not_payload, 'file')} outside of data/ left out: they belong into tagmanifest-md5.txt,"
            " which is written as well if --output is a folder"
        )
    if counts.without_digest:
        output.warn(f"{count(counts.without_digest, 'very sparse file')} left out: no MD5 of the whole is recorded")
    output.give("catalog_export", {**asdict(counts), "output": [path_fields("path", place) for place in places]})
    return ExitCode.INCOMPLETE if counts.without_digest else ExitCode.OK


_SHOWN = 200
_LEFT_OUT_SHOWN = 10
_ALL_SHOWN = 1 << 20

_ORDER = ("left_out", "outside", "bad", "missing", "unreadable", "differing")
"""What is told last stays on the screen."""


@click.command(
    "import",
    epilog=examples(
        ("integrity catalog import photos.md5 --root /srv/photos", "record what a checksum list says"),
        ("integrity catalog import all.b3 --root / --algorithm blake3", "one that b3sum wrote, with absolute names"),
    ),
)
@click.argument("manifest", type=PATH)
@click.option("--root", required=True, type=PATH, metavar="PATH", help="The folder that the files lie in.")
@click.option("--base", type=PATH, metavar="DIR", help="What the names are relative to, if that is not the root.")
@click.option(
    "--format", "form", type=click.Choice(["auto", "md5sum", "hashdeep", "bagit", "json"]), default="auto",
    help="What the manifest is, if that can't be seen.",
)  # fmt: skip
@click.option("--algorithm", type=ALGORITHM, metavar="NAME", help="Use only digests of this algorithm, such as blake3.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever kind of disk it is.")
@click.pass_obj
def import_command(
    session: Session,
    manifest: bytes,
    root: bytes,
    base: bytes | None,
    form: str,
    algorithm: str | None,
    jobs: int | None,
) -> int:
    """
    Make a MANIFEST the baseline of files that have none.

    Each file is read, and recorded if it is what the manifest says. One that differs is not recorded; one that is
    recorded already is compared with its record, not read, and keeps its baseline. The folder becomes a root if it is
    none yet.

    MANIFEST is a file of md5sum, sha256sum, xxhsum, b3sum (BSD's form, too), hashdeep, BagIt or `integrity --json sum`;
    a dash is standard input. Its names are relative to the root; BagIt's to the folder that the manifest lies in.
    """
    from integrity.hashing.algorithms import find_by_word
    from integrity.jobs.manifests.importing import import_manifest
    from integrity.jobs.manifests.source import open_source
    from integrity.lists.entries import Form

    wanted = () if algorithm is None else find_by_word(algorithm)
    real_base = None if base is None else real_path(base)

    from integrity.cli.console import reporting, stop_on_signals
    from integrity.jobs.runner import make_context

    with (
        stop_on_signals() as stop,
        open_source(manifest, None if form == "auto" else Form(form), wanted) as source,
        session.open_for_job([real_path(root)]) as catalog,
        reporting(session.output, _ImportReport) as report,
    ):
        context = make_context(catalog, session.config, report, jobs=jobs, stop=stop)
        return report.end(import_manifest(context, source, root, real_base, report.entry))


class _ImportReport(ConsoleReport):
    """A report that also takes what became of entries; with ``-v`` all are listed, else the first of each kind."""

    def __init__(self, output: Output, progress: ProgressLine) -> None:
        super().__init__(output, progress)
        self._told: dict[str, list[ReportedEntry]] = {name: [] for name in _ORDER}
        self._told_counts = Counter[str]()

    def entry(self, told: ReportedEntry) -> None:
        kind = told.verdict.value
        path = {} if told.path is None else path_fields("path", told.path)
        self._output.give("import", {"outcome": kind, **path, "line": told.line, "message": told.message})
        self._told_counts[kind] += 1
        limit = _ALL_SHOWN if self._output.verbosity else _LEFT_OUT_SHOWN if kind == "left_out" else _SHOWN
        if len(self._told[kind]) < limit:
            self._told[kind].append(told)

    def end(self, summary: ImportSummary) -> ExitCode:
        output, code = self._output, code_for_summary(summary.run)
        self.show()
        for kind in _ORDER:
            print_line = output.say if kind == "left_out" else output.tell
            for told in self._told[kind]:
                print_line(_describe(told))
            more = self._told_counts[kind] - len(self._told[kind])
            if more:
                print_line(f"{_word(kind)}: and {more:,} more (all of them with -v)")
        if any(self._told.values()):
            (output.say if code is ExitCode.OK else output.tell)()
        for line in _describe_summary(summary, output):
            (output.say if code is ExitCode.OK else output.tell)(line)
        output.give("summary", _summary_object(summary))
        return code


def _describe(told: ReportedEntry) -> str:
    place = f"line {told.line:,}" if told.path is None else f"{show_path(told.path)} (line {told.line:,})"
    return f"{_word(told.verdict.value)}: {place}: {printable(told.message)}"


def _word(kind: str) -> str:
    return {"differing": "DIFFERS", "bad": "bad line"}.get(kind, kind.replace("_", " "))


def _describe_summary(summary: ImportSummary, output: Output) -> Iterator[str]:
    from integrity.units import format_duration, format_size
    from integrity.views.runs import describe_outcome
    from integrity.words.text import count

    run, counts = summary.run, summary.counts
    yield f"import: {describe_outcome(run.outcome, output)}, after {format_duration(run.duration_s)}"
    yield f"  {counts.entries:,} {'entry' if counts.entries == 1 else 'entries'}{_tallies(counts)}"
    yield f"  {format_size(run.counts.bytes_read)} read"
    if counts.not_compared:
        yield (
            f"  {count(counts.not_compared, 'file')} of those known could not be compared, because no digest of the"
            f" manifest's kind is recorded; check them with: {program.command('sum -c')}"
        )
    if counts.by_verdict["differing"]:
        yield (
            "  What differs was not recorded, or keeps its record. Bring back the right files before the next scan:"
            " a scan records what it finds"
        )


_VERDICTS = ("verified", "already", "unknown", "differing", "missing", "unreadable", "outside", "left_out", "bad")
_TALLIES = {
    "verified": "verified and recorded",
    "already": "known already",
    "left_out": "left out",
    "outside": "outside of the root",
    "bad": "bad",
    "unknown": "perhaps of another algorithm",
    "missing": "MISSING",
    "unreadable": "UNREADABLE",
    "differing": "DIFFERING",
}


def _tallies(counts: ImportCounts) -> str:
    said = list_counts((counts.by_verdict[name], words) for name, words in _TALLIES.items())
    return f": {said}" if said else ""


def _summary_object(summary: ImportSummary) -> JsonObject:
    run, counts = summary.run, summary.counts
    return {
        "job": run.job.value,
        "started_at": iso_time(run.started_at),
        "finished_at": iso_time(run.finished_at),
        "outcome": run.outcome.value,
        "manifest": summary.manifest,
        "format": summary.kind.value,
        "entries": counts.entries,
        **{name: counts.by_verdict[name] for name in _VERDICTS},
        "not_compared": counts.not_compared,
        "bytes_read": run.counts.bytes_read,
        "duration_s": round(run.duration_s, 3),
        "findings_opened": run.counts.findings_opened,
        "findings_open": run.counts.findings_open,
    }


_EXAMPLES = 10


@click.group(
    epilog=examples(
        ("integrity catalog stats", "its size, and what takes the space"),
        ("integrity catalog backup /mnt/usb", "a copy on another disk"),
        ("integrity catalog check", "is all of it intact?"),
    )
)
def catalog() -> None:
    """Check, back up, restore, or maintain the catalog."""


catalog.add_command(export_command)
catalog.add_command(import_command)


@catalog.command(
    epilog=examples(
        ("integrity catalog check", "every page, every index, every count"),
        ("integrity catalog check --quick", "the pages and the structure of the file only"),
    )
)
@click.option("--quick", is_flag=True, help="Check pages and structure only, not every index and count.")
@click.pass_obj
def check(session: Session, quick: bool) -> int:
    """
    Check the whole catalog: every page, its structure, every index, every count.

    Exits with 4 if any of it is damaged.
    """
    with session.open_catalog(writes=False) as opened:
        from integrity.catalog.maintenance import check as check_catalog

        report = check_catalog(opened, deep=not quick)
    output = session.output
    code = ExitCode.OK if report.is_right else ExitCode.CATALOG
    for line in _describe_check(report):
        output.tell(line)
    if report.is_right:
        output.say(f"{show_path(session.catalog_path)}: all is well")
    else:
        output.tell(f"{output.style('The catalog is damaged', 'red')}; the files themselves are not known to be.")
        output.tell(f"    - bring back its newest backup:  {program.command('catalog restore')}")
        output.tell(f"    - or keep what can be read of it:  {program.command('catalog salvage')}")
    output.give("catalog_check", _check_fields(session.catalog_path, report))
    return code


@catalog.command(
    epilog=examples(
        ("integrity catalog backup", "into the configured folder, or beside the catalog"),
        ("integrity catalog backup /mnt/usb", "onto another disk"),
    )
)
@click.argument("folder", type=PATH, required=False)
@click.pass_obj
def backup(session: Session, folder: bytes | None) -> int:
    """Copy the catalog into FOLDER (default: as configured, or beside the catalog), and remove the oldest copies."""
    with session.open_catalog(writes=True) as opened:
        from integrity.catalog.maintenance import back_up

        place = session.backup_folder if folder is None else real_path(folder)
        made = back_up(opened, place, keep=session.config.catalog_backup.keep, now=int(time.time()))
    session.output.say(f"backed up to {show_path(made)}")
    session.output.give("catalog_backup", path_fields("path", made))
    return ExitCode.OK


@catalog.command(
    epilog=examples(
        ("integrity catalog restore", "the newest intact backup"),
        ("integrity catalog restore /mnt/usb", "the newest one in a folder"),
    )
)
@click.argument("source", type=PATH, required=False, metavar="[BACKUP]")
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.pass_obj
def restore(session: Session, source: bytes | None, yes: bool) -> int:
    """
    Replace the catalog with a backup.

    BACKUP is a file, or a folder whose newest intact backup is used. The replaced catalog is kept.
    """
    path = session.catalog_path
    confirm(f"Replace the catalog {show_path(path)} by a backup?", is_yes=yes)
    from integrity.catalog.maintenance import restore as restore_catalog

    place = session.backup_folder if source is None else real_path(source)
    taken, aside = restore_catalog(path, place)
    session.output.say(f"restored from {show_path(taken)}; what was recorded later is recorded anew by the next scan")
    if aside is not None:
        session.output.say(f"the former catalog is kept as {show_path(aside)}")
    kept = {} if aside is None else path_fields("former", aside)
    session.output.give("catalog_restore", path_fields("path", path) | path_fields("backup", taken) | kept)
    return ExitCode.OK


@catalog.command(
    epilog=examples(
        ("integrity catalog salvage", "where no backup is new enough"),
        ("integrity catalog check", "then check the result"),
    )
)
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.pass_obj
def salvage(session: Session, yes: bool) -> int:
    """
    Make a new catalog of what can be read of a damaged one, which is kept.

    What is lost is named; the next scan records these files again. Damage that they have by then can't be seen any
    more: where a backup of the catalog is new enough, bring that back instead.
    """
    path = session.catalog_path
    confirm(f"Make a new catalog of what can be read of {show_path(path)}?", is_yes=yes)
    from integrity.catalog.rebuild import salvage as salvage_catalog
    from integrity.words.text import count

    done, output = salvage_catalog(path), session.output
    output.say(f"{count(done.kept, 'row')} could be read; the damaged catalog is kept as {show_path(done.former)}")
    for table, number in done.lost.items():
        output.tell(
            f"lost of {table}: {'some rows, nobody knows how many' if number is None else count(number, 'row')}"
        )
    for root, name in done.files:
        output.tell(f"to be recorded again, and earlier damage can't be seen: {show_path(absolute(root, name))}")
    lost_files = [path_fields("path", absolute(root, name)) for root, name in done.files]
    fields = path_fields("path", path) | path_fields("former", done.former)
    output.give("catalog_salvage", fields | {"kept": done.kept, "lost": done.lost, "files": lost_files})
    return ExitCode.INCOMPLETE if done.lost else ExitCode.OK


@catalog.command(
    epilog=examples(
        ("integrity catalog upgrade", "after a new version was installed"),
        ("integrity catalog check", "then check the result"),
    )
)
@click.pass_obj
def upgrade(session: Session) -> int:
    """Upgrade a catalog of an older version; the former file is kept beside it."""
    with session.open_catalog(writes=True):
        pass  # opening it for writing is what upgrades it
    session.output.say(f"{show_path(session.catalog_path)}: is up to date")
    session.output.give("catalog_upgrade", path_fields("path", session.catalog_path))
    return ExitCode.OK


@catalog.command(
    epilog=examples(
        ("integrity catalog stats", "files, size, growth, last backup"),
        ("integrity catalog stats -v", "and the tables inside"),
        ("integrity catalog stats --json", "for scripts"),
    )
)
@click.pass_obj
def stats(session: Session) -> int:
    """
    Show how many files the catalog knows, what takes its space, how it grows, and its last backup.

    With -v also the tables inside.
    """
    from integrity.views.catalog import describe_stats, describe_tables, stats_object

    path, now = session.catalog_path, int(time.time())
    with session.open_catalog(writes=False) as opened:
        from integrity.catalog.maintenance import list_backups
        from integrity.catalog.maintenance import stats as find_stats

        found, backups = find_stats(opened), list_backups(path, session.backup_folder)
    for line in describe_stats(path, found, backups, now):
        session.output.tell(line)
    for line in describe_tables(found) if session.output.verbosity else ():
        session.output.tell(line)
    session.output.give("catalog_stats", stats_object(path, found, backups, now))
    return ExitCode.OK


def _describe_check(report: CheckReport) -> Iterator[str]:
    for complaint in report.complaints:
        yield f"structure: {printable(complaint)}"
    for count in report.counts:
        if count.expected != count.actual:
            yield f"{show_path(count.root)}: holds {count.actual:,} files, should hold {count.expected:,}"
    for file_id in report.misfrozen_files[:_EXAMPLES]:
        yield f"file {file_id}: its record is held by a finding that is not there, or not held by one that is"
    for file_id in report.incomplete_files[:_EXAMPLES]:
        yield f"file {file_id}: some of its block digests are lost"


def _check_fields(path: bytes, report: CheckReport) -> dict[str, object]:
    return path_fields("path", path) | {
        "is_right": report.is_right,
        "complaints": list(report.complaints),
        "roots": [
            path_fields("path", count.root) | {"expected_rows": count.expected, "actual_rows": count.actual}
            for count in report.counts
        ],
        "misfrozen_files": len(report.misfrozen_files),
        "incomplete_files": len(report.incomplete_files),
        "orphan_runs": report.orphan_runs,
    }
