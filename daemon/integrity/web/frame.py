"""What surrounds the pages of a box and those of a hub: static files, the guard, and pages for errors."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from integrity.errors import AppError, ConfigError, printable
from integrity.web.query import has_nul
from integrity.web.security import BodyTooLarge, Guard, GuardAdvice, Sessions

if TYPE_CHECKING:
    from starlette.routing import BaseRoute
    from starlette.types import ASGIApp, Receive, Scope, Send

    from integrity.web.rendering import Renderer

_log = logging.getLogger(__name__)

_LOGGED = 200
"""Characters of a path that the log gets."""

_TITLES = {
    400: "This can't be understood",
    403: "This was not done",
    404: "There is no such page",
    405: "This page does not take that",
    413: "The request is too large",
}


class Troubles(NamedTuple):
    """Titles of the page for an error of the program: by its class, and for all others."""

    titles: Mapping[type[AppError], str]
    otherwise: str


def put_together(
    renderer: Renderer,
    routes: Iterable[BaseRoute],
    troubles: Troubles,
    *,
    sessions: Sessions,
    hosts: Collection[str],
    advice: GuardAdvice,
    token: str,
    is_secure: bool,
) -> ASGIApp:
    """
    Return the application.

    Args:
        hosts: names under which browsers may ask for the pages, in lower case.
        token: bearer token of ``/metrics`` and ``/api``; empty: none.
    """
    static = Mount("/static", StaticFiles(directory=str(resources.files("integrity.web") / "static")))
    errors = _Errors(renderer, troubles)
    app = Starlette(
        routes=[static, *routes],
        exception_handlers={
            HTTPException: errors.show_http,
            BodyTooLarge: errors.show_too_large,
            # A client has gone, or was cut off, before its request was complete.
            ClientDisconnect: lambda _, __: Response(status_code=400),
            AppError: errors.show_known,
            Exception: errors.show_bug,
        },
    )
    checked = _RefusingNul(app, errors)
    return Guard(checked, hosts=hosts, sessions=sessions, advice=advice, token=token, is_secure=is_secure)


class _Errors:
    """The pages for what goes wrong."""

    def __init__(self, renderer: Renderer, troubles: Troubles) -> None:
        self._renderer = renderer
        self._troubles = troubles

    async def show_http(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if request.scope["path"].startswith("/api/"):
            return JSONResponse({"error": error.detail}, error.status_code, error.headers)
        title = _TITLES.get(error.status_code, "This did not work")
        text = error.detail if error.status_code in (400, 403) else "Go back, or begin at the overview."
        response = self._renderer.render_error(request, error.status_code, title, text)
        response.headers.update(error.headers or {})
        return response

    async def show_too_large(self, request: Request, _: Exception) -> Response:
        response = self._renderer.render_error(request, 413, _TITLES[413], "Nothing was done.")
        response.headers["Connection"] = "close"  # or else the server would read all that is still to come
        return response

    async def show_known(self, request: Request, error: Exception) -> Response:
        if isinstance(error, ConfigError):
            return self._renderer.render_error(request, 404, "Not known", printable(str(error)))
        found = (text for kind, text in self._troubles.titles.items() if isinstance(error, kind))
        title = next(found, self._troubles.otherwise)
        return self._renderer.render_error(request, 503, title, printable(str(error)))

    async def show_bug(self, request: Request, error: Exception) -> Response:
        """Show that the page has a bug; the log has the details, the browser has none."""
        _log.error("a bug in the page %s", printable(request.scope["path"][:_LOGGED]), exc_info=error)
        return self._renderer.render_error(
            request, 500, "A bug in this page", "The log has details. Nothing was changed."
        )


class _RefusingNul:
    """ASGI middleware that refuses a NUL in a URL: for pages, static files, and what programs ask for."""

    def __init__(self, app: ASGIApp, errors: _Errors) -> None:
        self._app = app
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not has_nul(request := Request(scope)):
            await self._app(scope, receive, send)
            return
        refusal = HTTPException(400, "%00: no name has this character. Remove it from the address.")
        response = await self._errors.show_http(request, refusal)
        await response(scope, receive, send)
