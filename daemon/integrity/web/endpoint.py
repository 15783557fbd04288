"""
Where something is served, and how it is protected, whichever section of the configuration says so.

I1  A password or a token is never sent over a network in plain text: an address that is not this machine's own needs
    TLS, or a proxy that has it.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from integrity.errors import ConfigError

if TYPE_CHECKING:
    from integrity.config import HubServer, Web


class EndpointNames(NamedTuple):
    """What messages call an endpoint's section, its two settings of TLS, and what callers send."""

    section: str
    certificate: str
    key: str
    secrets: str


class Endpoint(NamedTuple):
    """
    An address and its protection.

    Attributes:
        names: for messages.
        listen: address and port.
        certificate: path of the certificate chain (PEM); empty: plain HTTP.
        key: path of its private key.
        trusted_proxy: address of the proxy whose X-Forwarded-For and X-Forwarded-Proto are believed; empty: none.
    """

    names: EndpointNames
    listen: str
    certificate: bytes = b""
    key: bytes = b""
    trusted_proxy: str = ""

    @property
    def host(self) -> str:
        """The address."""
        return _split_listen(self.listen)[0]

    @property
    def port(self) -> int:
        """The port."""
        return _split_listen(self.listen)[1]

    def check_exposure(self) -> None:
        """
        Refuse to have secrets sent over a network in plain text (I1).

        Raises:
            ConfigError: the address is not this machine's own, and there is neither TLS nor a proxy.
        """
        section, certificate, key, secrets = self.names
        if bool(self.certificate) != bool(self.key):
            raise ConfigError(f"{section} {certificate} and {key} belong together: set both, or none")
        if not (ipaddress.ip_address(self.host).is_loopback or self.certificate or self.trusted_proxy):
            raise ConfigError(
                f"{section} listen: {self.listen} can be reached from the network, where {secrets} would"
                f" be sent in plain text: set {certificate} and {key}, or trusted_proxy, or listen on 127.0.0.1"
            )


def find_page_endpoint(settings: Web) -> Endpoint:
    """Return where the page of this machine is served."""
    names = EndpointNames("[web]", "tls_certificate", "tls_key", "the password")
    return Endpoint(names, settings.listen, settings.tls_certificate, settings.tls_key, settings.trusted_proxy)


def find_hub_endpoint(settings: HubServer) -> Endpoint:
    """Return where a hub is served."""
    names = EndpointNames("[hub_server]", "certificate", "key", "the tokens of boxes")
    return Endpoint(names, settings.listen, settings.certificate, settings.key, settings.trusted_proxy)


def find_hosts(settings: Web | HubServer, hostname: str) -> set[str]:
    """
    Return the names under which browsers may ask for pages, in lower case.

    Args:
        settings: of the pages.
        hostname: of this machine.
    """
    address = _split_listen(settings.listen)[0]
    hosts = {f"[{address}]" if ":" in address else address, hostname, f"{hostname}.local"}
    if ipaddress.ip_address(address).is_loopback:
        hosts |= {"localhost", "127.0.0.1", "[::1]"}
    if settings.public_url:
        hosts.add(urlsplit(settings.public_url).hostname or "")
    return {host.lower() for host in (*hosts, *settings.hosts)}


def _split_listen(listen: str) -> tuple[str, int]:
    """Return the address and the port of a setting ``listen``."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)
