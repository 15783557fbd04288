"""
Lay out messages: the same entries as plain text, HTML and JSON.

What an entry says is decided elsewhere: by ``compose`` for the findings of one machine, and by the hub for its own.

I1  No name is trusted: each is put on one line with special characters escaped, and is escaped again for HTML.
I2  No message is longer than 200 lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from integrity import program
from integrity.catalog.outbox import AlertKind, Message
from integrity.errors import printable

MOST_ENTRIES = 200
MOST_LINES = MOST_ENTRIES
MOST_FACTS = 200
"""Findings that the JSON of a message lists."""

_SPARE_LINES = 20  # heading, opening, blank lines between the sections, the count of omitted entries, the last line
_DETAILED = 20
_MOST_CHARS = 2000  # per line: a path can have 4,096 bytes, each escaped to up to four characters
_ANY_PAGE = "https://page.example"
"""Stands for the page where only the number of lines matters."""

_HTML = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{title}</title></head>
<body style="font-family: sans-serif">
{body}
</body></html>
"""


@dataclass(frozen=True, slots=True)
class MailEntry:
    """
    One entry of a message: headline, details, and a command to type.

    Args:
        count: number of findings it covers.
        number: of the finding, if the page has more about it; 0: it has not.
        others: what else can be done, each with its command.
    """

    head: str
    path: str = ""
    details: tuple[str, ...] = ()
    command: str = ""
    count: int = 1
    number: int = 0
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Entries under a title. An empty title is not printed."""

    title: str
    entries: tuple[MailEntry, ...]
    more: int = 0  # findings beyond MOST_ENTRIES


@dataclass(frozen=True, slots=True)
class MailDraft:
    """
    A message before it is laid out.

    Args:
        subject: without the name of the host.
        opening: the first lines.
        facts: the JSON of the findings that it is about.
        incidents: their numbers.
        notice: stands before the subject, such as "this is a drill".
    """

    kind: AlertKind
    subject: str
    opening: Sequence[str]
    sections: Sequence[Section]
    facts: Sequence[Mapping[str, object]]
    incidents: Sequence[int]
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """
    Lay out the messages of one machine.

    Args:
        hostname: its first part is used in subjects.
        page_url: of the page, without a slash at the end; findings link to it. Empty: there is none.
        list_all: how to see what a message leaves out.
    """

    hostname: str
    page_url: str = ""
    list_all: str = ""

    def write(self, draft: MailDraft, token: str, now: int) -> Message:
        """Return the message. ``token``: the unique part of its Message-ID."""
        host = printable(self.hostname.partition(".")[0])
        shown = list(_shorten(draft.sections, self.list_all or program.command("findings")))
        heading = ": ".join(part for part in (host, draft.notice, draft.subject) if part)
        subject = _cut(f"[integrity] {heading}", 250)
        return Message(
            kind=draft.kind,
            message_id=f"<{token}@{_domain(self.hostname)}>",
            subject=subject,
            body=_write_text(heading, draft.opening, shown, self.page_url),
            html=_write_html(heading, draft.opening, shown, self.page_url),
            facts=self._write_facts(draft, subject, now),
            incidents=tuple(draft.incidents[:MOST_FACTS]),
            created_at=now,
        )

    def _write_facts(self, draft: MailDraft, subject: str, now: int) -> str:
        facts = {
            "type": "alert",
            "schema": 1,
            "kind": draft.kind.value,
            "host": self.hostname,
            "subject": subject,
            "created_at": iso_utc(now),
            "findings_count": len(draft.incidents),
            "findings": draft.facts[:MOST_FACTS],
        }
        return json.dumps(facts, separators=(",", ":"))


def _shorten(sections: Sequence[Section], list_all: str) -> Iterator[Section]:
    """Show the first entries in full and the next ones as a line each; append the number of omitted findings."""
    room, shown = MOST_LINES - _SPARE_LINES, 0
    for section in sections:
        entries: list[MailEntry] = []
        for entry in section.entries:
            brief = entry if shown < _DETAILED else MailEntry(entry.head, entry.path, count=entry.count)
            lines = len(_text_lines(brief, _ANY_PAGE))
            if lines > room:
                break
            room -= lines
            shown += 1
            entries.append(brief)
        left_out = sum(entry.count for entry in section.entries[len(entries) :]) + section.more
        if left_out:
            entries.append(MailEntry(f"and {left_out:,} more: {list_all}"))
        if entries:
            yield Section(section.title, tuple(entries))


def _find_link(entry: MailEntry, page_url: str) -> str:
    """Return the URL of an entry's finding; empty if there is no page."""
    return f"{page_url}/findings/{entry.number}" if page_url and entry.number else ""


def _text_lines(entry: MailEntry, page_url: str) -> list[str]:
    head = f"{entry.head}  {entry.path}" if entry.path else entry.head
    details = [f"    {detail}" for detail in entry.details]
    command = [f"    next:  {entry.command}"] if entry.command else []
    others = [f"    {other}" for other in entry.others]
    link = [f"    page:  {url}"] if (url := _find_link(entry, page_url)) else []
    return [_cut(line, _MOST_CHARS) for line in (head, *details, *command, *others, *link)]


def _write_text(heading: str, opening: Sequence[str], sections: Sequence[Section], page_url: str) -> str:
    lines = [_cut(heading, _MOST_CHARS), "", *(_cut(line, _MOST_CHARS) for line in opening)]
    for section in sections:
        lines += ["", *([f"{section.title}:"] if section.title else [])]
        for entry in section.entries:
            lines += _text_lines(entry, page_url)
    return "\n".join(lines) + "\n"


def _write_html(heading: str, opening: Sequence[str], sections: Sequence[Section], page_url: str) -> str:
    parts = [f"<h3>{_safe(heading)}</h3>", f"<p>{'<br>'.join(map(_safe, opening))}</p>"]
    for section in sections:
        parts += [f"<h4>{_safe(section.title)}</h4>"] if section.title else []
        parts += ["<ul>", *(_write_item(entry, page_url) for entry in section.entries), "</ul>"]
    return _HTML.format(title=_safe(heading), body="\n".join(parts))


def _write_item(entry: MailEntry, page_url: str) -> str:
    lines = [f"<b>{_safe(entry.head)}</b>" + (f" <code>{_safe(entry.path)}</code>" if entry.path else "")]
    lines += [_safe(detail) for detail in entry.details]
    lines += [f"next: <code>{_safe(entry.command)}</code>"] if entry.command else []
    lines += [_safe(other) for other in entry.others]
    if url := _find_link(entry, page_url):
        lines.append(f'<a href="{_safe(url)}">see it on the page</a>')
    return f"<li>{'<br>'.join(lines)}</li>"


def _safe(text: str) -> str:
    return escape(_cut(text, _MOST_CHARS))


def iso_utc(seconds: int) -> str:
    """Write a time: UTC, ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def _domain(hostname: str) -> str:
    """Return a host name without the characters that a Message-ID can't contain."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", hostname).strip(".-") or "localhost"
