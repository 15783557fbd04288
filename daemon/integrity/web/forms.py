"""Read what forms send: nothing is done without the token of the session, and every value is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException

from integrity.web.security import is_form_valid

if TYPE_CHECKING:
    from starlette.datastructures import FormData
    from starlette.requests import Request

PAGE_OWNER = "owner, on the page"
"""Who did something with a form, for the history: there is one password."""

MOST_DAYS = 366


async def read_form(request: Request) -> FormData:
    """
    Return the form of a request.

    Raises:
        HTTPException: 403, it does not carry the token of its session.
    """
    form = await request.form()
    if not is_form_valid(request.scope["state"]["session"], form.get("csrf")):
        raise HTTPException(403, "Your log-in has changed since this form was shown. Load the page again.")
    return form


def read_finding_id(form: FormData) -> int:
    """
    Return the number of the finding that a form is about.

    Raises:
        HTTPException: 400, there is none.
    """
    text = str(form.get("id", ""))
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise HTTPException(400, "id: must be the number of a finding.")
    return int(text)


def read_days(form: FormData) -> int:
    """
    Return for how many days a finding is to be muted.

    Raises:
        HTTPException: 400, it is no such number.
    """
    text = str(form.get("days", ""))
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:9]) <= MOST_DAYS:
        raise HTTPException(400, f"days: must be a whole number from 1 to {MOST_DAYS}.")
    return int(text)


def find_address(request: Request) -> str:
    """Return the address that a request came from, for the history."""
    return request.client.host if request.client else ""
