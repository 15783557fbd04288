"""
What is said of findings: their cards, and what can be done about them.

Many similar findings about one backup copy or in one folder are one card with a count and a few examples: a backup that
did not run causes thousands of findings with one cause and one remedy.
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from integrity import program
from integrity.config.copy_urls import PARITY
from integrity.errors import printable, show_path
from integrity.kinds import (
    ARCHIVE_FINDINGS,
    DAMAGE,
    FROM_SOME_COPY,
    GRAVITY,
    INTEGRITY_PROBLEMS,
    KINDS,
    REPAIRABLE,
    NextStep,
    Phrase,
    headline,
)
from integrity.model import ByteRange, Finding, FindingKind, FindingState
from integrity.paths import absolute, path_fields, read_word, shell_path, shell_word
from integrity.units import spell_size
from integrity.words.card import Card
from integrity.words.text import JsonObject, count, iso_time, local_time

ORIGINAL_UNCHANGED = "your original is unchanged"
"""Part of the message of a damaged backup whose file was just read, and is what was recorded."""

IN_ITS_PLACE = "stands in its place"
"""Part of the message of a missing file whose name leads to a folder, a symbolic link, or the like."""

DATA_SHOWS = "Seen in the data: "
"""Begins the end of a message that is about the bytes of one file: two messages that differ only there say the same."""

_SHOWN = 5
_SPANS_IN_LIST = 2
_MOST_SINGLE, _MOST_SINGLE_ABOUT_COPY = 2, 5
"""Up to this many similar findings about one folder, or about one copy, are listed individually."""

_EXAMPLES = 3
_FOLDERS = 5

FindingGroup = tuple[Finding, ...]
"""A finding, or several about one copy, or about the files of one folder, that say the same."""


def sort_by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by gravity, damaged files first, then by number."""
    return sorted(findings, key=lambda finding: (GRAVITY[finding.kind], finding.id))


def make_card(group: FindingGroup, *, are_over: bool = False) -> Card:
    """Return the card of a group. ``are_over``: it says how several ended, and not what to do."""
    first, manual = group[0], read_on([group[0].kind])
    is_problem = first.kind in INTEGRITY_PROBLEMS
    if len(group) > 1:
        same = _find_same(first, are_over=are_over)
        folders = [f"in {_list_folders(group)}"] if same.copy else []
        examples = (f"such as {place(one)}" for one in group[:_EXAMPLES])
        return Card(
            f"{len(group):,} findings: {title(first)}{f', in the copy {printable(same.copy)}' if same.copy else ''}",
            show_path(absolute(same.root, same.folder or None)),
            (printable(same.text), *folders, *examples),
            tuple(NextStep(step.words, _spell(step.command)) for step in same.steps),
            label=f"findings {list_numbers(one.id for one in group)}",
            manual=manual,
            is_problem=is_problem,
            findings=len(group),
        )
    is_open = first.state is not FindingState.RESOLVED
    found, reads = damage(first), first.confirmed_reads
    confirmed = f"; {count(reads, 'more read')} gave the same wrong data" if reads else ""
    names = describe_names(first)
    lines = [printable(first.message), *([f"damaged: {found}{confirmed}"] if found else [])]
    lines += [names] if names else []
    lines += [] if is_open else [f"resolved: {printable(first.resolution or '')}"]
    return Card(
        title(first),
        place(first),
        tuple(lines),
        tuple(next_steps(first)) if is_open else (),
        finding_object(first),
        f"finding {first.id}",
        manual if is_open else "",
        is_problem,
        number=first.id,
    )


def finding_object(finding: Finding) -> JsonObject:
    seen = finding.versions
    return {
        "id": finding.id,
        "kind": finding.kind.value,
        "certainty": finding.certainty.value if finding.certainty else None,
        **path_fields("path", absolute(finding.root, finding.path)),
        **path_fields("root", finding.root),
        "names": [show_path(absolute(finding.root, name)) for name in finding.names],
        "opened_at": iso_time(finding.opened_at),
        "updated_at": iso_time(finding.updated_at),
        "state": finding.state.value,
        "blocks": list(finding.blocks),
        "block_size_bytes": finding.block_size_bytes,
        "ranges": [list(each) for each in finding.ranges],
        "confirmed_reads": finding.confirmed_reads,
        "resolved_at": iso_time(finding.resolved_at),
        "resolution": finding.resolution,
        "muted_until": iso_time(finding.muted_until),
        "copy": finding.copy,
        "message": finding.message,
        "versions": None if seen is None else [{**one._asdict(), "taken_at": iso_time(one.taken_at)} for one in seen],
        "next_steps": [{"words": step.words, "command": step.command} for step in next_steps(finding)],
    }


class _SameText(NamedTuple):
    """The values that all findings of a group share; ``copy`` is empty for files here, which are told by folder."""

    root: bytes
    folder: bytes
    copy: str
    kind: FindingKind
    text: str  # the message, or the resolution
    steps: tuple[NextStep, ...]  # what to do about all of them, best first; commands as they are stored


