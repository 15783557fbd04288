"""Put the pages of a box together, and say where they may be served."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from anyio import CapacityLimiter
from starlette.routing import Route

from integrity.errors import CatalogCorrupt, CatalogLocked, CatalogMissing, SchemaMismatch
from integrity.web.endpoint import find_hosts
from integrity.web.frame import Troubles, put_together
from integrity.web.json_pages import mount_json
from integrity.web.pages.access import Access
from integrity.web.pages.actions import ActionPages
from integrity.web.pages.api import INTERFACE, find_json_pages, show_health, show_metrics
from integrity.web.pages.browse import BrowsePages
from integrity.web.pages.findings import show_finding, show_findings
from integrity.web.pages.manual import MANUAL_PAGES
from integrity.web.pages.overview import send_live, show_alerts, show_copies, show_overview, show_settings
from integrity.web.pages.pictures import show_side
from integrity.web.pages.runs import show_run, show_runs
from integrity.web.passwords import LoginThrottle
from integrity.web.query import read_pages
from integrity.web.security import GuardAdvice, Sessions

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from integrity.web.passwords import PasswordStore
    from integrity.web.site import Site

_TROUBLES = Troubles(
    {
        CatalogMissing: "There is no catalog",
        CatalogLocked: "The catalog is in use; load this page again in a moment",
        CatalogCorrupt: "The catalog is damaged",
        SchemaMismatch: "The catalog is of another version",
    },
    "The catalog can't be read",
)


_PAGES = {
    "/": show_overview,
    "/findings": show_findings,
    "/findings/{finding_id:number}": show_finding,
    "/runs": show_runs,
    "/runs/{run_id:number}": show_run,
    "/copies": show_copies,
    "/alerts": show_alerts,
    "/settings": show_settings,
    **MANUAL_PAGES,
    "/metrics": show_metrics,
    "/healthz": show_health,
}


def make_app(site: Site, passwords: PasswordStore, token: str) -> ASGIApp:
    """Return the application. ``token``: bearer token of ``/metrics`` and ``/api``; empty: none."""
    web = site.config.web
    is_secure = web.has_tls or web.public_url.startswith("https:")
    sessions = Sessions(passwords)
    throttle = LoginThrottle()
    show_picture = partial(show_side, site, CapacityLimiter(1))
    routes = (
        *Access(site, passwords, sessions, throttle, is_secure=is_secure).routes(),
        *ActionPages(site, passwords, throttle).routes(),
        Route("/findings/{finding_id:number}/pictures/{side}", show_picture, methods=["GET"]),
        *BrowsePages(site).routes(),
        *read_pages(site, _PAGES),
        Route("/live", partial(send_live, site, sessions), methods=["GET"]),
        mount_json(INTERFACE, find_json_pages(site)),
    )
    return put_together(
        site,
        routes,
        _TROUBLES,
        sessions=sessions,
        hosts=find_hosts(web, site.hostname),
        advice=GuardAdvice("add it to [web] hosts", "[web] token_file"),
        token=token,
        is_secure=is_secure,
    )
