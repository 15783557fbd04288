"""
The words of messages: what a finding is called in a subject, how bad it is, where the damage lies, what to do next.

Mails and commands share them.
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from integrity import program
from integrity.config import spell_size
from integrity.config.copy_urls import PARITY
from integrity.errors import printable, show_path
from integrity.kinds import (
    ARCHIVE_FINDINGS,
    FROM_SOME_COPY,
    GRAVITY,
    INTEGRITY_PROBLEMS,
    KINDS,
    REPAIRABLE,
    NextStep,
    Phrase,
    Subject,
    headline,
)
from integrity.model import ByteRange, Certainty, Finding, FindingKind
from integrity.paths import absolute, read_word, shell_path, shell_word

ORIGINAL_UNCHANGED = "your original is unchanged"
"""Part of the message of a damaged backup whose file was just read, and is what was recorded."""

IN_ITS_PLACE = "stands in its place"
"""Part of the message of a missing file whose name leads to a folder, a symbolic link, or the like."""

DATA_SHOWS = "Seen in the data: "
"""Begins the end of a message that is about the bytes of one file: two messages that differ only there say the same."""

_SHOWN = 5
_PHRASES_SHOWN = 2
_TYPES = {
    "photo": frozenset(b"jpg jpeg heic heif png tif tiff webp cr2 cr3 nef arw dng orf rw2 raf".split()),
    "film": frozenset(b"mp4 mkv mov avi m4v mts m2ts webm".split()),
    "song": frozenset(b"mp3 flac m4a ogg opus wav aiff".split()),
}
"""What a mail calls files that are all of one type, by suffix."""

_ABSENCES = ("is not mounted", "is empty", "is not the recorded folder", "can't be opened", "does not answer")
"""Why a root is not being checked, as its message says; the subject of a mail repeats it."""


def sort_by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by gravity, damaged files first, then by number."""
    return sorted(findings, key=lambda finding: (GRAVITY[finding.kind], finding.id))


def sum_up(findings: Sequence[Finding]) -> str:
    """Return the findings in a line: "2 damaged photos, repairable from nightly; 1 file missing from the backup b"."""
    own = [finding for finding in findings if finding.copy is None]
    copies: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.copy is not None:
            copies.setdefault(finding.copy, []).append(finding)
    parts = [_sum_up_own(own)] if own else []
    return "; ".join(parts + [_sum_up_copy(copy, ones) for copy, ones in copies.items()])


def _sum_up_own(findings: Sequence[Finding]) -> str:
    """Return in words what was found in the roots, with the copy that repairs it, or else with the folder."""
    if len(findings) == 1 and findings[0].kind is FindingKind.ROOT_SUSPENDED:
        why = next((f" {reason}" for reason in _ABSENCES if reason in findings[0].message), "")
        return f"{place(findings[0])}{why}: not being checked" if why else f"{place(findings[0])} is not being checked"
    text = _count_kinds(findings)
    source = find_source(findings)
    return f"{text} in {_roots(findings)}" if source is None else f"{text}, repairable from {printable(source)}"


def _sum_up_copy(copy: str, findings: Sequence[Finding]) -> str:
    """Return in words what was found in one copy."""
    name = printable(copy)
    if all(finding.kind is FindingKind.COPY_DIFFERS and finding.path is not None for finding in findings):
        are = "1 file is" if len(findings) == 1 else f"{len(findings):,} files are"
        how = "incomplete" if all(one.certainty is Certainty.CUT_OFF for one in findings) else "damaged"
        is_unchanged = all(ORIGINAL_UNCHANGED in finding.message for finding in findings)
        original = "original unchanged" if len(findings) == 1 else "originals unchanged"
        return f"BACKUP of {are} {how}, {original}" if is_unchanged else f"BACKUP of {are} {how} ({name})"
    named = f"backup {name}" if name.lower() != "backup" else "backup"
    return _count_kinds(findings).replace("backup {copy}", named)


