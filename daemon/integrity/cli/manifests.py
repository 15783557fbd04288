"""``integrity catalog import``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode, code_for_summary
from integrity.cli.json_objects import iso_time
from integrity.cli.output import JsonObject, Output, printable
from integrity.cli.params import PATH
from integrity.cli.paths import path_fields
from integrity.cli.progress import ProgressLine
from integrity.cli.running import real_path
from integrity.cli.session import Session
from integrity.cli.terminal import ConsoleReport
from integrity.errors import show_path

if TYPE_CHECKING:
    from integrity.jobs.manifests.entries import ImportCounts, Told
    from integrity.jobs.manifests.importing import ImportSummary

_SHOWN = 200
_LEFT_OUT_SHOWN = 10
_ALL_SHOWN = 1 << 20

_ORDER = ("left_out", "outside", "bad", "missing", "unreadable", "record_damaged", "differing")
"""What is told last stays on the screen."""


@click.command("import")
@click.argument("manifest", type=PATH)
@click.option("--root", required=True, type=PATH, metavar="PATH", help="The folder that the files lie in.")
@click.option("--base", type=PATH, metavar="DIR", help="What the names are relative to, if that is not the root.")
@click.option(
    "--format", "form", type=click.Choice(["auto", "md5sum", "hashdeep", "bagit", "json"]), default="auto",
    help="What the manifest is, if that can't be seen.",
)  # fmt: skip
@click.option(
    "--algorithm", metavar="NAME", help="Which digests to use: blake3 for what b3sum wrote, which looks like SHA-256."
)  # fmt: skip
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
    from integrity.hashing.algorithms import BY_NAME, CHOICES
    from integrity.jobs.manifests.importing import import_manifest
    from integrity.jobs.manifests.source import ImportForm, open_source

    if algorithm is not None and BY_NAME.get(algorithm) not in CHOICES:
        known = ", ".join(one.name for one in CHOICES)
        raise click.BadParameter(f"must be one of {known}", param_hint="--algorithm")
    only = None if algorithm is None else BY_NAME[algorithm]
    real_base = None if base is None else real_path(base)

    from integrity.cli.progress import open_progress
    from integrity.cli.signals import stop_on_signals
    from integrity.jobs.runner import make_context

    output = session.output
    with (
        stop_on_signals() as stop,
        open_source(manifest, ImportForm(form), only) as source,
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
        self._told: dict[str, list[Told]] = {name: [] for name in _ORDER}
        self._told_counts = dict.fromkeys(_ORDER, 0)

    def entry(self, told: Told) -> None:
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


def _describe(told: Told) -> str:
    place = f"line {told.line:,}" if told.path is None else f"{show_path(told.path)} (line {told.line:,})"
    return f"{_word(told.verdict.value)}: {place}: {printable(told.message)}"


def _word(kind: str) -> str:
    return {"differing": "DIFFERS", "record_damaged": "record damaged", "bad": "bad line"}.get(
        kind, kind.replace("_", " ")
    )


def _describe_summary(summary: ImportSummary, output: Output) -> Iterator[str]:
    from integrity.cli.text import count, describe_outcome
    from integrity.config import format_duration, format_size

    run, counts = summary.run, summary.counts
    yield f"import: {describe_outcome(run.outcome, output)}, after {format_duration(run.duration_s)}"
    yield f"  {counts.entries:,} {'entry' if counts.entries == 1 else 'entries'}{_tallies(counts)}"
    yield f"  {format_size(run.counts.bytes_read)} read"
    if counts.not_compared:
        yield (
            f"  {count(counts.not_compared, 'file')} of those known could not be compared, because no digest of the"
            " manifest's kind is recorded; check them with: integrity sum -c"
        )
    if counts.differing:
        yield (
            "  What differs was not recorded, or keeps its record. Bring back the right files before the next scan:"
            " a scan records what it finds"
        )


def _tallies(counts: ImportCounts) -> str:
    named = (
        (counts.verified, "verified and recorded"),
        (counts.already, "known already"),
        (counts.left_out, "left out"),
        (counts.outside, "outside of the root"),
        (counts.bad, "bad"),
        (counts.missing, "MISSING"),
        (counts.unreadable, "UNREADABLE"),
        (counts.record_damaged, "with a DAMAGED RECORD"),
        (counts.differing, "DIFFERING"),
    )
    parts = [f"{number:,} {name}" for number, name in named if number]
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
        "verified": counts.verified,
        "already": counts.already,
        "differing": counts.differing,
        "missing": counts.missing,
        "unreadable": counts.unreadable,
        "outside": counts.outside,
        "left_out": counts.left_out,
        "record_damaged": counts.record_damaged,
        "bad": counts.bad,
        "not_compared": counts.not_compared,
        "bytes_read": run.counts.bytes_read,
        "duration_s": round(run.duration_s, 3),
        "findings_opened": run.counts.findings_opened,
        "findings_open": run.counts.findings_open,
    }
