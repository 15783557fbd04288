"""
Write messages: subject, plain text, HTML and JSON with the same content.

Decides how each finding is described. Many similar findings about one backup copy become one entry with a count and a
few examples: a backup that did not run causes thousands of findings with one cause and one remedy.

I1  No name is trusted: each is put on one line with special characters escaped, and is escaped again for HTML.
I2  No message is longer than 200 lines.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

from integrity.alerts.wording import (
    damage,
    next_step,
    one_line,
    other_names,
    place,
    sort_by_gravity,
    sum_up,
    title,
    utc_time,
)
from integrity.catalog.notified import PendingIncident
from integrity.catalog.outbox import AlertKind, ChannelState, Message
from integrity.config import format_size
from integrity.errors import show_path
from integrity.kinds import KINDS
from integrity.model import Finding, FindingKind
from integrity.paths import absolute, path_fields, shell_path

MOST_ENTRIES = 200
_MOST_SINGLE = 5
"""Up to this many similar findings about one copy are listed individually."""

_EXAMPLES = 3
_FOLDERS = 5


@dataclass(frozen=True, slots=True)
class MailEntry:
    """One entry of a message: headline, details, and a command to type. ``count``: number of findings it covers."""

    head: str
    path: str = ""
    details: tuple[str, ...] = ()
    command: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Section:
    """Entries under a title. An empty title is not printed."""

    title: str
    entries: tuple[MailEntry, ...]
    more: int = 0  # findings beyond MOST_ENTRIES


class SameText(NamedTuple):
    """The values that all findings of a group share."""

    root: bytes
    copy: str
    kind: FindingKind
    text: str  # the message, or the resolution
    step: str
    command: str


class AlertGroup(NamedTuple):
    """Findings about one copy that share their text."""

    same: SameText
    findings: tuple[Finding, ...]


def list_findings(
    title: str, findings: Sequence[Finding], describe: Callable[[Finding], MailEntry], *, are_over: bool = False
) -> Section:
    """
    Return a section of findings.

    Args:
        title: of the section.
        findings: in display order.
        describe: makes the entry of a finding that is not in a group.
        are_over: the findings are resolved: show the resolution, and no command.
    """
    items = list(gather(findings, are_over=are_over))
    entries = [describe(one) if isinstance(one, Finding) else describe_group(one) for one in items[:MOST_ENTRIES]]
    return Section(title, tuple(entries), len(findings) - sum(entry.count for entry in entries))


def describe(finding: Finding) -> MailEntry:
    """Return the entry of an open finding."""
    found = damage(finding)
    names = other_names(finding)
    details = [one_line(finding.message), *([f"damaged: {found}"] if found else []), *([names] if names else [])]
    details += [one_line(finding.step)] if finding.step else []
    return MailEntry(_head(finding), place(finding), tuple(details), next_step(finding))


def describe_pending(news: PendingIncident) -> MailEntry:
    """Return the entry of a new or changed finding."""
    entry = describe(news.finding)
    details = list(entry.details)
    if news.is_change:
        details.insert(0, "it was told before, and has changed since")
    if news.coalesced:
        details.append(f"{news.coalesced:,} files that could not be read are not listed one by one")
    return MailEntry(entry.head, entry.path, tuple(details), entry.command)


def describe_end(finding: Finding) -> MailEntry:
    """Return the entry of a resolved finding."""
    return MailEntry(f"{_head(finding)}: {one_line(finding.resolution or '')}", place(finding))


def describe_channel(state: ChannelState) -> MailEntry:
    """Return the entry of a failing channel."""
    since = utc_time(state.failing_since) if state.failing_since is not None else "never"
    details = (f"since {since}: {one_line(state.last_error or '')}", f"{state.waiting:,} messages wait for it")
    return MailEntry(f"alerts by {one_line(state.name)} fail", "", details, "integrity alert test")


def _head(finding: Finding) -> str:
    where = f"  in the copy {one_line(finding.copy)}" if finding.copy else ""
    return f"{title(finding)}  [finding {finding.id}]{where}"


def gather(findings: Sequence[Finding], *, are_over: bool = False) -> Iterator[Finding | AlertGroup]:
    """Group similar findings about one copy, at the place of the first one. Yield all other findings unchanged."""
    groups: dict[SameText, list[Finding]] = {}
    keys = [_key_of(finding, is_over=are_over) for finding in findings]
    for finding, key in zip(findings, keys, strict=True):
        if key is not None:
            groups.setdefault(key, []).append(finding)
    for finding, key in zip(findings, keys, strict=True):
        if key is None or len(groups[key]) <= _MOST_SINGLE:
            yield finding
        elif groups[key][0] is finding:
            yield AlertGroup(key, tuple(groups[key]))


def _key_of(finding: Finding, *, is_over: bool) -> SameText | None:
    if finding.copy is None or finding.path is None:
        return None
    if is_over:
        return SameText(finding.root, finding.copy, finding.kind, finding.resolution or "", "", "")
    file, root = shell_path(absolute(finding.root, finding.path)), shell_path(finding.root)
    command = finding.command or "integrity findings"
    command = command.replace(file, root if command.startswith("integrity compare ") else "FILE")
    return SameText(finding.root, finding.copy, finding.kind, finding.message, finding.step or "", command)


def describe_group(group: AlertGroup) -> MailEntry:
    """Return the entry of a group: count, folders, examples, and the remedy."""
    same, findings = group
    details = [one_line(same.text), f"in {_list_folders(findings)}"]
    details += [f"such as {place(finding)}" for finding in findings[:_EXAMPLES]]
    details += [one_line(same.step)] if same.step else []
    head = f"{len(findings):,} findings: {KINDS[same.kind].headline}, in the copy {one_line(same.copy)}"
    return MailEntry(head, show_path(same.root), tuple(details), one_line(same.command), len(findings))


def _list_folders(findings: Sequence[Finding]) -> str:
    """Return the folders with the most of these findings: "2019/italy (40), 2020 (12) and 9 more folders"."""
    counts = Counter((finding.path or b"").rpartition(b"/")[0] for finding in findings)
    shown = [f"{show_path(folder) or '.'} ({count:,})" for folder, count in counts.most_common(_FOLDERS)]
    more = len(counts) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more folder{'s' if more > 1 else ''}" if more else "")


MOST_LINES = MOST_ENTRIES
_SPARE_LINES = 12  # heading, blank lines between the sections, the count of omitted entries, the last line
_DETAILED = 20
_MOST_FACTS = 200
_MOST_PLACES = 1000  # blocks or ranges of one finding; the catalog has all of them
_MOST_CHARS = 2000  # per line: a path can have 4,096 bytes, each escaped to up to four characters
_HTML = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{title}</title></head>
<body style="font-family: sans-serif">
{body}
</body></html>
"""