def _count_kinds(findings: Sequence[Finding]) -> str:
    """Return the number of each kind of finding, the gravest first: of the two gravest, and of all problems."""
    kinds = Counter(phrase for phrase, _ in dict.fromkeys(map(_find_subject, sort_by_gravity(findings))))
    problems = {_find_phrase(finding) for finding in findings if finding.kind in INTEGRITY_PROBLEMS}
    noun = _find_noun(findings)
    shown = [phrase for place, phrase in enumerate(kinds) if place < _PHRASES_SHOWN or phrase in problems]
    parts = [
        (phrase.one if phrase.one == phrase.many else count(kinds[phrase], phrase)).replace("file", noun)
        + (describe_held_back(findings) if phrase is KINDS[FindingKind.MASS_CHANGE].phrase else "")
        for phrase in shown
    ]
    more = kinds.total() - sum(kinds[phrase] for phrase in shown)
    return ", ".join(parts) + (f", {more:,} more" if more else "")


_HELD_BACK = re.compile(r"([\d,]+) of [\d,]+ files changed, and ([\d,]+) are gone")


def describe_held_back(findings: Iterable[Finding]) -> str:
    """Return how many files the mass changes among findings hold back, as their messages say: " (600 files)"."""
    found = [_HELD_BACK.match(one.message) for one in findings if one.kind is FindingKind.MASS_CHANGE]
    number = sum(int(text.replace(",", "")) for match in found if match for text in match.groups())
    return f" ({number:,} file{'' if number == 1 else 's'})" if number else ""


def _find_noun(findings: Sequence[Finding]) -> str:
    """Return "photo" if all findings are about photos, and so on; "file" if they are mixed or of another type."""
    suffixes = {(finding.path or b"").rpartition(b".")[2].lower() for finding in findings}
    return next((noun for noun, known in _TYPES.items() if suffixes <= known), "file")


def find_source(findings: Sequence[Finding]) -> str | None:
    """Return the copy that all these files can be repaired from; None if there is no such copy."""
    copies = {_find_own_source(finding) for finding in findings}
    return copies.pop() if len(copies) == 1 else None


def _find_own_source(finding: Finding) -> str | None:
    """Return the copy with the good content of a file: the one that the advice of its finding names."""
    if finding.kind not in REPAIRABLE or finding.step is None or finding.command is None:
        return None
    repair, _, source = finding.command.rpartition(" --from ")
    return read_word(source) if repair.startswith("integrity repair ") else None


def say_what(findings: Sequence[Finding], *, is_known: bool) -> str:
    """Return the first sentence of a mail: what happened. ``is_known``: it was reported before."""
    what = sum_up(findings).replace(": not being checked", ", so nothing there is being checked")
    problems = "a problem" if len(findings) == 1 else "problems"
    return f"These findings are still open: {what}." if is_known else f"integrity found {problems}: {what}."


def say_how_bad(findings: Sequence[Finding], files: int) -> str:
    """
    Return the second sentence of a mail: how bad it is.

    Args:
        findings: at least one, the gravest first.
        files: number of recorded files; 0 if it is not known.
    """
    damaged = [finding for finding in findings if finding.kind in REPAIRABLE and finding.path is not None]
    if damaged:
        healed = _count_subjects(finding for finding in damaged if _find_own_source(finding) == PARITY)
        good = _count_subjects(finding for finding in damaged if _find_own_source(finding) is not None) - healed
        if good + healed == _count_subjects(damaged) and healed:
            copies = "parity can heal " + ("it" if healed == 1 else f"{healed:,}") + " without a backup"
            copies += ", and good copies exist of the others" if good else ""
        elif good == _count_subjects(damaged):
            copies = "a good copy exists" if good == 1 else "good copies exist"
        elif good:
            copies = f"good copies exist of {good:,} of them"
        else:
            copies = "no good copy is known yet"
        return f"{_count_affected(damaged, files)} affected; {copies}."
    if KINDS[findings[0].kind].subject is Subject.COPY:
        return _say_how_bad_in_copy([finding for finding in findings if finding.copy is not None], files)
    return KINDS[findings[0].kind].how_bad


