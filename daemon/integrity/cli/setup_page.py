"""
Ask whether there is to be a page for browsers, and what it may do; once it runs, ask for its password.

Part of the questions of ``integrity setup``. Nothing is proposed that opens a port or lets a browser change something.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, NamedTuple

from integrity import program
from integrity.cli.page_access import PAGE_UNIT, find_state_folder, open_passwords
from integrity.cli.setup_questions import Asker, parse_choice, wrap
from integrity.config import Config, Web
from integrity.errors import ConfigError
from integrity.extras import require_web
from integrity.jobs.setup.mail_ways import find_user_name
from integrity.jobs.setup.page_settings import (
    PageChoice,
    PagePowers,
    PageReach,
    find_lan_address,
    find_reach,
    make_page_settings,
    require_free_port,
)
from integrity.views import setup as views

if TYPE_CHECKING:
    from integrity.cli.output import Output
    from integrity.service.systemd.units import PageUnits


class GivenPage(NamedTuple):
    """Answers that were given as options; None: to be asked."""

    reach: str | None
    powers: str | None


class PageAnswer(NamedTuple):
    """What was decided, and the settings for it."""

    choice: PageChoice
    web: Web


class PageQuestions:
    """
    The questions about the page.

    Args:
        base: the configuration so far.
        installed: what is installed of the page.
        is_users: the service is a user's own, which may write what the user may.
    """

    def __init__(
        self, output: Output, asker: Asker, given: GivenPage, base: Config, installed: PageUnits, *, is_users: bool
    ) -> None:
        self._output, self._asker, self._given, self._base = output, asker, given, base
        self._installed = installed
        self._is_users = is_users

    def ask(self) -> PageAnswer:
        """
        Ask everything.

        Raises:
            ConfigError: an answer that was given as an option can't be used.
        """
        address = find_lan_address()
        choice = self._ask_choice(address)
        return PageAnswer(choice, make_page_settings(self._base.web, choice, address))

    def _ask_choice(self, address: str) -> PageChoice:
        reach = self._ask_reach(address)
        if reach is PageReach.NONE:
            if self._given.powers:
                raise ConfigError("--page-actions: there is no page; add --page local, or --page lan")
            return PageChoice()
        return PageChoice(reach, self._ask_powers())

    def _ask_reach(self, address: str) -> PageReach:
        def parse(text: str) -> PageReach:
            reach = PageReach(parse_choice(*PageReach)(text))
            if reach is not PageReach.NONE:
                require_web()
                if not (self._is_users or self._installed.has_page):
                    require_free_port(self._base.web)
            if reach is PageReach.LAN:
                self._require_network(address)
            return reach

        if self._given.reach is not None:
            return parse(self._given.reach)
        default = find_reach(self._base.web, is_installed=self._installed.has_page)
        question = f"Should there be a page for browsers? {'none, local, or lan' if address else 'none, or local'}"
        explanation = [*views.explain_reach(self._base.web, address, find_login())]
        return self._asker.ask(question, default, parse, explanation)

    def _require_network(self, address: str) -> None:
        from integrity.web.certificate import require_cryptography

        require_cryptography()
        if not address:
            raise ConfigError("this machine has no address in a network; connect it, or choose local")

    def _ask_powers(self) -> PagePowers:
        choices = [PagePowers.LOOK, PagePowers.DECIDE] if self._is_users else list(PagePowers)

        def parse(text: str) -> PagePowers:
            return PagePowers(parse_choice(*choices)(text))

        if self._given.powers is not None:
            return parse(self._given.powers)
        default = PagePowers.DECIDE if self._base.web.actions else PagePowers.LOOK
        default = PagePowers.REPAIR if default in choices and self._installed.may_repair else default
        question = f"What may be done on the page? {', '.join(choices[:-1])} or {choices[-1]}"
        explanation = [views.POWERS_EXPLAINED[one] for one in choices]
        return self._asker.ask(question, default, parse, explanation)


def find_login() -> str:
    """Return USER@HOST, as somebody on another machine has to give it to ssh."""
    user = os.environ.get("SUDO_USER") or find_user_name()
    return f"{user}@{socket.gethostname()}"


def finish_page(output: Output, asker: Asker, answer: PageAnswer, *, is_running: bool) -> None:
    """Ask for the password of a page that has none, and say how to reach the page."""
    from integrity.web.certificate import find_certificate

    passwords = open_passwords(PAGE_UNIT)
    if asker.asks and not passwords.is_set:
        passwords.set_password(_ask_password(output, asker))
    own = find_certificate(find_state_folder(PAGE_UNIT)) if answer.web.self_signed and is_running else None
    facts = views.PageFacts(
        answer.web,
        answer.choice,
        find_login(),
        own and own.ends_at,
        own.fingerprint if own else "",
        "" if is_running else program.command("web"),
        has_password=passwords.is_set,
    )
    for line in views.describe_page_access(facts):
        output.say(wrap(line))


def _ask_password(output: Output, asker: Asker) -> str:
    from integrity.web.passwords import SHORTEST_PASSWORD

    question = f"Choose the password of the page, {SHORTEST_PASSWORD} characters or more (not shown)"
    while True:
        password = asker.ask_secret(question)
        if len(password) < SHORTEST_PASSWORD:
            output.tell(wrap(f"   it needs at least {SHORTEST_PASSWORD} characters"))
        elif password == asker.ask_secret("The same again (not shown)"):
            return password
        else:
            output.tell(wrap("   these were not the same"))
