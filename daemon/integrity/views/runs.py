"""A run as commands and pages show it: how it ended, what became of each file, what it noted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity import program
from integrity.errors import printable
from integrity.model import (
    Job,
    Outcome,
    RunCounts,
    SkipReason,
)
from integrity.paths import absolute, path_fields
from integrity.units import format_duration, format_size
from integrity.words.text import JsonObject, Styler, count, iso_time, list_counts, local_time

if TYPE_CHECKING:
    from integrity.catalog.runs import RunRecord
    from integrity.jobs.report import Compared, Note, Summary


_OUTCOMES = {
    Outcome.CLEAN: ("all is well", "green"),
    Outcome.FINDINGS: ("PROBLEMS FOUND", "red"),
    Outcome.INCOMPLETE: ("not everything could be checked", "yellow"),
    Outcome.INTERRUPTED: ("interrupted; finished work is kept", "yellow"),
    Outcome.FAILED: ("failed", "red"),
}


def describe_outcome(outcome: Outcome, styler: Styler) -> str:
    words, color = _OUTCOMES[outcome]
    return styler.style(words, color)


def _describe_end(summary: Summary, styler: Styler) -> str:
    """Write how a run ended; a scan does not answer for what was found before (exit 0), and does not call it well."""
    counts, compared = summary.counts, summary.compared
    if summary.outcome is not Outcome.CLEAN:
        return describe_outcome(summary.outcome, styler)
    if counts.damaged or counts.unreadable or counts.unstable or counts.findings_open:
        return styler.style("nothing new, but earlier findings are still open", "yellow")
    if compared is not None and compared.listed:
        return styler.style("nothing differs, but some files are known by size and time only", "yellow")
    if compared is not None and compared.known_by_record:
        return styler.style("the copy matches the record", "green")
    return describe_outcome(summary.outcome, styler)


def describe_summary(summary: Summary, styler: Styler) -> Iterator[str]:
    counts, compared = summary.counts, summary.compared
    yield f"{summary.job.value}: {_describe_end(summary, styler)}, after {format_duration(summary.duration_s)}"
    if compared is None:
        yield f"  {count(counts.known - counts.skipped, 'file')}{_tallies(summary)}{_describe_skips(summary)}"
    else:
        yield f"  {count(counts.known, 'file')}{_compared_tallies(counts, compared)}"
        yield from _describe_compared(compared)
    is_rated = summary.duration_s >= 0.1 and counts.bytes_read
    rate = f", {format_size(counts.bytes_read / summary.duration_s)} a second" if is_rated else ""
    yield f"  {format_size(counts.bytes_read)} read{rate}"
    if counts.findings_open:
        yield f"  {count(counts.findings_open, 'finding')} open, {counts.findings_opened:,} of them new"
    elif summary.job is Job.SCAN and counts.new and counts.new == counts.known - counts.skipped:
        yield f"  {count(counts.new, 'file')} recorded, none verified yet; next: {program.command('scrub')}"


def _describe_compared(compared: Compared) -> Iterator[str]:
    """Write how a copy was looked at, for that says what "the same" means."""
    ways = [
        (compared.read, "compared by reading the data back"),
        (compared.cached, "compared by reading the data, possibly from memory"),
        (compared.published, "compared by the checksum the copy stores"),
    ]
    said = " and ".join(f"{number:,} {way}" for number, way in ways if number)
    where = f"{compared.copy} ({compared.shown})" if compared.copy != compared.shown else compared.copy
    yield f"  with {printable(where)}{f': {said}' if said else ''}"
    here = []  # a copy that matches a record says nothing about the file
    if compared.read_here:
        here.append(f"{count(compared.read_here, 'file')} read{'' if compared.cached else ' from the disk'}")
    if compared.known_by_record and compared.oldest_record_at is not None:
        hint = "--read reads both sides" if compared.can_read else f"{program.command('scrub')} reads them"
        known, their = count(compared.known_by_record, "file"), "its" if compared.known_by_record == 1 else "their"
        oldest = f"the oldest last read {local_time(compared.oldest_record_at)}"
        here.append(f"{known} known by {their} record only, {oldest} ({hint})")
    if here:
        yield f"  here: {'; '.join(here)}"
    if compared.extra:
        yield f"  {count(compared.extra, 'file')} only in the backup"


def _compared_tallies(counts: RunCounts, compared: Compared) -> str:
    both = compared.damaged_on_both_sides
    too = f" ({both:,} of them not intact here either)" if both else ""
    named = (
        (counts.verified - compared.renamed, "the same"),
        (compared.renamed, "the same under another name"),
        (compared.behind, "not due for backup yet"),
        (compared.listed, "known by size and time only (--read reads the backup)"),
        (counts.not_due - compared.behind - compared.listed, "not compared"),
        (compared.left_out, "left out of this backup on purpose"),
        (counts.skipped - compared.not_comparable - compared.left_out, "left out"),
        (counts.unstable, "changing"),
        (compared.not_comparable, "not comparable"),
        (counts.changed - compared.stale - compared.newer - compared.conflicting, "changed here and there alike"),
        (counts.unreadable, "UNREADABLE in the backup"),
        (compared.stale, "OUT OF DATE in the backup"),
        (compared.newer, "NEWER in the backup"),
        (compared.conflicting, "DIFFERENT in the backup (which is right is not known)"),
        (counts.missing, "MISSING from the backup"),
        (compared.incomplete, "INCOMPLETE in the backup"),
        (compared.differing - compared.incomplete, f"DAMAGED in the backup{too}"),
        (compared.repairable, "DAMAGED here, intact in the backup"),
        (counts.damaged - compared.differing - compared.repairable, "DAMAGED here"),
    )
    said = list_counts(named)
    return f": {said}" if said else ""


_SKIPPED = {
    SkipReason.SYMLINK: "symbolic link",
    SkipReason.SPECIAL: "special file",
    SkipReason.EXCLUDED: "excluded name",
    SkipReason.MOUNT: "other mount",
}


def _describe_skips(summary: Summary) -> str:
    """Write how many names were skipped, and what they are if that is known; nothing if there are none."""
    if not summary.counts.skipped:
        return ""
    numbers = dict(summary.skips)
    parts = [count(numbers[reason.value], noun) for reason, noun in _SKIPPED.items() if numbers.get(reason.value)]
    others = summary.counts.skipped - sum(numbers.get(reason.value, 0) for reason in _SKIPPED)
    parts += [count(others, "file")] if parts and others > 0 else []
    return f"; {summary.counts.skipped:,} skipped" + (f" ({', '.join(parts)})" if parts else "")


def _tallies(summary: Summary) -> str:
    """Write what became of each file; a scan reads no unchanged file, a scrub leaves what is not due or not reached."""
    counts, is_scan = summary.counts, summary.job is Job.SCAN
    unchanged = "unchanged or not reached" if summary.outcome is Outcome.INTERRUPTED else "unchanged"
    is_clean_scan = is_scan and summary.outcome is Outcome.CLEAN  # it found nothing new
    named = (
        (counts.verified, "verified"),
        (counts.new, "new"),
        (counts.changed, "changed"),
        (counts.not_due, unchanged if is_scan else "left for later"),
        (counts.unstable, "changing"),
        (counts.unreadable, "UNREADABLE"),
        (counts.missing, "deleted" if is_clean_scan else "gone"),
        (summary.altered, "still changed in an archive" if is_clean_scan else "CHANGED in an archive"),
        (counts.damaged - summary.altered, "still damaged" if is_clean_scan else "DAMAGED"),
    )
    moved, said = f" ({counts.moved:,} moved)" if counts.moved else "", list_counts(named)
    return f": {said}{moved}" if said else ""


def note_object(note: Note) -> JsonObject:
    return {
        "kind": note.kind.value,
        **path_fields("path", absolute(note.root, note.path)),
        **path_fields("root", note.root),
        "message": note.message,
    }


def summary_object(summary: Summary) -> JsonObject:
    """Write a summary: each known name in exactly one tally, some "of which", and how a copy was looked at."""
    counts, compared = summary.counts, summary.compared
    fields = {
        "job": summary.job.value,
        "started_at": iso_time(summary.started_at),
        "finished_at": iso_time(summary.finished_at),
        "outcome": summary.outcome.value,
        **count_files(counts, "known verified new changed damaged missing unreadable unstable skipped not_due moved"),
        "bytes_read": counts.bytes_read,
        "duration_s": round(summary.duration_s, 3),
        "findings_opened": counts.findings_opened,
        "findings_open": counts.findings_open,
    }
    if compared is None:
        return fields
    return {
        **fields,
        "copy": compared.copy,
        "url": compared.shown,
        **count_files(compared, "published read cached listed read_here known_by_record"),
        "oldest_record_at": iso_time(compared.oldest_record_at),
        **count_files(compared, "extra differing conflicting newer stale shared renamed behind repairable"),
        **count_files(compared, "not_comparable left_out"),
    }


def count_files(counts: RunCounts | Compared, names: str) -> JsonObject:
    """Return numbers of files as ``files_NAME``."""
    return {f"files_{name}": getattr(counts, name) for name in names.split()}


def describe_root_run(run: RunRecord | None) -> str:
    if run is None:
        return "never"
    if run.outcome is None:
        return f"{local_time(run.started_at)}, not finished"
    took = "" if run.duration_s is None else f" in {format_duration(run.duration_s)}"
    files = run.counts.known - run.counts.skipped
    later = run.counts.not_due if run.job is Job.SCRUB else 0
    which = f"{files - later:,} of {count(files, 'file')}" if later else count(files, "file")
    read = f"{which}, {format_size(run.counts.bytes_read)} read"
    error = f": {printable(run.error)}" if run.error else ""
    return f"{local_time(run.started_at)}, {run.outcome.value}{took}, {read}{error}"


def run_object(run: RunRecord | None) -> JsonObject | None:
    if run is None:
        return None
    return {
        "started_at": iso_time(run.started_at),
        "finished_at": iso_time(run.finished_at),
        "outcome": run.outcome.value if run.outcome else None,
        **count_files(run.counts, "known skipped unstable"),
        "bytes_read": run.counts.bytes_read,
        "duration_s": run.duration_s,
        "error": run.error,
    }
