"""Read what a URL or a form asks for, with every value checked; and answer it in spite of a short lock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial, wraps
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Route

from integrity.errors import CatalogLocked
from integrity.model import FindingId
from integrity.web.security import is_form_valid

if TYPE_CHECKING:
    from starlette.datastructures import FormData
    from starlette.requests import Request


Answer = TypeVar("Answer")
Shared = TypeVar("Shared")
Word = TypeVar("Word", bound=StrEnum)
_LARGEST = (1 << 63) - 1
_LOCKED_S = 1.0
_BETWEEN_S = 0.1


class WhichFindings(StrEnum):
    """Which findings a list has, by their state."""

    OPEN = "open"
    ALL = "all"  # resolved ones, too


class _NumberConvertor(IntegerConvertor):
    """A number in a path, ``{name:number}``: of any length that SQLite stores, which keeps int() from refusing it."""

    regex = "[0-9]{1,18}"


register_url_convertor("number", _NumberConvertor())


def read_at(path: str, page: Callable[[Request], object]) -> Route:
    return Route(path, patient(page), methods=["GET"])


def read_pages(shared: Shared, pages: Mapping[str, Callable[[Shared, Request], object]]) -> list[Route]:
    """Return the routes of pages that only read the catalog. ``shared``: what all of them get."""
    return [read_at(path, partial(page, shared)) for path, page in pages.items()]


def patient(page: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """Make a page again for up to a second if the catalog is locked, which commands do for moments."""

    @wraps(page)
    def make(request: Request) -> Answer:
        ends_at = time.monotonic() + _LOCKED_S
        while True:
            try:
                return page(request)
            except CatalogLocked:
                if time.monotonic() >= ends_at:
                    raise
            time.sleep(_BETWEEN_S)

    return make


def read_number(request: Request, name: str) -> int | None:
    """Return a number of the query; None if it is not asked for."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or int(text[:20]) > _LARGEST or len(text) > 20:
        raise HTTPException(400, f"{name}: must be a whole number.")
    return int(text)


def read_bytes(request: Request, name: str) -> bytes:
    """Return the bytes of a name in the query, which need not be UTF-8; empty if it is not asked for."""
    query = request.scope["query_string"].decode("ascii", "surrogateescape")
    return os.fsencode(dict(parse_qsl(query, errors="surrogateescape")).get(name, ""))


def read_word(request: Request, name: str, kind: type[Word]) -> Word | None:
    """Return a word of the query; None if it is not asked for."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        raise HTTPException(400, f"{name}: must be one of {', '.join(kind)}.") from None


def includes_resolved(request: Request, name: str = "state") -> bool:
    return read_word(request, name, WhichFindings) is WhichFindings.ALL


def has_nul(request: Request) -> bool:
    """Return whether a URL has a NUL: no name of a file has one, and databases and libraries can't take it."""
    return "\0" in request.scope["path"] or b"\0" in unquote_to_bytes(request.scope["query_string"])


def read_limit(request: Request, *, usual: int, most: int) -> int:
    wanted = read_number(request, "limit")
    return usual if wanted is None else max(1, min(most, wanted))


def read_raw_path(request: Request, prefix: str) -> bytes:
    """Return what stands behind a prefix of the URL, as bytes: names of files need not be UTF-8."""
    raw = bytes(request.scope["raw_path"]).partition(b"?")[0]
    return unquote_to_bytes(raw.removeprefix(prefix.encode())).strip(b"/")


PAGE_OWNER = "owner, on the page"
"""Who did something with a form, for the history: there is one password."""

MOST_DAYS = 366


async def read_form(request: Request) -> FormData:
    """Return the form of a request; 403 if it does not carry the token of its session."""
    form = await request.form()
    if not is_form_valid(request.scope["state"]["session"], form.get("csrf")):
        raise HTTPException(403, "Your log-in has changed since this form was shown. Load the page again.")
    return form


def read_finding_id(form: FormData) -> FindingId:
    """Return the number of the finding that a form is about; 400 if there is none."""
    text = str(form.get("id", ""))
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise HTTPException(400, "id: must be the number of a finding.")
    return FindingId(int(text))


def read_days(form: FormData) -> int:
    """Return for how many days a finding is to be muted; 400 if it is no such number."""
    text = str(form.get("days", ""))
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= MOST_DAYS:
        raise HTTPException(400, f"days: must be a whole number from 1 to {MOST_DAYS}.")
    return int(text)


def find_address(request: Request) -> str:
    return request.client.host if request.client else ""
