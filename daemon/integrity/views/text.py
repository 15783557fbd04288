"""Findings, notes and summaries as a person reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from integrity import program
from integrity.alerts.wording import damage, describe_held_back, list_numbers, next_steps, other_names, read_on, title
from integrity.config import format_duration, format_size
from integrity.errors import printable, show_path
from integrity.kinds import DAMAGE, GRAVITY, INTEGRITY_PROBLEMS, KINDS, NextStep, Phrase
from integrity.model import Finding, FindingKind, FindingState, Job, Outcome, RunCounts, SkipReason
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.alerts.compose import AlertGroup
    from integrity.jobs.report import Compared, Summary


class Styler(Protocol):
    """Makes words stand out."""

    def style(self, text: str, color: str) -> str:
        """Return the text in a color."""
        ...


class _Plain:
    def style(self, text: str, color: str) -> str:  # noqa: ARG002 - the signature is the protocol's
        return text


PLAIN: Styler = _Plain()
"""Leaves words as they are."""

_OUTCOMES = {
    Outcome.CLEAN: ("all is well", "green"),
    Outcome.FINDINGS: ("PROBLEMS FOUND", "red"),
    Outcome.INCOMPLETE: ("not everything could be checked", "yellow"),
    Outcome.INTERRUPTED: ("interrupted; finished work is kept", "yellow"),
    Outcome.FAILED: ("failed", "red"),
}
_STILL_OPEN = ("nothing new, but earlier findings are still open", "yellow")


def local_time(seconds: int) -> str:
    """Write a time in the reader's time zone; in seconds what no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} s after 1970"


def exact_time(nanoseconds: int) -> str:
    """Write a file's time to the last digit: they are what verdicts rest on."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    try:
        text = datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):  # file systems can hold years that calendars can't
        return f"{seconds} s after 1970"
    return f"{text}.{rest:09d}"


def count(number: int, noun: str) -> str:
    """Write "1 file", "1,234 files"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def describe_core() -> str:
    """Say what computes MD5."""
    from integrity.hashing import native_status

    core = native_status()
    return f"native, {core.path}" if core.is_native else f"hashlib ({core.path})"


def describe_finding(finding: Finding, styler: Styler) -> Iterator[str]:
    """Write a finding in full: what, where, why it is thought so, what to do next."""
    color = "red" if finding.kind in INTEGRITY_PROBLEMS else "yellow"
    mark = styler.style(title(finding), color)
    yield f"{mark}  {show_path(absolute(finding.root, finding.path))}  [finding {finding.id}]"
    yield f"    {printable(finding.message)}"
    place = damage(finding)
    if place:
        reads = (
            f"; {count(finding.confirmed_reads, 'more read')} gave the same wrong data"
            if finding.confirmed_reads
            else ""
        )
        yield f"    damaged: {place}{reads}"
    names = other_names(finding)
    if names:
        yield f"    {names}"
    if finding.state is FindingState.RESOLVED:
        yield f"    resolved: {printable(finding.resolution or '')}"
        return
    yield from _list_steps(next_steps(finding))
    yield _more_about(finding.kind)


def _list_steps(steps: Iterable[NextStep]) -> Iterator[str]:
    for step in steps:
        yield f"    - {step.words}" + (f":  {step.command}" if step.command else "")


def _more_about(kind: FindingKind) -> str:
    return f"    - more about this:  {read_on([kind])}"


def describe_findings(group: AlertGroup, styler: Styler) -> Iterator[str]:
    """Write many findings that say the same of one copy or folder: how many, where, a few of them, what to do."""
    from integrity.alerts.compose import describe_group

    entry = describe_group(group)
    color = "red" if group.same.kind in INTEGRITY_PROBLEMS else "yellow"
    numbers = list_numbers(finding.id for finding in group.findings)
    yield f"{styler.style(entry.head, color)}  {entry.path}  [findings {numbers}]"
    for line in entry.details:
        yield f"    {line}"
    yield from _list_steps(group.steps)
    yield _more_about(group.same.kind)


_WIDEST_HEADLINE = 44
"""A longer headline is not cut: its line alone leaves the column."""

_SPANS_IN_LIST = 2


def lines_of_findings(entries: Sequence[Finding | AlertGroup]) -> Iterator[str]:
    """Yield findings, or groups of them, one per line, in columns as wide as what is listed."""
    numbers = [_find_numbers(entry) for entry in entries]
    firsts = [entry if isinstance(entry, Finding) else entry.findings[0] for entry in entries]
    number_width = max(map(len, numbers), default=0)
    width = min(max((len(title(finding)) for finding in firsts), default=0), _WIDEST_HEADLINE)
    for entry, number, first in zip(entries, numbers, firsts, strict=True):
        head = f"{number:>{max(number_width, 5)}}  {local_time(first.opened_at)}  {title(first):<{width}}"
        rest = _describe_place(entry) if isinstance(entry, Finding) else _describe_places(entry)
        yield "  ".join(part for part in (head, *rest) if part)


