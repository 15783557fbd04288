"""The settings of the page that setup makes of answers: what is asked is set, what the owner has made stays."""

from __future__ import annotations

import socket

import pytest

from integrity.config import Web
from integrity.errors import ConfigError
from integrity.jobs.setup.proposal import (
    PageChoice,
    PagePowers,
    PageReach,
    find_reach,
    make_page_settings,
    require_free_port,
)

ADDRESS = "192.168.1.10"
LAN = Web(listen="0.0.0.0:8431", self_signed=True, public_url=f"https://{ADDRESS}:8431")
PROXIED = Web(trusted_proxy="127.0.0.1", public_url="https://nas.example.org")
OWN_CERTIFICATE = Web(
    listen="192.168.1.10:443", tls_certificate=b"/c.pem", tls_key=b"/k.pem", hosts=("nas.example.org",)
)


@pytest.mark.parametrize(
    ("before", "reach", "expected"),
    [
        (Web(), PageReach.NONE, Web()),
        (Web(actions=True), PageReach.NONE, Web(actions=True)),
        (Web(), PageReach.LOCAL, Web()),
        (Web(actions=True), PageReach.LOCAL, Web()),
        (PROXIED, PageReach.LOCAL, PROXIED),
        (Web(), PageReach.LAN, LAN),
        (LAN, PageReach.LAN, LAN),
        (LAN, PageReach.LOCAL, Web()),
        (OWN_CERTIFICATE, PageReach.LAN, OWN_CERTIFICATE),
    ],
)
def test_reach_becomes_settings(before: Web, reach: PageReach, expected: Web) -> None:
    """A certificate and a proxy of the owner's are kept."""
    assert expected == make_page_settings(before, PageChoice(reach), ADDRESS)


def test_powers_become_actions() -> None:
    """Only a page that there is has them."""
    found = {
        powers: (
            make_page_settings(Web(), PageChoice(PageReach.LOCAL, powers), ADDRESS).actions,
            PageChoice(PageReach.LOCAL, powers).repairs,
        )
        for powers in PagePowers
    }

    expected = {PagePowers.LOOK: (False, False), PagePowers.DECIDE: (True, False), PagePowers.REPAIR: (True, True)}
    assert expected == found
    assert not PageChoice(PageReach.NONE, PagePowers.REPAIR).repairs


def test_port_of_another_program_is_refused() -> None:
    """One that is free is not."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} can't be used: Address already in use; stop the program"):
            require_free_port(Web(listen=f"0.0.0.0:{port}"))
    require_free_port(Web(listen=f"127.0.0.1:{port}"))


def test_present_reach_is_the_default() -> None:
    """What is not installed is off, whatever is configured."""
    assert PageReach.NONE is find_reach(LAN, is_installed=False)
    assert PageReach.LAN is find_reach(LAN, is_installed=True)
    assert PageReach.LOCAL is find_reach(PROXIED, is_installed=True)
