"""What ``integrity setup`` says of the page for browsers: what each answer means, and how to reach it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.jobs.setup.page_settings import PageChoice, PagePowers, PageReach

if TYPE_CHECKING:
    from integrity.config import Web

POWERS_EXPLAINED = {
    PagePowers.LOOK: "look: it only shows.",
    PagePowers.DECIDE: "decide: also acknowledge, pause, verify, accept; changes of records need the password again.",
    PagePowers.REPAIR: "repair: also repair files from backups; the service may then write in the watched folders.",
}

_POWERS = {
    PagePowers.LOOK: "it only shows",
    PagePowers.DECIDE: "records can be changed there",
    PagePowers.REPAIR: "records and files can be changed there",
}


def explain_reach(web: Web, address: str, login: str) -> Iterator[str]:
    """
    Yield what the answers mean, a line each.

    Args:
        web: the settings so far.
        address: of this machine in the network; empty: none.
        login: USER@HOST for ssh.
    """
    port = web.listen.rpartition(":")[2]
    yield "none: you look with the command status."
    yield f"local: opens no port in your network; from another machine: {_spell_tunnel(port, login)}"
    if address:
        yield (
            f"lan: at https://{address}:{port}/ for all who reach this machine and know the password; encrypted, with a"
            " certificate of its own, of which browsers warn once."
        )


def describe_page(web: Web, choice: PageChoice) -> str:
    """Say where the page is, and what it may do."""
    reach = "in the network" if choice.reach is PageReach.LAN else "on this machine only"
    return f"{web.url}/  ({reach}; {_POWERS[choice.powers]})"


class PageFacts(NamedTuple):
    """
    How a page can be reached.

    Args:
        web: its settings.
        choice: what was decided about it.
        login: USER@HOST for ssh.
        certificate_ends_at: when the certificate that it made ends; None if it made none.
        fingerprint: SHA-256 of that.
        start: the command that starts it; empty: it runs.
        has_password: a password is set.
    """

    web: Web
    choice: PageChoice
    login: str
    certificate_ends_at: datetime | None
    fingerprint: str
    start: str
    has_password: bool


def describe_page_access(facts: PageFacts) -> Iterator[str]:
    """Yield how to open the page, a line each."""
    web = facts.web
    yield f"The page:           {web.url}/"
    if facts.choice.reach is PageReach.LOCAL:
        tunnel = _spell_tunnel(web.listen.rpartition(":")[2], facts.login)
        yield f"From elsewhere:     {tunnel}    (then open the page)"
    if facts.certificate_ends_at is not None:
        yield f"Its certificate:    valid until {facts.certificate_ends_at:%Y-%m-%d}; a start of the page renews it"
        yield "                    Browsers warn of it, for nobody else signed it; compare its SHA-256:"
        half = len(facts.fingerprint) // 2 + 1
        yield f"                    {facts.fingerprint[:half]}"
        yield f"                    {facts.fingerprint[half:]}"
    if facts.start:
        yield f"To start it:        {facts.start}    (no service runs it)"
    elif not facts.has_password:
        yield "Its password:       journalctl -u integrity-web -n 5    (shows the link that sets it)"
    if facts.has_password:
        yield f"A new password:     {program.command('web --set-password')}"


def _spell_tunnel(port: str, login: str) -> str:
    return f"ssh -L {port}:127.0.0.1:{port} {login}"
