"""
What a job tells, as it becomes output.

With ``--json`` each finding and note is printed when it comes. For people they are kept: notes first, problems last,
right above the summary, the gravest at the end, so that they are what stays on the screen.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from integrity import program
from integrity.cli.exitcodes import ExitCode, code_for_summary
from integrity.cli.output import Output
from integrity.cli.progress import ProgressLine
from integrity.errors import printable, show_path
from integrity.model import Finding, FindingId, SkipReason
from integrity.paths import absolute
from integrity.views.runs import describe_summary, note_object, summary_object
from integrity.words.card import write_terminal
from integrity.words.findings import finding_object, gather, make_card, sort_by_gravity

if TYPE_CHECKING:
    from integrity.jobs.report import Note, NoteKind, Progress, Summary

# A wave of findings must not fill the memory or the screen; the gravest stay, and `findings` lists them all.
_FINDINGS_KEPT = 5000
_ENTRIES_SHOWN = 200
_NOTES_SHOWN = 10
_LONGEST = 20_000  # a path of 4,096 bytes fits, each of them escaped


class ConsoleReport:
    """A ``jobs.report.Report`` that prints. With ``-v`` all notes are listed, else the first of each kind."""

    def __init__(self, output: Output, progress: ProgressLine) -> None:
        self._output = output
        self._progress = progress
        self._findings: dict[FindingId, Finding] = {}
        self._found: set[FindingId] = set()
        self._notes: dict[NoteKind, list[Note]] = {}
        self._note_counts: Counter[NoteKind] = Counter()
        self._notes_kept = 1 << 20 if output.verbosity else _NOTES_SHOWN

    def progress(self, progress: Progress) -> None:
        """Show how far the job is."""
        self._progress.show(progress)

    def finding(self, finding: Finding) -> None:
        """Print or keep a finding; if it is told again, as more is known of it by now, that holds."""
        self._output.give("finding", finding_object(finding))
        self._found.add(finding.id)
        self._findings[finding.id] = finding
        if len(self._findings) >= 2 * _FINDINGS_KEPT:
            gravest = sort_by_gravity(self._findings.values())[:_FINDINGS_KEPT]
            self._findings = {one.id: one for one in gravest}

    def note(self, note: Note) -> None:
        """Print or keep a note."""
        self._output.give("note", note_object(note))
        if note.skip_reason is SkipReason.EXCLUDED and not self._output.verbosity:
            return
        self._note_counts[note.kind] += 1
        kept = self._notes.setdefault(note.kind, [])
        if len(kept) < self._notes_kept:
            kept.append(note)

    def finish(self, summary: Summary) -> ExitCode:
        """Print what was kept and the summary, and return the exit code."""
        output, code = self._output, code_for_summary(summary)
        self.show()
        print_line = output.say if code is ExitCode.OK else output.tell
        for line in describe_summary(summary, output):
            print_line(line)
        output.give("summary", summary_object(summary))
        return code

    def show(self) -> None:
        """Print what was kept."""
        self._progress.close()
        output = self._output
        for kind, notes in self._notes.items():
            for note in notes:
                place = f"{_clip(show_path(absolute(note.root, note.path)))}: " if note.root else ""
                output.say(f"{kind.value}: {place}{_clip(printable(note.message))}")
            more = self._note_counts[kind] - len(notes)
            if more:
                output.say(f"{kind.value}: and {more:,} more (all of them with -v)")
        if self._notes:
            output.say()
        groups = list(gather(sort_by_gravity(self._findings.values())))[:_ENTRIES_SHOWN]
        more = len(self._found) - sum(map(len, groups))
        if more:
            output.tell(f"{more:,} more, not shown here; list them all with: {program.command('findings')}")
            output.tell()
        for group in reversed(groups):
            for line in write_terminal(make_card(group), output):
                output.tell(line)
            output.tell()


def _clip(text: str) -> str:
    """Cut what is longer than any screen: a list that somebody else wrote may have names of a million characters."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