def gather(findings: Sequence[Finding], *, are_over: bool = False) -> Iterator[FindingGroup]:
    """
    Group similar findings about one copy or folder, at the place of the first one. Yield all others one by one.

    ``are_over``: they are resolved, and similar if they ended alike.
    """
    groups: dict[_SameText, list[Finding]] = {}
    keys: list[_SameText | None] = []
    for finding in findings:
        has_common = finding.copy is not None or KINDS[finding.kind].together
        has_key = finding.path is not None and has_common
        keys.append(_find_same(finding, are_over=are_over) if has_key else None)
    for finding, key in zip(findings, keys, strict=True):
        if key is not None:
            groups.setdefault(key, []).append(finding)
    for finding, key in zip(findings, keys, strict=True):
        if key is None or len(groups[key]) <= (_MOST_SINGLE_ABOUT_COPY if key.copy else _MOST_SINGLE):
            yield (finding,)
        elif groups[key][0] is finding:
            yield tuple(groups[key])


def _find_same(finding: Finding, *, are_over: bool) -> _SameText:
    folder = b"" if finding.copy is not None else (finding.path or b"").rpartition(b"/")[0]
    shared = (finding.root, folder, finding.copy or "", finding.kind)
    if are_over:
        return _SameText(*shared, finding.resolution or "", ())
    text = finding.message.partition(f" {DATA_SHOWS}")[0]
    return _SameText(*shared, text, steps_together(finding, folder))


