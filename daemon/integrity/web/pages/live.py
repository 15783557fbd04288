"""``/live``: what runs now, sent to open pages as it changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from integrity.views.service import find_idleness

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from integrity.web.security import BrowserSession, Sessions
    from integrity.web.site import Site

_LOOK_S = 2.0


class LivePages:
    """
    Sends what runs now. All viewers share one question to the service each two seconds (``Site.find_live``).

    Args:
        sessions: end the stream of a viewer whose session has ended.
    """

    def __init__(self, site: Site, sessions: Sessions) -> None:
        self._site = site
        self._sessions = sessions

    async def send(self, request: Request) -> Response:
        """Send what runs now until the viewer goes, or the session ends."""
        return EventSourceResponse(self._events(request.scope["state"]["session"]), ping=30)

    async def _events(self, session: BrowserSession) -> AsyncIterator[ServerSentEvent]:
        template, said = self._site.templates.get_template("now.html"), ""
        while self._sessions.holds(session):
            live = await run_in_threadpool(self._site.find_live)
            text = template.render(live=live, idleness=find_idleness(live))
            if text != said:
                said = text
                yield ServerSentEvent(text, event="state")
            await asyncio.sleep(_LOOK_S)