def _say_how_bad_in_copy(findings: Sequence[Finding], files: int) -> str:
    listed = [finding for finding in findings if finding.path is not None]
    if not listed:
        return "Until the backup can be compared, nothing is known about the files in it."
    if listed[0].kind in (FindingKind.COPY_CONFLICT, FindingKind.COPY_NEWER):
        return KINDS[listed[0].kind].how_bad
    if all(ORIGINAL_UNCHANGED in finding.message for finding in listed):
        return f"{_count_affected(listed, files)} affected, only in the backup: the original is as it was recorded."
    if any(finding.kind is FindingKind.COPY_NOT_COMPARABLE for finding in listed):
        return f"{_count_affected(listed, files)} affected; whether that backup has a good copy is not known."
    return f"{_count_affected(listed, files)} without a good copy in that backup."


def _count_subjects(findings: Iterable[Finding]) -> int:
    return len({(finding.root, finding.path) for finding in findings})


def _count_affected(findings: Sequence[Finding], files: int) -> str:
    """Write "2 of 22,582 files are"."""
    number = _count_subjects(findings)
    whole = f" of {files:,}" if files >= number else ""
    noun = "file" if max(files, number) == 1 else "files"
    return f"{number:,}{whole} {noun} {'is' if number == 1 else 'are'}"


def say_what_to_do(findings: Sequence[Finding], steps: Sequence[NextStep]) -> str:
    """
    Return the third sentence of a mail: what to do first.

    Args:
        findings: the gravest first.
        steps: what to do about all of them; empty: there is no such thing, or nothing is known.
    """
    first = findings[0]
    if steps:
        step = steps[0]
    elif len(findings) == 1:
        step = NextStep("read the details", next_command(first))
    elif (source := find_source(findings)) is not None and len({one.root for one in findings}) == 1:
        folder = absolute(first.root, os.path.commonpath([os.path.dirname(one.path or b"") for one in findings]))
        repair = program.command("repair", folder.rstrip(b"/") or b"/", "--from", shell_word(source))
        step = NextStep("restore the recorded content from the backup", repair)
    elif first.copy is not None and all(
        (one.kind, one.copy, one.root) == (first.kind, first.copy, first.root) for one in findings
    ):
        comparing = program.command("compare", first.root, "--with", shell_word(first.copy))
        step = NextStep(KINDS[first.kind].step_of_many, comparing)
    else:
        step = NextStep("see the next step of each below; all are listed by", program.command("findings"))
    return f"What to do: {printable(step.words)}" + (f":  {printable(step.command)}" if step.command else ".")


def _find_subject(finding: Finding) -> tuple[Phrase, tuple[object, ...]]:
    """Return what is counted as one: a file is damaged once, whatever was found of it."""
    return _find_phrase(finding), (finding.root, finding.path or finding.id, finding.copy)


def _find_phrase(finding: Finding) -> Phrase:
    entry = KINDS[finding.kind]
    is_of_copy = finding.copy is not None and finding.path is None
    return entry.phrase_of_copy if is_of_copy and entry.phrase_of_copy is not None else entry.phrase


def count(number: int, phrase: Phrase) -> str:
    """Write "1 damaged file", "1,234 damaged files"."""
    return f"{number:,} {phrase.one if number == 1 else phrase.many}"


def title(finding: Finding) -> str:
    """Return the headline of a finding."""
    return headline(finding.kind, finding.certainty)


def place(finding: Finding) -> str:
    """Return the path of a finding, on one line whatever characters it has."""
    return show_path(absolute(finding.root, finding.path))


def other_names(finding: Finding) -> str | None:
    """Return the other names of the file; None if it has no others."""
    if not finding.names:
        return None
    return f"the same file as {_some([show_path(absolute(finding.root, name)) for name in finding.names])}"


def damage(finding: Finding) -> str | None:
    """Return which blocks or bytes are damaged; None if the finding names none."""
    return damaged_places(finding.blocks, finding.block_size_bytes, finding.ranges)


