"""
A card: what is said of one subject, and how it is written.

Whoever makes a card decides what is said; here stands how it looks on a terminal, in a mail, and as HTML. Pages write
cards with templates of their own, and programs get ``facts``.

I1  No name is trusted: each is put on one line with special characters escaped, and is escaped again for HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from integrity.errors import printable
from integrity.kinds import NextStep
from integrity.words.text import Styler

_MOST_CHARS = 2000  # per line: a path can have 4,096 bytes, each escaped to up to four characters


Row = tuple[str, str]
"""What is known of one aspect of a subject: a label, and lines of text; without a label they stand alone."""


class Card(NamedTuple):
    """
    What is said of one subject.

    Attributes:
        title: what it is.
        place: where, on one line; empty: the title says it.
        lines: what is known of it.
        steps: what to do, best first; one without words is no more than a command.
        facts: its object for programs.
        label: what a finding is called by, such as "finding 12"; empty: it is another subject's.
        manual: the command that prints the manual's page about it.
        is_problem: something is wrong; else something could not be checked.
        findings: how many it is about.
        number: of the finding, if a page has more about it; 0: none has.
        rows: what is known, by aspects, of a subject that has many.
    """

    title: str
    place: str = ""
    lines: tuple[str, ...] = ()
    steps: tuple[NextStep, ...] = ()
    facts: Mapping[str, object] = {}
    label: str = ""
    manual: str = ""
    is_problem: bool = False
    findings: int = 1
    number: int = 0
    rows: tuple[Row, ...] = ()


def write_terminal(card: Card, styler: Styler) -> Iterator[str]:
    """Write a card for a terminal: what, where, why it is thought so, all that can be done."""
    if card.label:
        yield f"{styler.style(card.title, 'red' if card.is_problem else 'yellow')}  {card.place}  [{card.label}]"
    else:
        yield f"{card.title}  {card.place}" if card.place else card.title
    yield from (f"    {line}" for line in card.lines)
    yield from write_rows(card.rows)
    for step in (*card.steps, *([NextStep("more about this", card.manual)] if card.manual else [])):
        yield f"    - {step.words}" + (f":  {step.command}" if step.command else "")


def write_rows(rows: Iterable[Row], width: int = 10) -> Iterator[str]:
    """Write rows in two columns. ``width``: of the labels."""
    for label, text in rows:
        for number, line in enumerate(text.split("\n")):
            yield f"  {'' if number else label:<{width}} {line}" if label else f"  {line}"


def write_mail(card: Card, page_url: str) -> list[str]:
    """Write a card as lines of a mail. ``page_url``: of the page, without a slash at its end; empty: there is none."""
    details, command, others, url = _split(card, page_url)
    lines = [f"{card.title}  {card.place}" if card.place else card.title, *(f"    {line}" for line in details)]
    lines += [f"    next:  {command}"] if command else []
    lines += [f"    {other}" for other in others]
    lines += [f"    page:  {url}"] if url else []
    return [cut(line) for line in lines]


def write_html(card: Card, page_url: str) -> str:
    """Write a card as an entry of a list in HTML."""
    details, command, others, url = _split(card, page_url)
    lines = [f"<b>{safe(card.title)}</b>" + (f" <code>{safe(card.place)}</code>" if card.place else "")]
    lines += map(safe, details)
    lines += [f"next: <code>{safe(command)}</code>"] if command else []
    lines += map(safe, others)
    lines += [f'<a href="{safe(url)}">see it on the page</a>'] if url else []
    return f"<li>{'<br>'.join(lines)}</li>"


def _split(card: Card, page_url: str) -> tuple[list[str], str, list[str], str]:
    """Return what is known with what the first command is for, this command, the other steps, and the URL of a page."""
    details = [*card.lines, *(printable(step.words) for step in card.steps[:1] if step.words)]
    command = printable(card.steps[0].command or "") if card.steps else ""
    others = [printable(f"{step.words}:  {step.command}") for step in card.steps[1:]]
    return details, command, others, f"{page_url}/findings/{card.number}" if page_url and card.number else ""


def safe(text: str) -> str:
    from html import escape  # here, for it knows all of HTML's names, and `status` writes none

    return escape(cut(text))


def cut(text: str, length: int = _MOST_CHARS) -> str:
    """Cut what is too long for a line."""
    return text if len(text) <= length else text[: length - 3] + "..."