def _list_folders(findings: Sequence[Finding]) -> str:
    """Return the folders with the most of these findings: "2019/italy (40), 2020 (12) and 9 more folders"."""
    counts = Counter((finding.path or b"").rpartition(b"/")[0] for finding in findings)
    shown = [f"{show_path(folder) or '.'} ({number:,})" for folder, number in counts.most_common(_FOLDERS)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more folder{'s' if more > 1 else ''}" if more else "")


_WIDEST_HEADLINE = 44
"""A longer headline is not cut: its line alone leaves the column."""


def list_lines(groups: Sequence[FindingGroup]) -> Iterator[str]:
    """Yield findings, or groups of them, one per line, in columns as wide as what is listed."""
    numbers = [list_numbers((one.id for one in group), _SPANS_IN_LIST) for group in groups]
    number_width = max(map(len, numbers), default=0)
    width = min(max((len(title(group[0])) for group in groups), default=0), _WIDEST_HEADLINE)
    for group, number in zip(groups, numbers, strict=True):
        head = f"{number:>{max(number_width, 5)}}  {local_time(group[0].opened_at)}  {title(group[0]):<{width}}"
        yield "  ".join(part for part in (head, *_list_places(group)) if part)


def _list_places(group: FindingGroup) -> Iterator[str]:
    first, is_one = group[0], len(group) == 1
    folder = first.path if is_one else None if first.copy else (first.path or b"").rpartition(b"/")[0]
    yield show_path(absolute(first.root, folder or None))
    yield f"in {printable(first.copy)}" if first.copy else ""
    if not is_one:
        yield count(len(group), "file")
        return
    yield f"and {count(len(first.names), 'other name')} of the file" if first.names else ""
    yield damage(first) or ""
    if first.state is FindingState.MUTED and first.muted_until is not None:
        yield f"(muted until {local_time(first.muted_until)})"
    elif first.state is FindingState.RESOLVED and first.resolved_at is not None:
        yield f"(resolved {local_time(first.resolved_at)}: {printable(first.resolution or '')})"
    elif first.state is not FindingState.OPEN:
        yield f"({first.state.value})"


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
    texts = (f"{one.of(number)}{held_back.get(one, '')}" for one, number in phrases.items())
    return ", ".join(text.replace(" {copy}", "") for text in texts)


_HELD_BACK = re.compile(r"([\d,]+) of [\d,]+ files changed, and ([\d,]+) are gone")


def describe_held_back(findings: Iterable[Finding]) -> str:
    """Return how many files the mass changes among findings hold back, as their messages say: " (600 files)"."""
    found = [_HELD_BACK.match(one.message) for one in findings if one.kind is FindingKind.MASS_CHANGE]
    number = sum(int(text.replace(",", "")) for match in found if match for text in match.groups())
    return f" ({number:,} file{'' if number == 1 else 's'})" if number else ""


def find_source(findings: Sequence[Finding]) -> str | None:
    """Return the copy that all these files can be repaired from; None if there is no such copy."""
    copies = {find_own_source(finding) for finding in findings}
    return copies.pop() if len(copies) == 1 else None


def find_own_source(finding: Finding) -> str | None:
    """Return the copy with the good content of a file: the one that the advice of its finding names."""
    if finding.kind not in REPAIRABLE or finding.step is None or finding.command is None:
        return None
    repair, _, source = finding.command.rpartition(" --from ")
    return read_word(source) if repair.startswith("integrity repair ") else None


def title(finding: Finding) -> str:
    return headline(finding.kind, finding.certainty)


def place(finding: Finding) -> str:
    """Return the path of a finding, on one line whatever characters it has."""
    return show_path(absolute(finding.root, finding.path))


def describe_names(finding: Finding) -> str | None:
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


_DECIDED_BY_A_PERSON = (FindingKind.COPY_CONFLICT, FindingKind.COPY_NEWER)
_GIVE_ACCESS = "give the user that integrity runs as read access to it and to the folders above, then"
_MOVE_AWAY = "move away what stands in its place first"


def next_steps(finding: Finding) -> list[NextStep]:
    path = absolute(finding.root, finding.path)
    if _is_forbidden(finding):
        # Nothing is known to be wrong with the file, so there is nothing to repair.
        return [NextStep(step.words, _spell(step.command)) for step in _steps_of_forbidden(path)]
    own = [NextStep(finding.step, _spell(finding.command))] if finding.step else []
    if IN_ITS_PLACE in finding.message:
        own.insert(0, NextStep(_MOVE_AWAY, move_away(path)))
    if finding.copy is not None and finding.path is None:  # not the steps of its kind: a scrub reads no copy
        if finding.kind in (FindingKind.COPY_UNREADABLE, FindingKind.OVERDUE):
            forgetting = program.command("forget", finding.root, "--copy", shell_word(finding.copy))
            own.append(NextStep("or, if the copy is gone for good and no longer configured, forget it", forgetting))
        return own
    first = finding.command or ""
    # One can decide now, unless another file comes first, or the copy is a list.
    is_decidable = first.startswith("integrity compare --blocks ") or first.endswith(" --copy-is-right")
    if finding.kind in _DECIDED_BY_A_PERSON and first and not is_decidable:
        return own
    return own + _steps_of_kind(finding)


def _is_forbidden(finding: Finding) -> bool:
    """Return whether a file could not be read for lack of permission; the message of the finding has the cause."""
    return finding.kind is FindingKind.UNREADABLE and not finding.ranges and _is_denied(finding)


def _is_denied(finding: Finding) -> bool:
    return any(f": {os.strerror(code)}" in finding.message for code in (errno.EACCES, errno.EPERM))


def _steps_of_forbidden(path: bytes) -> tuple[NextStep, ...]:
    """Return what can be done about a file or folder that integrity may not read."""
    return (
        NextStep(f"{_GIVE_ACCESS} check it", program.stored_command("scrub", path)),
        NextStep("or leave it out, with `exclude` in the configuration", None),
    )


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
    Return what can be done about several findings in a folder, or about a copy, that say the same, best first.

    Args:
        finding: one of them.
        folder: relative to the root.

    Returns:
        Steps with commands as they are stored; FILE stands for one of the files.
    """
    place, root = absolute(finding.root, folder), shell_path(finding.root)
    file, entry = shell_path(absolute(finding.root, finding.path)), KINDS[finding.kind]
    if finding.copy is not None:
        command = finding.command or "integrity findings"
        if command.startswith("integrity compare --blocks "):  # shows one file
            return (NextStep(entry.step_of_many, f"integrity findings --kind {finding.kind}"),)
        command = command.replace(file, root if command.startswith("integrity compare ") else "FILE")
        return (NextStep(finding.step or "see all of them", command),)
    if _is_forbidden(finding):
        return _steps_of_forbidden(place)
    source = find_source([finding])
    places = {"folder": shell_path(place), "root": root, "copy": shell_word(source or "COPY")}
    any_command = finding.command and finding.command.replace(file, "FILE")
    own = [] if finding.step is None or source else [NextStep(finding.step, any_command)]
    is_repair_told = bool(own) and (finding.command or finding.kind not in ARCHIVE_FINDINGS)
    if IN_ITS_PLACE in finding.message:
        own.insert(0, NextStep(_MOVE_AWAY, "mv FILE FILE.away"))
    known = "parity" if source == PARITY else "a backup"
    steps = (
        NextStep(step.words.replace("a backup", known), step.command and step.command.format(**places))
        for step in entry.together
        if not (is_repair_told and "{copy}" in (step.command or ""))
    )
    return (*own, *steps)


def move_away(path: bytes) -> str:
    """Return the command that moves away what stands in the place of a lost file: a repair overwrites nothing."""
    return f"mv {shell_path(path)} {shell_path(path + b'.away')}"


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


def list_numbers(numbers: Iterable[int], most: int = _SHOWN) -> str:
    """Write numbers with neighbours joined, such as "3, 7-9 and 2 more": only what is meant lies in a span."""
    return _some(find_spans(numbers), most)


def _some(texts: Sequence[str], most: int = _SHOWN) -> str:
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def find_spans(numbers: Iterable[int]) -> list[str]:
    """Return numbers as texts, neighbours joined: "3", "7-9"."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return [str(first) if first == last else f"{first}-{last}" for first, last in spans]