@dataclass(frozen=True, slots=True)
class Alive:
    """The numbers in a sign of life."""

    since: int
    files: int
    size_bytes: int
    open_findings: int
    channels: tuple[ChannelState, ...]


@dataclass(frozen=True, slots=True)
class Composer:
    """
    Write the messages of one machine.

    Args:
        hostname: its first part is used in subjects.
        make_token: returns the unique part of a Message-ID.
    """

    hostname: str
    make_token: Callable[[], str] = lambda: uuid.uuid4().hex

    def incident(self, news: Sequence[PendingIncident], now: int) -> Message:
        """Return the message about new and changed findings."""
        by_id = {one.finding.id: one for one in news}
        findings = sort_by_gravity(one.finding for one in news)
        section = list_findings("", findings, lambda finding: describe_pending(by_id[finding.id]))
        return self._compose(AlertKind.INCIDENT, sum_up(findings), [section], findings, now)

    def digest(self, still: Sequence[Finding], over: Sequence[Finding], now: int) -> Message:
        """Return the reminder of open findings and the list of those resolved since the last one."""
        findings = sort_by_gravity(still)
        sections = [list_findings("Still open", findings, describe), _list_over(over)]
        parts = [f"still {sum_up(findings)}"] if findings else []
        parts += [f"{len(over):,} resolved"] if over else []
        kind = AlertKind.DIGEST if over else AlertKind.REMINDER
        return self._compose(kind, "; ".join(parts), sections, [*findings, *over], now)

    def all_clear(self, over: Sequence[Finding], number: int, now: int) -> Message:
        """Return the message that every reported finding is resolved."""
        subject = f"all clear: {number:,} finding{'s' if number != 1 else ''} resolved, none open"
        return self._compose(AlertKind.ALL_CLEAR, subject, [_list_over(over)], over, now)

    def alive(self, life: Alive, now: int) -> Message:
        """Return the periodic sign of life, so that a missing mail reveals a dead service."""
        subject = f"alive: {life.files:,} files, {format_size(life.size_bytes)} verified"
        verified = f"{life.files:,} files, {format_size(life.size_bytes)}"
        facts = [
            MailEntry(f"read again and found as recorded since {utc_time(life.since)}: {verified}"),
            MailEntry(f"open findings: {life.open_findings:,}", command="integrity status"),
        ]
        facts += [describe_channel(state) for state in life.channels if state.failing_since is not None]
        return self._compose(AlertKind.ALIVE, subject, [Section("", tuple(facts))], [], now)

    def channel(self, state: ChannelState, now: int) -> Message:
        """Return the message that another channel fails."""
        sections = [Section("", (describe_channel(state),))]
        return self._compose(AlertKind.CHANNEL, f"alerts by {one_line(state.name)} fail", sections, [], now)

    def catalog_trouble(self, trouble: str, now: int) -> Message:
        """Return the message that the catalog can't be written, so no finding can be recorded."""
        head = "the service can't record what it finds, so nothing is verified, and no finding is told, until it can:"
        entry = MailEntry(f"{head} {one_line(trouble)}", command="integrity status")
        return self._compose(AlertKind.INCIDENT, "the catalog can't be written", [Section("", (entry,))], [], now)

    def test(self, now: int) -> Message:
        """Return the message of ``integrity alert test``."""
        entry = MailEntry(
            "This is a test: somebody called `integrity alert test`. All that it says is that alerts arrive."
        )
        return self._compose(AlertKind.TEST, "test: alerts arrive", [Section("", (entry,))], [], now)

    def _compose(
        self, kind: AlertKind, subject: str, sections: Sequence[Section], findings: Sequence[Finding], now: int
    ) -> Message:
        host = one_line(self.hostname.partition(".")[0])
        shown = list(_shorten(sections))
        heading = f"{host}: {subject}"
        subject = _cut(f"[integrity] {heading}", 250)
        return Message(
            kind=kind,
            message_id=f"<{self.make_token()}@{_domain(self.hostname)}>",
            subject=subject,
            body=_write_text(heading, shown),
            html=_write_html(heading, shown),
            facts=_write_facts(kind, self.hostname, subject, findings, now),
            incidents=tuple(int(finding.id) for finding in findings[:_MOST_FACTS]),
            created_at=now,
        )


