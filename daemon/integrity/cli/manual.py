"""``integrity manual``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.params import PATH
from integrity.cli.session import Session
from integrity.errors import ConfigError, show_path
from integrity.views.manual import find_manual_pages, read_title


@click.command(
    epilog=examples(
        ("integrity manual", "list the pages"),
        ("integrity manual rot", "what bit rot means, and what to do"),
    )
)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option(
    "--man-pages", type=PATH, metavar="FOLDER", help="Write the man pages below FOLDER, such as /usr/local/share/man."
)
@click.pass_context
def manual(context: click.Context, topics: tuple[str, ...], man_pages: bytes | None) -> int:
    """
    Print pages of the manual, such as what a kind of finding means.

    Without TOPIC: the list of pages. Findings name the page that explains them.
    """
    session: Session = context.obj
    if man_pages is not None:
        _write_man_pages(context, man_pages)
        return ExitCode.OK
    pages = find_manual_pages()
    unknown = [topic for topic in topics if topic not in pages]
    if unknown:
        raise ConfigError(
            f"there is no page {unknown[0]}; all pages:  {program.command('manual')}; what owners ask:"
            f"  {program.command('manual faq')}"
        )
    if not topics:
        width = max(map(len, pages))
        for name, page in pages.items():
            session.output.tell(f"{name:<{width}}  {read_title(page)}")
    for topic in topics:
        text = pages[topic].read_text(encoding="utf-8")
        session.output.give("page", {"topic": topic, "text": text})
        for line in _to_plain_text(text):
            session.output.tell(line)
    return ExitCode.OK


def _to_plain_text(text: str) -> Iterator[str]:
    """Yield the lines of a page without what only a browser needs: comments, fences, the targets of links."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    text = re.sub(r"\[([^]]+)\]\((?:[\w./]*/)?index\.md\)", r"\1 (integrity manual)", text)
    text = re.sub(r"\[([^]]+)\]\((?:[\w./]*/)?([\w-]+)\.md(?:#[\w-]+)?\)", r"\1 (integrity manual \2)", text)
    text = re.sub(r"^!\[.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\n{3,}", "\n\n", text)
    is_code = False
    for line in text.rstrip("\n").splitlines():
        if line.startswith("```"):
            is_code = not is_code
        else:
            yield f"    {line}" if is_code and line else line


def _write_man_pages(context: click.Context, folder: bytes) -> None:
    """Write every man page into the folder of its section, which is made if it is missing."""
    from integrity.cli.man_pages import write_man_pages

    top = context.find_root()
    assert isinstance(top.command, click.Group)
    try:
        for name, text in write_man_pages(top.command, top):
            place = os.path.join(folder, os.fsencode(name))
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise ConfigError(f"{show_path(folder)}: can't write the man pages: {error.strerror}") from error
