"""Put the pages together: routes, what every request passes first, and pages for errors."""

from __future__ import annotations

import ipaddress
import logging
from importlib import resources
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from integrity.errors import (
    AppError,
    CatalogCorrupt,
    CatalogLocked,
    CatalogMissing,
    ConfigError,
    SchemaMismatch,
    printable,
)
from integrity.web.pages.access import Access
from integrity.web.pages.actions import ActionPages
from integrity.web.pages.alerts import AlertPages
from integrity.web.pages.api import Api
from integrity.web.pages.browse import BrowsePages
from integrity.web.pages.copies import CopyPages
from integrity.web.pages.findings import FindingPages
from integrity.web.pages.live import LivePages
from integrity.web.pages.monitoring import Monitoring
from integrity.web.pages.overview import Overview
from integrity.web.pages.runs import RunPages
from integrity.web.pages.settings import SettingsPage
from integrity.web.passwords import LoginThrottle
from integrity.web.security import BodyTooLarge, Guard, Sessions

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from integrity.config import Web
    from integrity.web.passwords import PasswordStore
    from integrity.web.site import Site

_log = logging.getLogger(__name__)

_LOGGED = 200
"""Characters of a path that the log gets."""

_TITLES = {
    400: "This can't be understood",
    403: "This was not done",
    404: "There is no such page",
    405: "This page does not take that",
    413: "The request is too large",
}
_TROUBLES = {
    CatalogMissing: "There is no catalog",
    CatalogLocked: "The catalog is in use; load this page again in a moment",
    CatalogCorrupt: "The catalog is damaged",
    SchemaMismatch: "The catalog is of another version",
}


def make_app(site: Site, passwords: PasswordStore, token: str) -> ASGIApp:
    """
    Return the application.

    Args:
        site: shared by all pages.
        passwords: of the log-in.
        token: bearer token of ``/metrics`` and ``/api``; empty: none.
    """
    web = site.config.web
    is_secure = bool(web.tls_certificate) or web.public_url.startswith("https:")
    sessions = Sessions(passwords)
    throttle = LoginThrottle()
    pages = (
        Access(site, passwords, sessions, throttle, is_secure=is_secure),
        ActionPages(site, passwords, throttle),
        Overview(site),
        FindingPages(site),
        BrowsePages(site),
        RunPages(site),
        CopyPages(site),
        AlertPages(site),
        SettingsPage(site),
        Monitoring(site),
        LivePages(site, sessions),
        Api(site),
    )
    static = Mount("/static", StaticFiles(directory=str(resources.files("integrity.web") / "static")))
    errors = _Errors(site)
    app = Starlette(
        routes=[static, *(route for page in pages for route in page.routes())],
        exception_handlers={
            HTTPException: errors.show_http,
            BodyTooLarge: errors.show_too_large,
            ClientDisconnect: errors.show_nothing,
            AppError: errors.show_known,
            Exception: errors.show_bug,
        },
    )
    return Guard(app, hosts=find_hosts(web, site.hostname), sessions=sessions, token=token, is_secure=is_secure)


def find_hosts(web: Web, hostname: str) -> set[str]:
    """Return the names under which browsers may ask for the page, in lower case."""
    address = split_listen(web.listen)[0]
    hosts = {f"[{address}]" if ":" in address else address, hostname, f"{hostname}.local", *web.hosts}
    if ipaddress.ip_address(address).is_loopback:
        hosts |= {"localhost", "127.0.0.1", "[::1]"}
    if web.public_url:
        hosts.add(urlsplit(web.public_url).hostname or "")
    return {host.lower() for host in hosts}


def split_listen(listen: str) -> tuple[str, int]:
    """Return the address and the port of ``[web] listen``."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def check_exposure(web: Web) -> None:
    """
    Refuse to send passwords over a network in plain text.

    Raises:
        ConfigError: the address is not this machine's own, and there is neither TLS nor a proxy.
    """
    address = ipaddress.ip_address(split_listen(web.listen)[0])
    if bool(web.tls_certificate) != bool(web.tls_key):
        raise ConfigError("[web] tls_certificate and tls_key belong together: set both, or none")
    if not (address.is_loopback or web.tls_certificate or web.trusted_proxy):
        raise ConfigError(
            f"[web] listen: {web.listen} can be reached from the network, where the password would be sent in plain"
            " text: set tls_certificate and tls_key, or trusted_proxy, or listen on 127.0.0.1"
        )


class _Errors:
    """The pages for what goes wrong."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def show_http(self, request: Request, error: Exception) -> Response:
        """Show that a page does not exist, or a request can't be understood."""
        assert isinstance(error, HTTPException)
        if request.scope["path"].startswith("/api/"):
            return JSONResponse({"error": error.detail}, error.status_code, error.headers)
        title = _TITLES.get(error.status_code, "This did not work")
        text = error.detail if error.status_code in (400, 403) else "Go back, or begin at the overview."
        response = self._site.render_error(request, error.status_code, title, text)
        response.headers.update(error.headers or {})
        return response

    async def show_too_large(self, request: Request, _: Exception) -> Response:
        """Show that a request was too large."""
        response = self._site.render_error(request, 413, _TITLES[413], "Nothing was done.")
        response.headers["Connection"] = "close"  # or else the server would read all that is still to come
        return response

    async def show_nothing(self, _: Request, __: Exception) -> Response:
        """Answer a client that has gone, or was cut off, before its request was complete."""
        return Response(status_code=400)

    async def show_known(self, request: Request, error: Exception) -> Response:
        """Show an error of the program: what is wrong, where, and what to do."""
        if isinstance(error, ConfigError):
            return self._site.render_error(request, 404, "Not known", printable(str(error)))
        title = next((text for kind, text in _TROUBLES.items() if isinstance(error, kind)), "The catalog can't be read")
        return self._site.render_error(request, 503, title, printable(str(error)))

    async def show_bug(self, request: Request, error: Exception) -> Response:
        """Show that the page has a bug; the log has the details, the browser has none."""
        _log.error("a bug in the page %s", printable(request.scope["path"][:_LOGGED]), exc_info=error)
        return self._site.render_error(request, 500, "A bug in this page", "The log has details. Nothing was changed.")