def _list_over(over: Sequence[Finding]) -> Section:
    return list_findings("Resolved", over, describe_end, are_over=True)


def _shorten(sections: Sequence[Section]) -> Iterator[Section]:
    """Show the first entries in full and the next ones as a line each; append the number of omitted findings."""
    room, shown = MOST_LINES - _SPARE_LINES, 0
    for section in sections:
        entries: list[MailEntry] = []
        for entry in section.entries:
            brief = entry if shown < _DETAILED else MailEntry(entry.head, entry.path, count=entry.count)
            lines = len(_text_lines(brief))
            if lines > room:
                break
            room -= lines
            shown += 1
            entries.append(brief)
        left_out = sum(entry.count for entry in section.entries[len(entries) :]) + section.more
        if left_out:
            entries.append(MailEntry(f"and {left_out:,} more: integrity findings"))
        if entries:
            yield Section(section.title, tuple(entries))


def _text_lines(entry: MailEntry) -> list[str]:
    head = f"{entry.head}  {entry.path}" if entry.path else entry.head
    details = [f"    {detail}" for detail in entry.details]
    command = [f"    next:  {entry.command}"] if entry.command else []
    return [_cut(line, _MOST_CHARS) for line in (head, *details, *command)]


def _write_text(heading: str, sections: Sequence[Section]) -> str:
    lines = [_cut(heading, _MOST_CHARS)]
    for section in sections:
        lines += ["", *([f"{section.title}:"] if section.title else [])]
        for entry in section.entries:
            lines += _text_lines(entry)
    return "\n".join(lines) + "\n"


def _write_html(heading: str, sections: Sequence[Section]) -> str:
    parts = [f"<h3>{_safe(heading)}</h3>"]
    for section in sections:
        parts += [f"<h4>{_safe(section.title)}</h4>"] if section.title else []
        parts += ["<ul>", *(_write_item(entry) for entry in section.entries), "</ul>"]
    return _HTML.format(title=_safe(heading), body="\n".join(parts))


def _write_item(entry: MailEntry) -> str:
    lines = [f"<b>{_safe(entry.head)}</b>" + (f" <code>{_safe(entry.path)}</code>" if entry.path else "")]
    lines += [_safe(detail) for detail in entry.details]
    lines += [f"next: <code>{_safe(entry.command)}</code>"] if entry.command else []
    return f"<li>{'<br>'.join(lines)}</li>"


def _safe(text: str) -> str:
    return escape(_cut(text, _MOST_CHARS))


def _write_facts(kind: AlertKind, hostname: str, subject: str, findings: Sequence[Finding], now: int) -> str:
    facts = {
        "type": "alert",
        "schema": 1,
        "kind": kind.value,
        "host": hostname,
        "subject": subject,
        "created_at": _iso_time(now),
        "findings_count": len(findings),
        "findings": [_finding_fields(finding) for finding in findings[:_MOST_FACTS]],
    }
    return json.dumps(facts, separators=(",", ":"))


def _finding_fields(finding: Finding) -> dict[str, object]:
    return {
        "type": "finding",
        "schema": 1,
        "id": finding.id,
        "kind": finding.kind.value,
        "certainty": finding.certainty.value if finding.certainty else None,
        **path_fields("path", absolute(finding.root, finding.path)),
        **path_fields("root", finding.root),
        "opened_at": _iso_time(finding.opened_at),
        "state": finding.state.value,
        "blocks": list(finding.blocks[:_MOST_PLACES]),
        "block_size_bytes": finding.block_size_bytes,
        "ranges": [list(each) for each in finding.ranges[:_MOST_PLACES]],
        "confirmed_reads": finding.confirmed_reads,
        "resolved_at": None if finding.resolved_at is None else _iso_time(finding.resolved_at),
        "resolution": finding.resolution,
        "message": finding.message,
        "copy": finding.copy,
    }


def _iso_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _domain(hostname: str) -> str:
    """Return a host name without the characters that a Message-ID can't contain."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", hostname).strip(".-") or "localhost"
