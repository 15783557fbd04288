"""
What a message says of each finding; of many of one kind about one backup copy it says how many, and names a few.

A backup that did not run leaves thousands of findings that say the same: they are one incident with one way out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from integrity.alerts.wording import damage, next_step, one_line, other_names, place, title, utc_time
from integrity.errors import show_path
from integrity.model import Finding, FindingKind
from integrity.paths import absolute, shell_path

if TYPE_CHECKING:
    from integrity.catalog.notified import News
    from integrity.catalog.outbox import ChannelState

MOST_ENTRIES = 200
_MOST_SINGLE = 5
"""So many findings of one kind about one copy are told one by one."""

_EXAMPLES = 3
_FOLDERS = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that is told: its first line, what follows it, a command to type; ``count``: of findings."""

    head: str
    path: str = ""
    details: tuple[str, ...] = ()
    command: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Section:
    """Entries under a title; empty: without one."""

    title: str
    entries: tuple[Entry, ...]
    more: int = 0  # findings that there is no room for anyway


class Same(NamedTuple):
    """What findings have in common that are reported as one."""

    root: bytes
    copy: str
    kind: FindingKind
    text: str  # the message, or the resolution
    step: str
    command: str


class Group(NamedTuple):
    """Findings that say the same of one copy."""

    same: Same
    findings: tuple[Finding, ...]


def list_findings(
    title: str, findings: Sequence[Finding], describe: Callable[[Finding], Entry], *, are_over: bool = False
) -> Section:
    """
    Make a section of findings.

    Args:
        title: of the section.
        findings: in the order in which they are told.
        describe: makes the entry of one that is told by itself.
        are_over: they are resolved: how is told, and nothing is left to do.
    """
    items = list(gather(findings, are_over=are_over))
    entries = [describe(one) if isinstance(one, Finding) else describe_group(one) for one in items[:MOST_ENTRIES]]
    return Section(title, tuple(entries), len(findings) - sum(entry.count for entry in entries))


def describe(finding: Finding) -> Entry:
    """Describe a finding that is open."""
    found = damage(finding)
    names = other_names(finding)
    details = [one_line(finding.message), *([f"damaged: {found}"] if found else []), *([names] if names else [])]
    details += [one_line(finding.step)] if finding.step else []
    return Entry(_head(finding), place(finding), tuple(details), next_step(finding))


def describe_news(news: News) -> Entry:
    """Describe a finding of which there is something to say."""
    entry = describe(news.finding)
    details = list(entry.details)
    if news.is_change:
        details.insert(0, "it was told before, and has changed since")
    if news.swallowed:
        details.append(f"{news.swallowed:,} files that could not be read are not listed one by one")
    return Entry(entry.head, entry.path, tuple(details), entry.command)


def describe_end(finding: Finding) -> Entry:
    """Describe a finding that is resolved."""
    return Entry(f"{_head(finding)}: {one_line(finding.resolution or '')}", place(finding))


def describe_channel(state: ChannelState) -> Entry:
    """Describe a channel that fails."""
    since = utc_time(state.failing_since) if state.failing_since is not None else "never"
    details = (f"since {since}: {one_line(state.last_error or '')}", f"{state.waiting:,} messages wait for it")
    return Entry(f"alerts by {one_line(state.name)} fail", "", details, "integrity alert test")


def _head(finding: Finding) -> str:
    where = f"  in the copy {one_line(finding.copy)}" if finding.copy else ""
    return f"{title(finding)}  [finding {finding.id}]{where}"


def gather(findings: Sequence[Finding], *, are_over: bool = False) -> Iterator[Finding | Group]:
    """Group findings that say the same of one copy, where the first of them stands; pass the others through."""
    groups: dict[Same, list[Finding]] = {}
    keys = [_key_of(finding, is_over=are_over) for finding in findings]
    for finding, key in zip(findings, keys, strict=True):
        if key is not None:
            groups.setdefault(key, []).append(finding)
    for finding, key in zip(findings, keys, strict=True):
        if key is None or len(groups[key]) <= _MOST_SINGLE:
            yield finding
        elif groups[key][0] is finding:
            yield Group(key, tuple(groups[key]))


def _key_of(finding: Finding, *, is_over: bool) -> Same | None:
    if finding.copy is None or finding.path is None:
        return None
    if is_over:
        return Same(finding.root, finding.copy, finding.kind, finding.resolution or "", "", "")
    file, root = shell_path(absolute(finding.root, finding.path)), shell_path(finding.root)
    command = finding.command or "integrity findings"
    command = command.replace(file, root if command.startswith("integrity compare ") else "FILE")
    return Same(finding.root, finding.copy, finding.kind, finding.message, finding.step or "", command)


def describe_group(group: Group) -> Entry:
    """Describe many findings at once: how many, in which folders, a few of them, what to do."""
    same, findings = group
    details = [one_line(same.text), f"in {_list_folders(findings)}"]
    details += [f"such as {place(finding)}" for finding in findings[:_EXAMPLES]]
    details += [one_line(same.step)] if same.step else []
    head = f"{len(findings):,} findings {same.kind.value} in the copy {one_line(same.copy)}"
    return Entry(head, show_path(same.root), tuple(details), one_line(same.command), len(findings))


def _list_folders(findings: Sequence[Finding]) -> str:
    """Name the folders with the most of these findings: "2019/italy (40), 2020 (12) and 9 more folders"."""
    counts = Counter((finding.path or b"").rpartition(b"/")[0] for finding in findings)
    shown = [f"{show_path(folder) or '.'} ({count:,})" for folder, count in counts.most_common(_FOLDERS)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more folder{'s' if more > 1 else ''}" if more else "")
