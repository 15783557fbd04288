"""Put the pages of a box together, and say where they may be served."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from integrity.errors import CatalogCorrupt, CatalogLocked, CatalogMissing, ConfigError, SchemaMismatch
from integrity.web.frame import Troubles, put_together
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
from integrity.web.security import GuardAdvice, Sessions

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from integrity.config import HubServer, Web
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


def find_hosts(settings: Web | HubServer, hostname: str) -> set[str]:
    """
    Return the names under which browsers may ask for pages, in lower case.

    Args:
        settings: of the pages.
        hostname: of this machine.
    """
    address = split_listen(settings.listen)[0]
    hosts = {f"[{address}]" if ":" in address else address, hostname, f"{hostname}.local"}
    if ipaddress.ip_address(address).is_loopback:
        hosts |= {"localhost", "127.0.0.1", "[::1]"}
    if settings.public_url:
        hosts.add(urlsplit(settings.public_url).hostname or "")
    return {host.lower() for host in (*hosts, *settings.hosts)}


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
