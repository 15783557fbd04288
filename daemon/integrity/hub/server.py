"""Run a hub: the calls of boxes and the pages on one address, and the jobs, in one process."""

from __future__ import annotations

import gc
import socket
from collections.abc import Callable
from functools import partial

import sqlalchemy as sa
from starlette.types import ASGIApp, Receive, Scope, Send

from integrity.alerts.channels import make_channels
from integrity.config import Config
from integrity.hub.alerts import send_alerts
from integrity.hub.api import PREFIX, BoxApi
from integrity.hub.box_checks import BoxLimits, check_all_boxes
from integrity.hub.database import HubDatabase
from integrity.hub.forgetting import retain
from integrity.hub.pages.app import make_pages
from integrity.hub.quota import BoxQuota
from integrity.hub.schema import box
from integrity.hub.shards.service import find_shard_duties, find_shard_routes, make_shard_hub
from integrity.hub.votes import run_vote
from integrity.hub.work import DAY_S, MINUTE_S, HubDuty, HubWork
from integrity.web.endpoint import find_hub_endpoint
from integrity.web.passwords import PasswordStore
from integrity.web.server import BoundedProtocol, serve


class HubProtocol(BoundedProtocol):
    """The bounds for boxes: they keep their connection from one heartbeat to the next, and have slow lines."""

    idle_s = 900.0
    body_s = 120.0
    most_connections = 4000


def _split(api: ASGIApp, pages: ASGIApp) -> ASGIApp:
    """Return both: what a box sends never reaches a page, nor the session of a browser a call of a box."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        is_call = scope["type"] != "http" or scope["path"].startswith(PREFIX + "/")
        await (api if is_call else pages)(scope, receive, send)

    return app


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
    quota = BoxQuota(database, settings.box_limit_bytes)
    shards = make_shard_hub(settings, database, folder, quota)
    limits = BoxLimits(settings.silent_after_s, settings.box_limit_bytes)
    duties = make_duties(config, limits=limits, page_url=settings.public_url)
    work = HubWork(database, run_vote, [*duties, *find_shard_duties(shards)])
    api = BoxApi(database, work, quota)
    pages = make_pages(config, database, passwords, token, work.parts.find_failing)
    app = _split(api.make_app(find_shard_routes(shards, api.guard)), pages)
    gc.freeze()  # else each page of ten thousand boxes has all that was imported looked through for garbage
    serve(app, endpoint, protocol=HubProtocol, background=work.run, ready=ready)


def make_duties(config: Config, *, limits: BoxLimits, page_url: str) -> list[HubDuty]:
    """
    Return what a hub does again and again.

    Args:
        config: its mail and alerts are those of the hub.
        limits: what a box may do before it is a finding.
        page_url: of the pages of the hub; empty: there are none.
    """
    host = socket.gethostname()
    channels = make_channels(config, hostname=host)
    send = partial(send_alerts, channels=channels, settings=config.alerts, hostname=host, page_url=page_url)
    return [
        HubDuty("store", MINUTE_S, _write_nothing_new, unless="nothing was stored of what boxes report"),
        HubDuty("check_boxes", MINUTE_S, partial(check_all_boxes, limits=limits), unless="boxes were not checked"),
        HubDuty("send_alerts", MINUTE_S, send, is_after_votes=True, unless="alerts were not sent"),
        HubDuty("retain", DAY_S, retain, unless="old rows were not deleted"),
    ]


def _write_nothing_new(database: HubDatabase, now: int) -> None:  # noqa: ARG001 - as of all duties
    """Write a row as it is: where nothing else happens, a full disk is known all the same."""
    first = sa.select(sa.func.min(box.c.id)).scalar_subquery()
    with database.transaction() as c:
        c.execute(sa.update(box).where(box.c.id == first).values(worked_at=box.c.worked_at))
