"""The words of messages: what a finding is called in a subject, where the damage lies, what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from integrity.config import spell_size
from integrity.errors import show_path
from integrity.kinds import GRAVITY, KINDS, Phrase, headline
from integrity.model import Finding
from integrity.paths import absolute, shell_path

_SHOWN = 5
_PHRASES_SHOWN = 2


def sort_by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """Put the damaged files first, each kind in the order of its numbers."""
    return sorted(findings, key=lambda finding: (GRAVITY[finding.kind], finding.id))


def sum_up(findings: Sequence[Finding]) -> str:
    """Say in a line what the findings are: "2 files damaged in photos; copy nightly of photos: 1 file differs"."""
    about: dict[str | None, list[Finding]] = {}
    for finding in sorted(findings, key=lambda finding: finding.copy is not None):
        about.setdefault(finding.copy, []).append(finding)
    return "; ".join(_sum_up_one(copy, ones) for copy, ones in about.items())


def _sum_up_one(copy: str | None, findings: Sequence[Finding]) -> str:
    """Say what the findings are that are about the roots themselves, or about one copy."""
    kinds = Counter(_find_phrase(finding) for finding in sort_by_gravity(findings))
    parts = [phrase.one if phrase.one == phrase.many else count(number, phrase) for phrase, number in kinds.items()]
    more = sum(list(kinds.values())[_PHRASES_SHOWN:])
    text = ", ".join(parts[:_PHRASES_SHOWN]) + (f", {more:,} more" if more else "")
    roots = _roots(findings)
    return f"{text} in {roots}" if copy is None else f"copy {one_line(copy)} of {roots}: {text}"


def _find_phrase(finding: Finding) -> Phrase:
    entry = KINDS[finding.kind]
    is_of_copy = finding.copy is not None and finding.path is None
    return entry.phrase_of_copy if is_of_copy and entry.phrase_of_copy is not None else entry.phrase


def count(number: int, phrase: Phrase) -> str:
    """Write "1 file damaged", "1,234 files damaged"."""
    return f"{number:,} {phrase.one if number == 1 else phrase.many}"


def title(finding: Finding) -> str:
    """Write what a finding is, in words."""
    return headline(finding.kind, finding.certainty)


def place(finding: Finding) -> str:
    """Write the path of what a finding is about, on one line whatever is in it."""
    return show_path(absolute(finding.root, finding.path))


def other_names(finding: Finding) -> str | None:
    """Write the other names of the file that a finding is about; None: it has no others."""
    if not finding.names:
        return None
    return f"the same file as {_some([show_path(absolute(finding.root, name)) for name in finding.names])}"


def damage(finding: Finding) -> str | None:
    """Say which blocks or bytes are damaged; None if the finding names none."""
    parts = []
    if finding.blocks:
        size = f" (counted from 0, {spell_size(finding.block_size_bytes)} each)" if finding.block_size_bytes else ""
        noun = "block" if len(finding.blocks) == 1 else "blocks"
        parts.append(f"{noun} {_some(_spans(finding.blocks))}{size}")
    if finding.ranges:
        parts.append(f"bytes {_some([f'{first:,} to {first + length - 1:,}' for first, length in finding.ranges])}")
    return ": ".join(parts) or None


def next_step(finding: Finding) -> str:
    """Write the command that says all about a finding, and what can be done; or does it, where that is known."""
    if finding.command is not None:
        return one_line(finding.command)
    if finding.path is None:
        return f"integrity status {shell_path(finding.root)}"
    return f"integrity explain {shell_path(absolute(finding.root, finding.path))}"


def one_line(text: str) -> str:
    """Keep control characters and what can't be encoded out of a line: messages hold names, names hold anything."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def utc_time(seconds: int) -> str:
    """Write a time for people; a mail is read in another time zone than it was written in."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _roots(findings: Sequence[Finding]) -> str:
    names = list(dict.fromkeys(finding.root for finding in findings))
    # The last folder's name; the root of all has none.
    first = show_path(names[0].rstrip(b"/").rpartition(b"/")[2] or b"/")
    more = len(names) - 1
    return first if not more else f"{first} and {more:,} more folder{'s' if more > 1 else ''}"


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _spans(blocks: Sequence[int]) -> list[str]:
    """Write block numbers with neighbours joined: 3, 7-9."""
    spans: list[list[int]] = []
    for block in sorted(blocks):
        if spans and spans[-1][1] == block - 1:
            spans[-1][1] = block
        else:
            spans.append([block, block])
    return [str(first) if first == last else f"{first}-{last}" for first, last in spans]
