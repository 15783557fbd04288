"""The words of messages: what a finding is called in a subject, where the damage lies, what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from integrity.config import spell_size
from integrity.errors import show_path
from integrity.model import Finding, FindingKind
from integrity.paths import absolute, shell_path

_SHOWN = 5
_PHRASES_SHOWN = 2

Kind = FindingKind


class Phrase(NamedTuple):
    """How findings of a kind are called in a subject: one of them, several of them."""

    one: str
    many: str


# In the order of gravity: a subject begins with the worst, and so does a mail.
_DAMAGED = Phrase("file damaged", "files damaged")
_PHRASES: dict[FindingKind, Phrase] = {
    Kind.SUSPICIOUS_CHANGE: Phrase("gate closed by suspicious changes", "gates closed by suspicious changes"),
    Kind.ROT: _DAMAGED,
    Kind.SILENT_REWRITE: _DAMAGED,
    Kind.SHRUNK: _DAMAGED,
    Kind.DEVICE_FAILING: Phrase("disk failing", "disks failing"),
    Kind.UNREADABLE: Phrase("file unreadable", "files unreadable"),
    Kind.CHANGED: Phrase("file changed", "files changed"),
    Kind.ROLLED_BACK: Phrase("file rolled back", "files rolled back"),
    Kind.MISSING: Phrase("file missing", "files missing"),
    Kind.MASS_CHANGE: Phrase("mass change held back", "mass changes held back"),
    Kind.TRANSIENT: Phrase("wrong reading", "wrong readings"),
    Kind.CATALOG_DAMAGED: Phrase("record damaged", "records damaged"),
    Kind.DEVICE_STALLED: Phrase("disk hanging", "disks hanging"),
    Kind.ROOT_SUSPENDED: Phrase("folder suspended", "folders suspended"),
    Kind.COPY_DIFFERS: Phrase("file differs", "files differ"),
    Kind.COPY_MISSING: Phrase("file missing", "files missing"),
    Kind.COPY_STALE: Phrase("file out of date", "files out of date"),
    Kind.COPY_UNREADABLE: Phrase("file unreadable", "files unreadable"),
    Kind.COPY_NOT_COMPARABLE: Phrase("file not comparable", "files not comparable"),
    Kind.OVERDUE: Phrase("verification overdue", "verifications overdue"),
    Kind.WATCH_BLIND: Phrase("watcher blind", "watchers blind"),
    Kind.UNSTABLE: Phrase("file never at rest", "files never at rest"),
}
_GRAVITY = {kind: number for number, kind in enumerate(_PHRASES)}
_OTHER = Phrase("finding", "findings")
_MORE = Phrase("more of them", "more of them")
_OF_WHOLE_COPIES = {
    Kind.COPY_UNREADABLE: Phrase("can't be read", "can't be read"),
    Kind.COPY_NOT_COMPARABLE: Phrase("files could not be compared", "files could not be compared"),
    Kind.OVERDUE: Phrase("comparison overdue", "comparisons overdue"),
    # So many files that only the first ones have findings of their own.
    Kind.COPY_DIFFERS: _MORE,
    Kind.COPY_MISSING: _MORE,
    Kind.COPY_STALE: _MORE,
}


def sort_by_gravity(findings: Iterable[Finding]) -> list[Finding]:
    """Put the damaged files first, each kind in the order of its numbers."""
    return sorted(findings, key=lambda finding: (_GRAVITY.get(finding.kind, len(_GRAVITY)), finding.id))


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
    if finding.copy is not None and finding.path is None and finding.kind in _OF_WHOLE_COPIES:
        return _OF_WHOLE_COPIES[finding.kind]
    return _PHRASES.get(finding.kind, _OTHER)


def count(number: int, phrase: Phrase) -> str:
    """Write "1 file damaged", "1,234 files damaged"."""
    return f"{number:,} {phrase.one if number == 1 else phrase.many}"


def title(finding: Finding) -> str:
    """Write a finding's kind, and how sure it is where that says something."""
    return f"{finding.kind.value} ({finding.certainty.value})" if finding.certainty else finding.kind.value


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
