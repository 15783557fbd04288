"""
Make the settings of the page from the answers to the questions of ``integrity setup``.

I1  What is not asked about, such as a certificate or a proxy of the owner's, stays as the configuration has it.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass, replace
from enum import StrEnum

from integrity.config import Web
from integrity.errors import ConfigError

_SOME_ADDRESS = ("192.0.2.1", 9)
"""Of TEST-NET-1 (RFC 5737): the kernel chooses a route to it, and no packet is sent."""


class PageReach(StrEnum):
    """From where the page can be reached."""

    NONE = "none"  # there is no page
    LOCAL = "local"  # from this machine, and from others through SSH
    LAN = "lan"  # from the network, encrypted


class PagePowers(StrEnum):
    """What a visitor with the password may do; each has what those before it have."""

    LOOK = "look"
    DECIDE = "decide"  # acknowledge, pause, scrub, accept
    REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class PageChoice:
    """What was decided about the page."""

    reach: PageReach = PageReach.NONE
    powers: PagePowers = PagePowers.LOOK

    @property
    def is_wanted(self) -> bool:
        """Return whether there is to be a page."""
        return self.reach is not PageReach.NONE

    @property
    def repairs(self) -> bool:
        """Return whether the service is to repair at the page's request."""
        return self.is_wanted and self.powers is PagePowers.REPAIR


def find_lan_address() -> str:
    """Return the IPv4 address by which other machines reach this one; empty if it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOME_ADDRESS)
        except OSError:
            return ""
        address = str(probe.getsockname()[0])
    return "" if ipaddress.ip_address(address).is_loopback else address


def require_free_port(settings: Web) -> None:
    """
    Refuse a port that another program has.

    Raises:
        ConfigError: with what to do.
    """
    port = settings.listen.rpartition(":")[2]
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that just ended are no obstacle
        try:
            tried.bind(("127.0.0.1", int(port)))
        except OSError as error:
            raise ConfigError(
                f"port {port} can't be used: {error.strerror}; stop the program that has it, or choose none, and set"
                " another port in [web] listen later"
            ) from error


def find_reach(settings: Web, *, is_installed: bool) -> PageReach:
    """Return from where the page can be reached so far."""
    if not is_installed:
        return PageReach.NONE
    return PageReach.LOCAL if _is_local(settings) else PageReach.LAN


def make_page_settings(before: Web, choice: PageChoice, address: str) -> Web:
    """
    Return the settings of the page.

    Args:
        before: the configuration so far.
        choice: what was decided.
        address: of this machine in the network.
    """
    if not choice.is_wanted:
        return before
    settings = replace(before, actions=choice.powers is not PagePowers.LOOK)
    port = before.listen.rpartition(":")[2]
    is_local = _is_local(before)
    if is_local == (choice.reach is PageReach.LOCAL):
        return settings
    if not is_local:
        return replace(settings, listen=f"127.0.0.1:{port}", self_signed=False, public_url="")
    return replace(
        settings,
        listen=f"0.0.0.0:{port}",
        self_signed=not before.tls_certificate,
        public_url=before.public_url or f"https://{address}:{port}",
    )


def _is_local(settings: Web) -> bool:
    return ipaddress.ip_address(settings.listen.rpartition(":")[0].strip("[]")).is_loopback