def damaged_places(blocks: Sequence[int], block_size_bytes: int | None, ranges: Sequence[ByteRange]) -> str | None:
    """Return damaged blocks or bytes in words; None if there are none."""
    bytes_ = f"bytes {_some([f'{first:,} to {first + length - 1:,}' for first, length in ranges])}"
    if not blocks:
        return bytes_ if ranges else None
    unit = re.sub(r"(?<=\d)(?=[A-Z])", " ", spell_size(block_size_bytes)) if block_size_bytes else ""
    if tuple(blocks) == (0,) and unit and ranges:
        return f"within the first {unit.removeprefix('1 ')} ({bytes_})"
    noun = "block" if len(blocks) == 1 else "blocks"
    size = f" (counted from 0, {unit} each)" if unit else ""
    return f"{noun} {list_numbers(blocks)}{size}" + (f": {bytes_}" if ranges else "")


def next_steps(finding: Finding) -> list[NextStep]:
    """Return what can be done about a finding, best first."""
    if _is_forbidden(finding):
        # Nothing is known to be wrong with the file, so there is nothing to repair.
        return spell_steps(_steps_of_forbidden(absolute(finding.root, finding.path)))
    own = [NextStep(finding.step, _spell(finding.command))] if finding.step else []
    if IN_ITS_PLACE in finding.message:
        own.insert(0, NextStep(_MOVE_AWAY, move_away(absolute(finding.root, finding.path))))
    if finding.copy is not None and finding.path is None:
        return own + _steps_of_copy(finding, finding.copy)  # not those of its kind: a scrub reads no copy
    if finding.kind in _DECIDED_BY_A_PERSON and finding.command and not _is_decidable(finding.command):
        return own
    return own + _steps_of_kind(finding)


_DECIDED_BY_A_PERSON = (FindingKind.COPY_CONFLICT, FindingKind.COPY_NEWER)


def _is_decidable(command: str) -> bool:
    """Tell from what comes first whether one can decide now: else the file comes first, or the copy is a list."""
    return command.startswith("integrity compare --blocks ") or command.endswith(" --copy-is-right")


def _is_forbidden(finding: Finding) -> bool:
    """Return whether a file could not be read for lack of permission; the message of the finding has the cause."""
    return finding.kind is FindingKind.UNREADABLE and not finding.ranges and _is_denied(finding)


def _is_denied(finding: Finding) -> bool:
    causes = (f": {os.strerror(code)}" for code in (errno.EACCES, errno.EPERM))
    return any(one in finding.message for one in causes)


_GIVE_ACCESS = "give the user that integrity runs as read access to it and to the folders above, then"


def _steps_of_forbidden(path: bytes) -> list[NextStep]:
    """Return what can be done about a file or folder that integrity may not read."""
    return [
        NextStep(f"{_GIVE_ACCESS} check it", program.stored_command("scrub", path)),
        NextStep("or leave it out, with `exclude` in the configuration", None),
    ]


def _steps_of_copy(finding: Finding, copy: str) -> list[NextStep]:
    """Return what can be done about a copy as a whole."""
    if finding.kind not in (FindingKind.COPY_UNREADABLE, FindingKind.OVERDUE):
        return []
    forgetting = program.command("forget", finding.root, "--copy", shell_word(copy))
    return [NextStep("or, if the copy is gone for good and no longer configured, forget it", forgetting)]


def _steps_of_kind(finding: Finding) -> list[NextStep]:
    path = absolute(finding.root, finding.path)
    if finding.kind is FindingKind.ROOT_SUSPENDED and _is_denied(finding):
        return [NextStep(f"{_GIVE_ACCESS} continue", program.command("scan", finding.root))]
    if finding.kind is FindingKind.ROOT_SUSPENDED and finding.path is not None:
        return [
            NextStep("mount the right disk there, then continue", program.command("scan", finding.root)),
            NextStep("or, if it is gone for good, forget the files that were on it", program.command("forget", path)),
        ]
    if finding.kind is FindingKind.ROOT_SUSPENDED and finding.step:
        return []  # it was never there, so there is nothing to release or rebind
    places = {"path": shell_path(path), "root": shell_path(finding.root), "copy": shell_word(finding.copy or "COPY")}
    own = finding.step and finding.command
    is_repair_told = finding.step and (finding.command or finding.kind not in ARCHIVE_FINDINGS)
    return [
        NextStep(step.words, _spell(step.command and step.command.format(**places)))
        for step in KINDS[finding.kind].steps
        # Its own may name a copy that is known to be good, forbid a repair, or be one of these.
        if not (is_repair_told and step.command == FROM_SOME_COPY)
        if not (own and step.command and step.command.format(**places) == own)
    ]


