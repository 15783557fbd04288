"""
Answer programs: each page returns one object, an error is an object, and OpenAPI 3.1 describes all of it.

There is no second list of paths: what serves an interface takes the same definitions. Objects are described as far as
these know them: the pages of a list and the objects of ``--json`` have names and no schemas here.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from integrity import __version__
from integrity.errors import AppError, ConfigError
from integrity.web.query import WhichFindings, patient

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from enum import StrEnum

    from starlette.requests import Request

    from integrity.words.text import JsonObject


MOST_ENTRIES = 1000
USUAL_ENTRIES = 100
_NUMBERS = frozenset({"int", "number"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a page. ``schema``: JSON schema of its values."""

    name: str
    description: str
    schema: JsonObject = field(default_factory=lambda: {"type": "string"})

    def describe(self, place: str) -> JsonObject:
        """Return its object; ``place``: ``path`` or ``query``."""
        required = {"required": True} if place == "path" else {}
        return {"name": self.name, "in": place, **required, "schema": self.schema, "description": self.description}


def number_parameter(name: str, description: str) -> Parameter:
    return Parameter(name, description, {"type": "integer", "minimum": 0})


def word_parameter(name: str, description: str, words: type[StrEnum] | Collection[str]) -> Parameter:
    return Parameter(name, description, {"type": "string", "enum": [str(word) for word in words]})


LIMIT = Parameter(
    "limit", "entries on a page", {"type": "integer", "minimum": 1, "maximum": MOST_ENTRIES, "default": USUAL_ENTRIES}
)
BEFORE = number_parameter("before", "only entries with a smaller id: next_before of the page before")
WITH_RESOLVED = word_parameter("state", "open (the default), or all: resolved ones, too", WhichFindings)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPage:
    """
    A page for programs, which returns one object.

    Attributes:
        entries: name of the list in the object that comes in pages; empty: there is none.
        cursor: name of the value that the next page is asked with; null on the last page.
        places: what the parts of its path that vary are, by their names.
    """

    answer: Callable[[Request], JsonObject]
    summary: str
    parameters: tuple[Parameter, ...] = ()
    entries: str = ""
    cursor: str = ""
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonInterface:
    """
    An interface for programs.

    Attributes:
        server: what its paths are relative to.
        errors: statuses with which it is answered.
        unauthorized: when 401 is answered.
    """

    title: str
    description: str
    server: str
    error: JsonObject
    errors: tuple[int, ...] = (400, 404, 503)
    unauthorized: str

    def describe(self, paths: Mapping[str, JsonObject]) -> JsonObject:
        """Return the description. ``paths``: objects of their methods, by path in the notation of Starlette."""
        return {
            "openapi": "3.1.0",
            "info": {"title": self.title, "version": __version__, "description": self.description},
            "servers": [{"url": self.server}],
            "security": [{"token": []}],
            "paths": {re.sub(r"\{(\w+):\w+\}", r"{\1}", path): methods for path, methods in paths.items()},
            "components": {
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
                "responses": {"Error": describe_answer("what is wrong", self.error)},
            },
        }

    def describe_operation(
        self, path: str, summary: str, answer: JsonObject, parameters: Collection[Parameter], places: Mapping[str, str]
    ) -> JsonObject:
        """Return what GET and POST have in common. ``answer``: of status 200, see ``describe_answer``."""
        errors = {str(status): {"$ref": "#/components/responses/Error"} for status in self.errors}
        return {
            "summary": summary,
            "parameters": [
                *(Parameter(name, places[name], schema).describe("path") for name, schema in _find_places(path)),
                *(one.describe("query") for one in parameters),
            ],
            "responses": {"200": answer, "401": {"description": self.unauthorized}, **errors},
        }


PAGE_ERROR: JsonObject = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}


def describe_answer(description: str, schema: JsonObject) -> JsonObject:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _describe_object(page: JsonPage) -> JsonObject:
    if not page.entries:
        return {"type": "object"}
    properties: JsonObject = {page.entries: {"type": "array", "items": {"type": "object"}}}
    if page.cursor:
        properties[page.cursor] = {"type": ["integer", "string", "null"]}
    return {"type": "object", "properties": properties, "required": list(properties)}


def _find_places(path: str) -> list[tuple[str, JsonObject]]:
    """Return the parts of a path that vary, with their schemas."""
    found = re.findall(r"\{(\w+)(?::(\w+))?\}", path)
    return [(name, {"type": "integer" if kind in _NUMBERS else "string"}) for name, kind in found]


_DESCRIPTION = "/openapi.json"


class AsciiJson(JSONResponse):
    """JSON with escapes for all that is not ASCII: texts may hold lone surrogates, which UTF-8 can't."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def mount_json(interface: JsonInterface, pages: Mapping[str, JsonPage]) -> Mount:
    """Return the routes of pages for programs, and of their description; an error is ``{"error": ...}``."""

    def describe(_: Request) -> JsonObject:
        paths: dict[str, JsonObject] = {}
        for path, page in known.items():
            answer = describe_answer(page.summary, _describe_object(page))
            get = interface.describe_operation(path, page.summary, answer, page.parameters, page.places)
            paths[path] = {"get": get}
        return interface.describe(paths)

    known = {**pages, _DESCRIPTION: JsonPage(answer=describe, summary="This description")}
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
