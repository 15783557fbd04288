"""Read what a URL asks for: numbers, words, and the raw bytes of a path."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.requests import Request

Word = TypeVar("Word", bound=StrEnum)
_LARGEST = (1 << 63) - 1


def read_number(request: Request, name: str) -> int | None:
    """Return a number of the query; None if it is not asked for."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or int(text[:20]) > _LARGEST or len(text) > 20:
        raise HTTPException(400, f"{name}: must be a whole number.")
    return int(text)


def read_word(request: Request, name: str, kind: type[Word]) -> Word | None:
    """Return a word of the query; None if it is not asked for."""
    text = request.query_params.get(name, "")
    if not text:
        return None
    try:
        return kind(text)
    except ValueError:
        raise HTTPException(400, f"{name}: must be one of {', '.join(kind)}.") from None


def read_limit(request: Request, *, usual: int, most: int) -> int:
    """Return how many entries a page is to have."""
    wanted = read_number(request, "limit")
    return usual if wanted is None else max(1, min(most, wanted))


def read_raw_path(request: Request, prefix: str) -> bytes:
    """Return what stands behind a prefix of the URL, as bytes: names of files need not be UTF-8."""
    raw = bytes(request.scope["raw_path"]).partition(b"?")[0]
    path = unquote_to_bytes(raw.removeprefix(prefix.encode())).strip(b"/")
    if b"\0" in path:
        raise HTTPException(404)
    return path