def _find_numbers(entry: Finding | AlertGroup) -> str:
    """Return the number of a finding, or those of a group, shortened."""
    findings = (entry,) if isinstance(entry, Finding) else entry.findings
    return list_numbers((finding.id for finding in findings), _SPANS_IN_LIST)


def _describe_place(finding: Finding) -> Iterator[str]:
    yield show_path(absolute(finding.root, finding.path))
    yield f"in {printable(finding.copy)}" if finding.copy else ""
    yield f"and {count(len(finding.names), 'other name')} of the file" if finding.names else ""
    yield damage(finding) or ""
    yield "" if finding.state is FindingState.OPEN else f"({_state(finding)})"


def _describe_places(group: AlertGroup) -> Iterator[str]:
    same = group.same
    yield show_path(absolute(same.root, same.folder or None))
    yield f"in {printable(same.copy)}" if same.copy else ""
    yield count(len(group.findings), "file")


def _state(finding: Finding) -> str:
    if finding.state is FindingState.MUTED and finding.muted_until is not None:
        return f"muted until {local_time(finding.muted_until)}"
    if finding.state is FindingState.RESOLVED and finding.resolved_at is not None:
        return f"resolved {local_time(finding.resolved_at)}: {printable(finding.resolution or '')}"
    return finding.state.value


def describe_kinds(kinds: Counter[FindingKind], findings: Iterable[Finding] = (), told_twice: int = 0) -> str:
    """
    Write how many findings there are of each kind, in words for people, the gravest first.

    Args:
        findings: as many of them as are known, for how much the mass changes hold back.
        told_twice: how many more findings of damage there are than damaged files.
    """
    phrases = Counter[Phrase]()
    for kind in sorted(kinds, key=GRAVITY.__getitem__):
        phrases[KINDS[kind].phrase] += kinds[kind]
    if told_twice:
        phrases[KINDS[DAMAGE[0]].phrase] -= told_twice
    held_back = {KINDS[FindingKind.MASS_CHANGE].phrase: describe_held_back(findings)}
    texts = (
        f"{number:,} {one.one if number == 1 else one.many}{held_back.get(one, '')}" for one, number in phrases.items()
    )
    return ", ".join(text.replace(" {copy}", "") for text in texts)


def describe_outcome(outcome: Outcome, styler: Styler) -> str:
    """Write how a run ended."""
    words, color = _OUTCOMES[outcome]
    return styler.style(words, color)


def _describe_end(summary: Summary, styler: Styler) -> str:
    """Write how a run ended; a scan does not answer for what was found before (exit 0), and does not call it well."""
    counts = summary.counts
    is_well = not (counts.damaged or counts.unreadable or counts.unstable or counts.findings_open)
    words, color = _STILL_OPEN
    if summary.outcome is Outcome.CLEAN and not is_well:
        return styler.style(words, color)
    if summary.outcome is Outcome.CLEAN and summary.compared is not None and summary.compared.listed:
        return styler.style("nothing differs, but some files are known by size and time only", "yellow")
    if summary.outcome is Outcome.CLEAN and summary.compared is not None and summary.compared.known_by_record:
        return styler.style("the copy matches the record", "green")
    return describe_outcome(summary.outcome, styler)


def describe_summary(summary: Summary, styler: Styler) -> Iterator[str]:
    """Write a run's end: how it ended, what became of each name, what was read, what is open."""
    counts, compared = summary.counts, summary.compared
    yield f"{summary.job.value}: {_describe_end(summary, styler)}, after {format_duration(summary.duration_s)}"
    if compared is None:
        yield f"  {count(counts.known - counts.skipped, 'file')}{_tallies(summary)}{_describe_skips(summary)}"
    else:
        yield f"  {count(counts.known, 'file')}{_compared_tallies(counts, compared)}"
    if compared is not None:
        yield from _describe_compared(compared)
    rate = (
        f", {format_size(counts.bytes_read / summary.duration_s)} a second"
        if summary.duration_s >= 0.1 and counts.bytes_read
        else ""
    )
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
    here = list(_describe_here(compared))
    if here:
        yield f"  here: {'; '.join(here)}"
    if compared.extra:
        yield f"  {count(compared.extra, 'file')} only in the backup"


def _describe_here(compared: Compared) -> Iterator[str]:
    """Write how the files here were looked at: a copy that matches a record says nothing about the file."""
    if compared.read_here:
        yield f"{count(compared.read_here, 'file')} read{'' if compared.cached else ' from the disk'}"
    if compared.known_by_record and compared.oldest_record_at is not None:
        hint = "--read reads both sides" if compared.can_read else f"{program.command('scrub')} reads them"
        known = count(compared.known_by_record, "file")
        yield (
            f"{known} known by {'its' if compared.known_by_record == 1 else 'their'} record only, the oldest last read"
            f" {local_time(compared.oldest_record_at)} ({hint})"
        )


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
    parts = [f"{number:,} {name}" for number, name in named if number]
    return f": {', '.join(parts)}" if parts else ""


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
    parts = [f"{number:,} {name}" for number, name in named if number]
    moved = f" ({counts.moved:,} moved)" if counts.moved else ""
    return f": {', '.join(parts)}{moved}" if parts else ""
