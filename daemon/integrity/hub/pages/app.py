"""Put the pages of a hub together. The calls of boxes are not among them: they pass no log-in and no guard of pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.types import ASGIApp

from integrity.config import Config
from integrity.errors import HubDatabaseAway
from integrity.hub.database import HubDatabase
from integrity.hub.pages.api import HubApi
from integrity.hub.pages.findings import HubFindingPages
from integrity.hub.pages.fleet import FleetPages
from integrity.hub.pages.site import HubSite
from integrity.hub.work import FailingPart
from integrity.web.endpoint import find_hosts
from integrity.web.frame import Troubles, put_together
from integrity.web.pages.access import Access
from integrity.web.pages.manual import MANUAL_PAGES
from integrity.web.passwords import LoginThrottle, PasswordStore
from integrity.web.query import read_pages
from integrity.web.security import GuardAdvice, Sessions

_TROUBLES = Troubles(
    {HubDatabaseAway: "The database of the hub does not answer; load this page again in a moment"},
    "The database of the hub can't be used",
)
_ADVICE = GuardAdvice("add it to [hub_server] hosts", "[hub_server] token_file")


def make_pages(
    config: Config,
    database: HubDatabase,
    passwords: PasswordStore,
    token: str,
    find_failing: Callable[[], Sequence[FailingPart]],
) -> ASGIApp:
    """
    Return the application.

    Args:
        token: bearer token of ``/metrics`` and ``/api``; empty: none.
    """
    settings = config.hub_server
    site = HubSite(database, settings, find_failing)
    is_secure = bool(settings.certificate) or settings.public_url.startswith("https:")
    sessions = Sessions(passwords)
    pages = (
        Access(site, passwords, sessions, LoginThrottle(), is_secure=is_secure),
        FleetPages(site),
        HubFindingPages(site),
        HubApi(site),
    )
    return put_together(
        site,
        (*(route for page in pages for route in page.routes()), *read_pages(site, MANUAL_PAGES)),
        _TROUBLES,
        sessions=sessions,
        hosts=find_hosts(settings, site.hostname),
        advice=_ADVICE,
        token=token,
        is_secure=is_secure,
    )
