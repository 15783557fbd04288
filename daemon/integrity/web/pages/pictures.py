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
from starlette.routing import Route

from integrity.errors import AppError, CatalogError, printable
from integrity.jobs.byte_pattern import Side
from integrity.jobs.picture import choose_copy
from integrity.jobs.picture_type import CONTENT_TYPES, Picture, is_named_picture
from integrity.service.control.client import find_daemon_of
from integrity.service.control.requests import AskPicture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from integrity.jobs.explain import FileStory
    from integrity.model import Finding
    from integrity.web.site import Site

_LOOK_S = 2.0
_PATIENCE_S = 60.0
_HEADERS = {"Content-Security-Policy": "default-src 'none'; sandbox", "Content-Disposition": "inline"}
_NO_SERVICE = "the service does not run, and only it can read them; start it: systemctl start integrity"


class PicturePair(NamedTuple):
    """
    What a finding's page shows of both sides.

    Attributes:
        copy: name of the copy.
        why_not: why there are no pictures; empty: there are.
    """

    copy: str
    why_not: str = ""


class PicturePages:
    """
    Serves the pictures, and says where there are some.

    Args:
        site: shared by all pages.
    """

    def __init__(self, site: Site) -> None:
        self._site = site
        self._limiter = CapacityLimiter(1)

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (Route("/findings/{finding_id:number}/pictures/{side}", self.show_side, methods=["GET"]),)

    def find_pair(self, finding: Finding, story: FileStory | None) -> PicturePair | None:
        """Return what to show of both sides of a finding; None if they are no pictures, or it has no two sides."""
        copy = None if story is None else choose_copy(finding, story)
        if copy is None or not finding.path:
            return None
        is_named = is_named_picture(finding.path)
        try:
            found = self._ask(AskPicture(finding.id, Side.FILE, has_data=False), _LOOK_S)
        except AppError as error:
            return PicturePair(copy.name, printable(str(error))) if is_named else None
        return PicturePair(copy.name) if found.content_type or is_named else None

    async def show_side(self, request: Request) -> Response:
        """Serve one side of a finding, if it is a picture."""
        side = request.path_params["side"]
        if request.method != "GET" or side not in Side.__members__.values():
            raise HTTPException(404)
        question = AskPicture(request.path_params["finding_id"], Side(side), has_data=True)
        if question.finding < 1:
            raise HTTPException(404)
        async with self._limiter:
            try:
                found = await anyio.to_thread.run_sync(self._ask, question, _PATIENCE_S)
            except AppError as error:
                raise HTTPException(404, printable(str(error))) from error
        if found.content_type not in CONTENT_TYPES or not found.data:
            raise HTTPException(404, "This is no picture.")
        return Response(found.data, media_type=found.content_type, headers=_HEADERS)

    def _ask(self, question: AskPicture, patience_s: float) -> Picture:
        daemon = find_daemon_of(self._site.catalog_path, patience_s=min(patience_s, _LOOK_S))
        if daemon is None:
            raise CatalogError(_NO_SERVICE)
        with daemon:
            return daemon.ask_picture(question, patience_s)
