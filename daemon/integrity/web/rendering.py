"""
Make pages from templates: what the page of a box and the pages of a hub have in common.

A template is looked for in each package in turn, so a package adds templates of its own to those of ``integrity.web``.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from integrity import __version__
from integrity.web.filters import FILTERS

if TYPE_CHECKING:
    from starlette.requests import Request

    from integrity.web.security import BrowserSession


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

    def refuse_form(self, request: Request) -> HTMLResponse:
        return self.render_error(
            request, 403, "This form is too old", "Your log-in has changed since. Load the page again, and repeat it."
        )
