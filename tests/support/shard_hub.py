"""Serve only the shared trees of a hub: ``python -m support.shard_hub URL STORE PORT FILES LEASE VISIT``."""

from __future__ import annotations

import sys

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from integrity.errors import AppError, HubDatabaseError, ProtocolError
from integrity.hub.boxes import find_by_token
from integrity.hub.database import HubDatabase
from integrity.hub.shards.api import ShardApi
from integrity.hub.shards.service import ShardHub
from integrity.hub.shards.store import ShardStore
from integrity.hub.shards.workers import ShardLimits, ShardRefused
from integrity.jobs.shards.survey import Size
from integrity.web.server import serve


def main() -> None:
    """Serve until killed."""
    url, store_folder, port, files, lease_s, visit_s = sys.argv[1:]
    database = HubDatabase.open(url)
    store = ShardStore(store_folder.encode(), 1 << 30)
    store.prepare()
    hub = ShardHub(database, store, ShardLimits(Size(int(files), 1 << 40), int(lease_s), int(visit_s)))

    def find(token: str) -> int:
        with database.read() as c:
            box = find_by_token(c, token)
        assert box is not None
        return box.id

    async def find_box(request: Request) -> int:
        return await run_in_threadpool(find, request.headers["authorization"].removeprefix("Bearer "))

    api = ShardApi(hub, find_box, Request.body)
    handlers = {ShardRefused: _refuse, ProtocolError: _refuse, HubDatabaseError: _refuse}
    app = Starlette(routes=api.routes("/hub/v1/shards"), exception_handlers=handlers)  # type: ignore[arg-type]
    serve(app, "127.0.0.1", int(port), ready=lambda: print("ready", flush=True))


async def _refuse(_: Request, error: AppError) -> Response:
    status = 409 if isinstance(error, ShardRefused) else 400 if isinstance(error, ProtocolError) else 503
    return JSONResponse({"error": getattr(error, "code", "bad"), "message": str(error)}, status)


if __name__ == "__main__":
    main()
