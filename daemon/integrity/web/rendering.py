"""
Make pages from templates: what the page of a box and the pages of a hub have in common.

A template is looked for in each package in turn, so a package adds templates of its own to those of ``integrity.web``.
Values are written as the command line writes them.
"""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from integrity import __version__, program
from integrity.errors import printable, show_path
from integrity.kinds import GRAVITY, INTEGRITY_PROBLEMS, KINDS
from integrity.model import ActionVerb
from integrity.paths import absolute, shell_path
from integrity.units import format_duration, format_size
from integrity.words.findings import place, title
from integrity.words.text import count, iso_time, local_time, percent

if TYPE_CHECKING:
    from starlette.requests import Request

    from integrity.web.security import BrowserSession


def ago(seconds: int) -> str:
    age = round(time.time()) - seconds
    return "just now" if 0 <= age < 60 else f"{format_duration(age)} ago" if age > 0 else local_time(seconds)


def quote_path(path: bytes) -> str:
    return quote(path, safe="/")


def split_commands(line: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a printed line: words, and the command of this program that they advise, if any."""
    program_words = program.command()
    for part in line.split(";  "):
        words, is_found, rest = part.partition(f":  {program_words}")
        yield words, f"{program_words}{rest}" if is_found else ""


_FOLDER_ENDS = re.compile(r"(?<=[^\s/'\"=:(]/)")


def break_at_folders(text: str) -> Markup:
    """Let lines break at spaces and behind each folder of a path, not in the middle of a name or option."""
    words = (Markup("<wbr>").join(map(_keep_together, _FOLDER_ENDS.split(word))) for word in text.split(" "))
    return Markup(" ").join(words)


def _keep_together(name: str) -> Markup:
    """Mark a name with hyphens, behind which browsers would break it."""
    return Markup("<bdi>{}</bdi>").format(name) if "-" in name else escape(name)


_DECISIONS = {
    ActionVerb.ACK: "acknowledged",
    ActionVerb.MUTE: "muted",
    ActionVerb.ACCEPT: "accepted",
    ActionVerb.REPAIR: "repair",
    ActionVerb.PAUSE: "paused",
    ActionVerb.RESUME: "resumed",
    ActionVerb.RELEASE: "suspension lifted",
    ActionVerb.REBIND: "moved to another disk or path",
    ActionVerb.FORGET: "forgotten",
    ActionVerb.TEST_ALERT: "test alert",
}

FILTERS: dict[str, Callable[..., Any]] = {
    "action_place": lambda done: absolute(done.root or b"", done.path),
    "ago": ago,
    "breaks": break_at_folders,
    "below": lambda name, folder: os.path.join(folder, name),
    "commands": split_commands,
    "count": count,
    "decision": _DECISIONS.__getitem__,
    "duration": format_duration,
    "gravest_first": lambda counter: sorted(counter.items(), key=lambda item: GRAVITY[item[0]]),
    "gravity": lambda finding: "is-bad" if finding.kind in INTEGRITY_PROBLEMS else "is-warn",
    "headline": lambda kind: KINDS[kind].headline,
    "iso": iso_time,
    "last_part": os.path.basename,
    "moment": local_time,
    "number": lambda number: f"{number:,}",
    "path": show_path,
    "percent": percent,
    "place": place,
    "printable": printable,
    "sentence": lambda words: words[:1].upper() + words[1:],
    "shell": shell_path,
    "size": format_size,
    "title": title,
    "typed": program.spell_command,
    "url": quote_path,
}
"""Filters by name."""


class Renderer:
    """
    Makes pages.

    Args:
        packages: whose templates are used, the first that has one wins.
        places: path and name of each page in the head of all pages.
    """

    def __init__(self, packages: Sequence[str], places: Sequence[tuple[str, str]], unit: str) -> None:
        self.hostname = socket.gethostname()
        self.unit = unit
        self.templates = Environment(
            loader=ChoiceLoader([PackageLoader(package) for package in packages]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.filters |= FILTERS
        self.templates.globals |= {"version": __version__, "host": self.hostname, "places": places, "unit": unit}

    @property
    def has_actions(self) -> bool:
        """Whether pages have the forms by which their readers decide."""
        return False

    def render(self, request: Request, template: str, *, status_code: int = 200, **values: Any) -> HTMLResponse:
        session: BrowserSession | None = request.scope.get("state", {}).get("session")
        page = self.templates.get_template(template).render(
            path=request.scope["path"],
            is_logged_in=session is not None,
            csrf="" if session is None else session.csrf,
            has_actions=session is not None and self.has_actions,
            **values,
        )
        return HTMLResponse(page, status_code)

    def render_error(self, request: Request, status_code: int, title: str, text: str) -> HTMLResponse:
        return self.render(request, "error.html", status_code=status_code, title=title, text=text)
