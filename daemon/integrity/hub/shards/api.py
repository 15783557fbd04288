"""
The calls of workers of shared trees over HTTP: ``/hub/v1/shards/...``, for boxes that were let in already.

Messages are read whole; catalogs are streamed to and from the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from integrity.errors import ProtocolError
from integrity.hub.shards.service import HeldJob, ShardHub, is_digest, read_number
from integrity.jobs.shards.messages import VisitResult, read_message
from integrity.reporting.protocol import JsonObject, decode, decode_lines

if TYPE_CHECKING:
    from starlette.requests import Request

ReadBody = Callable[["Request"], Awaitable[bytes]]
"""Reads the body of a message, within the limits of the API."""

FindBox = Callable[["Request"], Awaitable[int]]
"""Returns the number of the box that a call comes from."""


class ShardApi:
    """
    The routes of workers.

    Args:
        hub: does what they ask.
        find_box: authenticates a call.
        read_body: reads a message.
    """

    def __init__(self, hub: ShardHub, find_box: FindBox, read_body: ReadBody) -> None:
        self._hub = hub
        self._find_box = find_box
        self._read_body = read_body

    def routes(self, prefix: str) -> list[Route]:
        """Return the routes below a prefix."""
        calls = {
            "join": self._message(self._hub.join),
            "take": self._message(self._hub.take),
            "beat": self._message(self._beat),
            "survey": self._message(self._survey),
            "release": self._message(self._release),
            "fetch": self._fetch,
            "store": self._store,
            "finish": self._finish,
        }
        return [Route(f"{prefix}/{name}", call, methods=["POST"]) for name, call in calls.items()]

    def _message(self, act: Callable[[int, JsonObject], JsonObject]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            box_id = await self._find_box(request)
            body = decode(await self._read_body(request))
            return JSONResponse(await run_in_threadpool(act, box_id, body))

        return answer

    def _beat(self, box_id: int, body: JsonObject) -> JsonObject:
        return self._hub.beat(HeldJob.read(box_id, body), read_number(body, "done_bytes"))

    def _survey(self, box_id: int, body: JsonObject) -> JsonObject:
        return self._hub.accept_survey(HeldJob.read(box_id, body), _read_digest(body.get("digest")))

    def _release(self, box_id: int, body: JsonObject) -> JsonObject:
        trouble = body.get("trouble")
        return self._hub.release(HeldJob.read(box_id, body), trouble[:2000] if isinstance(trouble, str) else None)

    async def _fetch(self, request: Request) -> Response:
        box_id = await self._find_box(request)
        call = HeldJob.read(box_id, decode(await self._read_body(request)))
        path = await run_in_threadpool(self._hub.find_catalog, call)
        return FileResponse(path.decode(), media_type="application/octet-stream")

    async def _store(self, request: Request) -> Response:
        """Receive a file into the store. The worker must have the job, or anybody with a token could fill the disk."""
        box_id = await self._find_box(request)
        query = request.query_params
        numbers = {name: int(text) for name in ("worker", "job") if (text := query.get(name, "")).isdecimal()}
        digest = _read_digest(query.get("digest"))
        await run_in_threadpool(self._hub.require_held, HeldJob.read(box_id, dict(numbers)))
        with self._hub.store.receive() as upload:
            async for chunk in request.stream():
                await run_in_threadpool(upload.write, chunk)
            await run_in_threadpool(upload.store, digest)
        return JSONResponse({})

    async def _finish(self, request: Request) -> Response:
        box_id = await self._find_box(request)
        header, *findings = [*decode_lines(await self._read_body(request))] or [{}]
        call, result = HeldJob.read(box_id, header), read_message(VisitResult, header)
        return JSONResponse(await run_in_threadpool(self._hub.finish, call, result, findings))


def _read_digest(value: object) -> str:
    if not isinstance(value, str) or not is_digest(value):
        raise ProtocolError("digest is none: 64 hexadecimal digits")
    return value
