"""Answer programs below ``/api/v1``: each page returns one object, and an error is an object, too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from integrity.errors import AppError, ConfigError
from integrity.web.openapi import JsonInterface, JsonPage, describe_pages
from integrity.web.query import patient

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from integrity.words.text import JsonObject

_DESCRIPTION = "/openapi.json"


class AsciiJson(JSONResponse):
    """JSON with escapes for all that is not ASCII: texts may hold lone surrogates, which UTF-8 can't."""

    def render(self, content: object) -> bytes:
        """Write the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def mount_json(interface: JsonInterface, pages: Mapping[str, JsonPage]) -> Mount:
    """
    Return the routes of pages for programs, and of their description; an error is ``{"error": ...}``.

    Args:
        interface: what is common to them.
        pages: by their path.
    """
    described = JsonPage(answer=lambda _: describe_pages(interface, known), summary="This description")
    known = {**pages, _DESCRIPTION: described}
    routes = [Route(path, _answer(page.answer), methods=["GET"]) for path, page in known.items()]
    return Mount(interface.server, routes=routes)


def _answer(page: Callable[[Request], JsonObject]) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            return AsciiJson(patient(page)(request))
        except HTTPException as error:
            return JSONResponse({"error": error.detail}, error.status_code)
        except ConfigError as error:
            return JSONResponse({"error": str(error)}, 404)
        except AppError as error:
            return JSONResponse({"error": str(error)}, 503)

    return answer
