"""
The manual that the package has with it: the list of its pages, and each page as HTML.

I1  Markup of a page that is not Markdown is shown as text: nothing in it runs or loads anything.
I2  A link leads to a page of the manual or to another site. One to a file that only the sources have becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urldefrag

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.responses import Response

from integrity.model import FindingKind
from integrity.views.manual import find_manual_pages, read_title

if TYPE_CHECKING:
    from starlette.requests import Request

    from integrity.web.rendering import Renderer


_FOR_OTHERS = re.compile(r"<!--.*?-->\n?|^```\{toctree\}.*?^```\n", re.DOTALL | re.MULTILINE)
"""What only tests and the generator of the site read."""

_INDEX = "index"
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


def write_manual_page(text: str, names: Collection[str]) -> Markup:
    """Return a page as HTML. ``names``: of all pages; links to them become links below ``/manual``."""
    tokens = _MARKDOWN.parse(_FOR_OTHERS.sub("", text))
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            anchor = re.sub(r"[^\w\- ]", "", following.content.lower())  # as code forges make it
            token.attrSet("id", anchor.replace(" ", "-"))
        if token.children:
            token.children = _point_links(token.children, names)
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    html = html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")
    # Markup is safe by I1: the renderer escapes all text.
    return Markup(html.replace("<pre>", '<pre tabindex="0">'))  # noqa: S704


def _point_links(tokens: Sequence[Token], names: Collection[str]) -> list[Token]:
    """Return the tokens of a line with links that lead somewhere here (I2)."""
    pointed, is_text = [], False
    for token in tokens:
        if token.type == "link_open":
            place = _find_place(str(token.attrGet("href")), names)
            is_text = place is None
            token.attrSet("href", place or "")
        if not (is_text and token.type in ("link_open", "link_close")):
            pointed.append(token)
    return pointed


def _find_place(link: str, names: Collection[str]) -> str | None:
    """Return where a link leads on this page; None if to nothing that is served."""
    if "://" in link or link.startswith("#"):
        return link
    target, anchor = urldefrag(link)
    name = target.rpartition("/")[2].removesuffix(".md")
    place = "/manual" if name == _INDEX else f"/manual/{name}" if name in names and target.endswith(".md") else None
    return place and (f"{place}#{anchor}" if anchor and name != _INDEX else place)


def show_manual(site: Renderer, request: Request) -> Response:
    titles = {name: read_title(page) for name, page in find_manual_pages().items()}
    return site.render(
        request,
        "manual_list.html",
        title="Manual",
        guides={name: title for name, title in titles.items() if name not in list(FindingKind)},
        kinds={name: title for name, title in titles.items() if name in list(FindingKind)},
    )


def show_manual_page(site: Renderer, request: Request) -> Response:
    pages = find_manual_pages()
    page = pages.get(request.path_params["name"])
    if page is None:
        raise HTTPException(404)
    body = write_manual_page(page.read_text(encoding="utf-8"), pages)
    return site.render(request, "manual.html", title=read_title(page), body=body)


MANUAL_PAGES = {"/manual": show_manual, "/manual/{name}": show_manual_page}
