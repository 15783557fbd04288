"""Run a hub: the calls of boxes and the pages on one address, and the jobs, in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from integrity.hub.api import BoxApi
from integrity.hub.box_calls import PREFIX
from integrity.hub.box_checks import BoxLimits
from integrity.hub.duties import make_duties
from integrity.hub.pages.app import make_pages
from integrity.hub.quota import BoxQuota
from integrity.hub.shards.api import ShardApi
from integrity.hub.shards.service import find_shard_duties, make_shard_hub
from integrity.hub.votes import run_vote
from integrity.hub.work import HubWork
from integrity.web.endpoint import find_hub_endpoint
from integrity.web.server import BoundedProtocol, serve

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from integrity.config import Config
    from integrity.hub.database import HubDatabase
    from integrity.web.passwords import PasswordStore


class HubProtocol(BoundedProtocol):
    """The bounds for boxes: they keep their connection from one heartbeat to the next, and have slow lines."""

    idle_s = 900.0
    body_s = 120.0
    most_connections = 4000


class HubApp:
    """
    All that a hub serves.

    Args:
        api: the calls of boxes.
        pages: all other paths.
    """

    def __init__(self, api: ASGIApp, pages: ASGIApp) -> None:
        self._api = api
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. What a box sends never reaches a page, nor the session of a browser a call of a box."""
        is_call = scope["type"] != "http" or scope["path"].startswith(PREFIX + "/")
        await (self._api if is_call else self._pages)(scope, receive, send)


def run_hub(
    config: Config,
    database: HubDatabase,
    passwords: PasswordStore,
    token: str,
    folder: bytes,
    *,
    ready: Callable[[], None],
) -> None:
    """
    Run a hub until SIGINT or SIGTERM.

    Args:
        token: bearer token of programs that read the pages; empty: none.
        folder: where the hub keeps files, unless the configuration says otherwise.
        ready: called once boxes can report.

    Raises:
        ConfigError: the address can't be used, or is not safe.
    """
    settings = config.hub_server
    endpoint = find_hub_endpoint(settings)
    endpoint.check_exposure()
    shards = make_shard_hub(settings, database, folder)
    limits = BoxLimits(settings.silent_after_s, settings.box_limit_bytes)
    duties = make_duties(config, limits=limits, page_url=settings.public_url)
    work = HubWork(database, run_vote, [*duties, *find_shard_duties(shards)])
    quota = BoxQuota(database, settings.box_limit_bytes)
    api = BoxApi(database, work, quota)
    pages = make_pages(config, database, passwords, token, work.parts.find_failing)
    app = HubApp(api.make_app(ShardApi(shards, api.guard, quota).routes()), pages)
    serve(app, endpoint, protocol=HubProtocol, background=work.run, ready=ready)
