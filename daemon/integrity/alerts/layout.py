"""
Lay out messages: the same cards as plain text, HTML and JSON.

What a card says is decided elsewhere: by ``compose`` for the findings of one machine, and by the hub for its own.

I1  No message is longer than 200 lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from integrity.catalog.outbox import AlertKind, Message
from integrity.errors import printable
from integrity.words.card import Card, cut, safe, write_html, write_mail
from integrity.words.text import iso_time

MOST_ENTRIES = 200
MOST_LINES = MOST_ENTRIES
MOST_FACTS = 200
"""Findings that the JSON of a message lists."""

_SPARE_LINES = 20  # heading, opening, blank lines between the sections, the count of omitted entries, the last line
_DETAILED = 20
_ANY_PAGE = "https://page.example"
"""Stands for the page where only the number of lines matters."""

_HTML = """<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>{title}</title></head>
<body style="font-family: sans-serif">
{body}
</body></html>
"""


@dataclass(frozen=True, slots=True)
class Section:
    """Entries under a title. An empty title is not printed."""

    title: str
    entries: tuple[Card, ...]
    more: int = 0  # findings beyond MOST_ENTRIES


@dataclass(frozen=True, slots=True, kw_only=True)
class MailDraft:
    """
    A message before it is laid out.

    Args:
        hostname: of the machine; its first part is used in the subject.
        page_url: of the page, without a slash at the end; findings link to it. Empty: there is none.
        list_all: how to see what the message leaves out.
        subject: without the name of the host.
        notice: stands before the subject, such as "this is a drill".
    """

    hostname: str
    page_url: str
    list_all: str
    kind: AlertKind
    subject: str
    opening: Sequence[str]
    sections: Sequence[Section]
    facts: Sequence[Mapping[str, object]]
    incidents: Sequence[int]
    notice: str = ""


def write_message(draft: MailDraft, token: str, now: int) -> Message:
    """Lay out a message. ``token``: the unique part of its Message-ID."""
    host = printable(draft.hostname.partition(".")[0])
    shown = list(_shorten(draft.sections, draft.list_all))
    heading = ": ".join(part for part in (host, draft.notice, draft.subject) if part)
    subject = cut(f"[integrity] {heading}", 250)
    facts = {
        "type": "alert",
        "schema": 1,
        "kind": draft.kind.value,
        "host": draft.hostname,
        "subject": subject,
        "created_at": iso_time(now),
        "findings_count": len(draft.incidents),
        "findings": draft.facts[:MOST_FACTS],
    }
    # A Message-ID can't contain all that a host name can.
    domain = re.sub(r"[^A-Za-z0-9.-]", "-", draft.hostname).strip(".-") or "localhost"
    return Message(
        kind=draft.kind,
        message_id=f"<{token}@{domain}>",
        subject=subject,
        body=_write_text(heading, draft.opening, shown, draft.page_url),
        html=_write_html(heading, draft.opening, shown, draft.page_url),
        facts=json.dumps(facts, separators=(",", ":")),
        incidents=tuple(draft.incidents[:MOST_FACTS]),
        created_at=now,
    )


def _shorten(sections: Sequence[Section], list_all: str) -> Iterator[Section]:
    """Show the first entries in full and the next ones as a line each; append the number of omitted findings."""
    room, shown = MOST_LINES - _SPARE_LINES, 0
    for section in sections:
        entries: list[Card] = []
        for entry in section.entries:
            brief = entry if shown < _DETAILED else Card(entry.title, entry.place, findings=entry.findings)
            lines = len(write_mail(brief, _ANY_PAGE))
            if lines > room:
                break
            room -= lines
            shown += 1
            entries.append(brief)
        left_out = sum(entry.findings for entry in section.entries[len(entries) :]) + section.more
        if left_out:
            entries.append(Card(f"and {left_out:,} more: {list_all}"))
        if entries:
            yield Section(section.title, tuple(entries))


def _write_text(heading: str, opening: Sequence[str], sections: Sequence[Section], page_url: str) -> str:
    lines = [cut(heading), "", *(cut(line) for line in opening)]
    for section in sections:
        lines += ["", *([f"{section.title}:"] if section.title else [])]
        for entry in section.entries:
            lines += write_mail(entry, page_url)
    return "\n".join(lines) + "\n"


def _write_html(heading: str, opening: Sequence[str], sections: Sequence[Section], page_url: str) -> str:
    parts = [f"<h3>{safe(heading)}</h3>", f"<p>{'<br>'.join(map(safe, opening))}</p>"]
    for section in sections:
        parts += [f"<h4>{safe(section.title)}</h4>"] if section.title else []
        parts += ["<ul>", *(write_html(entry, page_url) for entry in section.entries), "</ul>"]
    return _HTML.format(title=safe(heading), body="\n".join(parts))
