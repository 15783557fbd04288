"""Put the pages of a box together, and say where they may be served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integrity.errors import CatalogCorrupt, CatalogLocked, CatalogMissing, SchemaMismatch
from integrity.web.endpoint import find_hosts
from integrity.web.frame import Troubles, put_together
from integrity.web.pages.access import Access
from integrity.web.pages.actions import ActionPages
from integrity.web.pages.alerts import AlertPages
from integrity.web.pages.api import Api
from integrity.web.pages.browse import BrowsePages
from integrity.web.pages.copies import CopyPages
from integrity.web.pages.findings import FindingPages
from integrity.web.pages.live import LivePages
from integrity.web.pages.manual import ManualPages
from integrity.web.pages.monitoring import Monitoring
from integrity.web.pages.overview import Overview
from integrity.web.pages.pictures import PicturePages
from integrity.web.pages.runs import RunPages
from integrity.web.pages.settings import SettingsPage
from integrity.web.passwords import LoginThrottle
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


def make_app(site: Site, passwords: PasswordStore, token: str) -> ASGIApp:
    """
    Return the application.

    Args:
        site: shared by all pages.
        passwords: of the log-in.
        token: bearer token of ``/metrics`` and ``/api``; empty: none.
    """
    web = site.config.web
    is_secure = web.has_tls or web.public_url.startswith("https:")
    sessions = Sessions(passwords)
    throttle = LoginThrottle()
    pictures = PicturePages(site)
    pages = (
        Access(site, passwords, sessions, throttle, is_secure=is_secure),
        ActionPages(site, passwords, throttle),
        Overview(site),
        pictures,
        FindingPages(site, pictures),
        BrowsePages(site),
        RunPages(site),
        CopyPages(site),
        AlertPages(site),
        SettingsPage(site),
        ManualPages(site),
        Monitoring(site),
        LivePages(site, sessions),
        Api(site),
    )
    return put_together(
        site,
        pages,
        _TROUBLES,
        sessions=sessions,
        hosts=find_hosts(web, site.hostname),
        advice=GuardAdvice("add it to [web] hosts", "[web] token_file"),
        token=token,
        is_secure=is_secure,
    )
