"""The manual that the package has with it: the list of its pages, and each page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from integrity.model import FindingKind
from integrity.views.manual import find_manual_pages, read_title
from integrity.web.manual_html import write_manual_page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from integrity.web.rendering import Renderer


class ManualPages:
    """The pages of the manual, read-only."""

    def __init__(self, site: Renderer) -> None:
        self._site = site
        self._pages = find_manual_pages()

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (
            Route("/manual", self.show_list, methods=["GET"]),
            Route("/manual/{name}", self.show_page, methods=["GET"]),
        )

    def show_list(self, request: Request) -> Response:
        """Show the titles: guides, then what is found."""
        titles = {name: read_title(page) for name, page in self._pages.items()}
        return self._site.render(
            request,
            "manual_list.html",
            title="Manual",
            guides={name: title for name, title in titles.items() if name not in list(FindingKind)},
            kinds={name: title for name, title in titles.items() if name in list(FindingKind)},
        )

    def show_page(self, request: Request) -> Response:
        """Show one page."""
        page = self._pages.get(request.path_params["name"])
        if page is None:
            raise HTTPException(404)
        body = write_manual_page(page.read_text(encoding="utf-8"), self._pages)
        return self._site.render(request, "manual.html", title=read_title(page), body=body)
