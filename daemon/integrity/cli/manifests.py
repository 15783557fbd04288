"""
``integrity catalog export``.

``integrity catalog import``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from integrity import program
from integrity.cli.console import ConsoleReport
from integrity.cli.exitcodes import ExitCode, code_for_summary
from integrity.cli.help import examples
from integrity.cli.output import Lines, Output
from integrity.cli.params import ALGORITHM, PATH
from integrity.cli.progress import ProgressLine
from integrity.cli.running import real_path
from integrity.cli.session import Session
from integrity.errors import printable, show_path
from integrity.paths import path_fields
from integrity.words.text import JsonObject, iso_time

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
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

    from integrity.cli.progress import open_progress
    from integrity.cli.signals import stop_on_signals
    from integrity.jobs.runner import make_context

    output = session.output
    with (
        stop_on_signals() as stop,
        open_source(manifest, None if form == "auto" else Form(form), wanted) as source,
        session.open_for_job([real_path(root)]) as catalog,
    ):
        progress = open_progress(is_quiet=output.is_quiet)
        report = _ImportReport(output, progress)
        try:
            context = make_context(catalog, session.config, report, jobs=jobs, stop=stop)
            summary = import_manifest(context, source, root, real_base, report.entry)
        finally:
            progress.close()
        return report.end(summary)


class _ImportReport(ConsoleReport):
    """A report that also takes what became of entries; with ``-v`` all are listed, else the first of each kind."""

    def __init__(self, output: Output, progress: ProgressLine) -> None:
        super().__init__(output, progress)
        self._told: dict[str, list[ReportedEntry]] = {name: [] for name in _ORDER}
        self._told_counts = Counter[str]()

    def entry(self, told: ReportedEntry) -> None:
        """Print or keep what became of an entry."""
        kind = told.verdict.value
        path = {} if told.path is None else path_fields("path", told.path)
        self._output.give("import", {"outcome": kind, **path, "line": told.line, "message": told.message})
        self._told_counts[kind] += 1
        limit = _ALL_SHOWN if self._output.verbosity else _LEFT_OUT_SHOWN if kind == "left_out" else _SHOWN
        if len(self._told[kind]) < limit:
            self._told[kind].append(told)

    def end(self, summary: ImportSummary) -> ExitCode:
        """Print what was kept and the summary, and return the exit code."""
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
    from integrity.config import format_duration, format_size
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
    parts = [f"{number:,} {words}" for name, words in _TALLIES.items() if (number := counts.by_verdict[name])]
    return f": {', '.join(parts)}" if parts else ""


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
