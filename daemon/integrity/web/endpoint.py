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
    """What messages call an endpoint's section, its two settings of TLS, what callers send, and how to have TLS."""

    section: str
    certificate: str
    key: str
    secrets: str
    remedy: str


class Endpoint(NamedTuple):
    """
    An address and its protection.

    Attributes:
        certificate: path of the certificate chain (PEM); empty: plain HTTP.
        trusted_proxy: address of the proxy whose X-Forwarded-For and X-Forwarded-Proto are believed; empty: none.
    """

    names: EndpointNames
    listen: str
    certificate: bytes = b""
    key: bytes = b""
    trusted_proxy: str = ""

    @property
    def host(self) -> str:
        return _split_listen(self.listen)[0]

    @property
    def port(self) -> int:
        return _split_listen(self.listen)[1]

    def check_exposure(self) -> None:
        """
        Refuse to have secrets sent over a network in plain text (I1).

        Raises:
            ConfigError: the address is not this machine's own, and there is neither TLS nor a proxy.
        """
        section, certificate, key, secrets, remedy = self.names
        if bool(self.certificate) != bool(self.key):
            raise ConfigError(f"{section} {certificate} and {key} belong together: set both, or none")
        if not (ipaddress.ip_address(self.host).is_loopback or self.certificate or self.trusted_proxy):
            raise ConfigError(
                f"{section} listen: {self.listen} can be reached from the network, where {secrets} would"
                f" be sent in plain text: {remedy}, or set trusted_proxy, or listen on 127.0.0.1"
            )


def find_page_endpoint(settings: Web, own_certificate: bytes = b"") -> Endpoint:
    """
    Return where the page of this machine is served.

    Args:
        own_certificate: path of the file with the certificate and key that the page has made; empty: none.

    Raises:
        ConfigError: two certificates are configured.
    """
    if settings.self_signed and settings.tls_certificate:
        raise ConfigError("[web] self_signed and tls_certificate exclude each other: leave one of them out")
    remedy = "set self_signed = true, or tls_certificate and tls_key"
    names = EndpointNames("[web]", "tls_certificate", "tls_key", "the password", remedy)
    certificate, key = own_certificate or settings.tls_certificate, own_certificate or settings.tls_key
    return Endpoint(names, settings.listen, certificate, key, settings.trusted_proxy)


def find_hub_endpoint(settings: HubServer) -> Endpoint:
    names = EndpointNames("[hub_server]", "certificate", "key", "the tokens of boxes", "set certificate and key")
    return Endpoint(names, settings.listen, settings.certificate, settings.key, settings.trusted_proxy)


def find_hosts(settings: Web | HubServer, hostname: str) -> set[str]:
    """Return the names under which browsers may ask for pages, in lower case; IPv6 addresses in brackets."""
    address = _split_listen(settings.listen)[0]
    hosts = {f"[{address}]" if ":" in address else address, hostname, f"{hostname}.local"}
    parsed = ipaddress.ip_address(address)
    if parsed.is_loopback or parsed.is_unspecified:
        hosts |= {"localhost", "127.0.0.1", "[::1]"}
    if settings.public_url:
        hosts.add(urlsplit(settings.public_url).hostname or "")
    return {host.lower() for host in (*hosts, *settings.hosts)}


def _split_listen(listen: str) -> tuple[str, int]:
    """Return the address and the port of a setting ``listen``."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def find_address_group(address: str) -> str:
    """Return what counts as one address: of IPv6, the network of 64 bits, in which a client may choose any."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