def steps_together(finding: Finding, folder: bytes) -> tuple[NextStep, ...]:
    """
    Return what can be done about several findings in a folder that say the same as this one, best first.

    Args:
        folder: relative to the root.

    Returns:
        Steps with commands as they are stored; FILE stands for one of the files.
    """
    place = absolute(finding.root, folder)
    if _is_forbidden(finding):
        return tuple(_steps_of_forbidden(place))
    source = find_source([finding])
    places = {"folder": shell_path(place), "root": shell_path(finding.root), "copy": shell_word(source or "COPY")}
    own = [] if finding.step is None or source else [NextStep(finding.step, _command_for_any(finding))]
    is_repair_told = own and (finding.command or finding.kind not in ARCHIVE_FINDINGS)
    steps = [step for step in KINDS[finding.kind].together if not (is_repair_told and "{copy}" in (step.command or ""))]
    if IN_ITS_PLACE in finding.message:
        own.insert(0, NextStep(_MOVE_AWAY, "mv FILE FILE.away"))
    known = "parity" if source == PARITY else "a backup"
    return (
        *own,
        *(
            NextStep(step.words.replace("a backup", known), step.command and step.command.format(**places))
            for step in steps
        ),
    )


_MOVE_AWAY = "move away what stands in its place first"


def move_away(path: bytes) -> str:
    """Return the command that moves away what stands in the place of a lost file: a repair overwrites nothing."""
    return f"mv {shell_path(path)} {shell_path(path + b'.away')}"


def _command_for_any(finding: Finding) -> str | None:
    return finding.command and finding.command.replace(shell_path(absolute(finding.root, finding.path)), "FILE")


def spell_steps(steps: Iterable[NextStep]) -> list[NextStep]:
    """Return stored steps with their commands as they can be typed."""
    return [NextStep(step.words, _spell(step.command)) for step in steps]


def next_command(finding: Finding) -> str:
    """Return the command that resolves a finding, if it is known, or else the one that prints all about it."""
    if finding.command is not None:
        return printable(program.spell_command(finding.command))
    if finding.path is None:
        return program.command("status", finding.root)
    return program.command("explain", absolute(finding.root, finding.path))


def _spell(stored: str | None) -> str | None:
    return None if stored is None else program.spell_command(stored)


def read_on(kinds: Iterable[FindingKind]) -> str:
    """Return the command that prints the pages about kinds of findings, the gravest first."""
    names = sorted(set(kinds), key=GRAVITY.__getitem__)
    return program.command("manual", *(kind.value for kind in names))


def utc_time(seconds: int) -> str:
    """Write a time with its zone: a mail may be read in another time zone than it was written in."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return "at no possible time"  # no calendar has it: a box may report anything


def _roots(findings: Sequence[Finding]) -> str:
    names = list(dict.fromkeys(finding.root for finding in findings))
    # The last folder's name; the root of all has none.
    first = show_path(names[0].rstrip(b"/").rpartition(b"/")[2] or b"/")
    more = len(names) - 1
    return first if not more else f"{first} and {more:,} more folder{'s' if more > 1 else ''}"


def list_numbers(numbers: Iterable[int], most: int = _SHOWN) -> str:
    """Write numbers with neighbours joined, such as "3, 7-9 and 2 more": only what is meant lies in a span."""
    return _some(_spans(numbers), most)


def _some(texts: Sequence[str], most: int = _SHOWN) -> str:
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def _spans(numbers: Iterable[int]) -> list[str]:
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return [str(first) if first == last else f"{first}-{last}" for first, last in spans]
