"""
Both sides of a finding as pictures, beside each other.

I1  The page reads no file: the service does, for a side of an open finding that the catalog has. A URL names no path.
I2  What is served has a type of a fixed list, is not sniffed, stored or run, and only a session gets it.
I3  One picture at a time is in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import anyio
from anyio import CapacityLimiter
from starlette.exceptions import HTTPException
from starlette.responses import Response

from integrity.errors import AppError, CatalogError, printable
from integrity.jobs.byte_pattern import Side
from integrity.jobs.picture import MOST_PICTURE_BYTES, choose_copy
from integrity.jobs.picture_type import CONTENT_TYPES, Picture, is_named_picture
from integrity.service.control.requests import AskPicture
from integrity.service.control.socket import find_daemon_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from integrity.jobs.explain import FileStory
    from integrity.model import Finding
    from integrity.web.site import Site

_LOOK_S = 2.0
_PATIENCE_S = 60.0
_HEADERS = {"Content-Security-Policy": "default-src 'none'; sandbox", "Content-Disposition": "inline"}
_NO_PICTURE = "its content is no picture"
_NO_SERVICE = "the service does not run, and only it can read them; start it: systemctl start integrity"


class PictureSide(NamedTuple):
    """One side of a finding: whose it is, and the URL of its picture, or why there is none."""

    caption: str
    url: str
    why_not: str = ""


async def show_side(site: Site, limiter: CapacityLimiter, request: Request) -> Response:
    """Serve one side of a finding, if it is a picture."""
    side = request.path_params["side"]
    if request.method != "GET" or side not in Side.__members__.values():
        raise HTTPException(404)
    question = AskPicture(request.path_params["finding_id"], Side(side), has_data=True)
    if question.finding < 1:
        raise HTTPException(404)
    async with limiter:
        try:
            found = await anyio.to_thread.run_sync(_ask, site, question, _PATIENCE_S)
        except AppError as error:
            raise HTTPException(404, printable(str(error))) from error
    if found.content_type not in CONTENT_TYPES or not found.data:
        raise HTTPException(404)
    return Response(found.data, media_type=found.content_type, headers=_HEADERS)


def find_sides(site: Site, finding: Finding, story: FileStory | None) -> list[PictureSide]:
    """Return both sides of a finding; none if it has no two sides, or neither is a picture by content or name."""
    copy = None if story is None else choose_copy(finding, story)
    if copy is None or not finding.path:
        return []
    file = _look(site, finding.id, Side.FILE, "Your file")
    if not file.url and not is_named_picture(finding.path):
        return []
    sides = [file, _look(site, finding.id, Side.COPY, f"The backup in {copy.name}")]
    has_any = any(side.url or side.why_not != _NO_PICTURE for side in sides)
    return sides if has_any else []


def _look(site: Site, number: int, side: Side, caption: str) -> PictureSide:
    try:
        found = _ask(site, AskPicture(number, side, has_data=False), _LOOK_S)
    except AppError as error:
        return PictureSide(caption, "", printable(str(error)))
    if not found.content_type:
        return PictureSide(caption, "", _NO_PICTURE)
    if found.size_bytes > MOST_PICTURE_BYTES:
        return PictureSide(caption, "", f"larger than {MOST_PICTURE_BYTES >> 20} MiB")
    return PictureSide(caption, f"/findings/{number}/pictures/{side}")


def _ask(site: Site, question: AskPicture, patience_s: float) -> Picture:
    daemon = find_daemon_of(site.catalog_path, patience_s=min(patience_s, _LOOK_S))
    if daemon is None:
        raise CatalogError(_NO_SERVICE)
    with daemon:
        return daemon.ask_picture(question, patience_s)
