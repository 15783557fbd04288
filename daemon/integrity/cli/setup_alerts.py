"""
Ask where alerts go, by mail and to phones, and try what was answered.

Part of the questions of ``integrity setup``. Also tests that damage is found at all, before the first alert.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

import click

from integrity.cli.setup_questions import NONE, Asker, parse_choice, parse_names, wrap
from integrity.cli.signals import stop_on_signals
from integrity.config import Alerts, Config
from integrity.errors import AppError, ChannelError, ConfigError, printable
from integrity.extras import how_to_install
from integrity.jobs.setup.mail_ways import MailWays, find_mail_ways, make_mail_settings, require_recipient
from integrity.views import setup as views

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integrity.cli.output import Output
    from integrity.config import Mail
    from integrity.service.selftest import SelfTestStep
    from integrity.words.text import JsonObject


@dataclass(frozen=True, slots=True)
class GivenAlerts:
    """Answers that were given as options; empty: to be asked."""

    mail_to: tuple[str, ...]
    mail_server: str
    mail_password_file: bytes
    push: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TestedMail:
    """
    How mails are sent.

    Args:
        mail: the settings; ``password_file`` is empty while the password is only known here.
        password: for the mail server; empty if there is none, or a file has it.
        problem: why no mail could be sent; empty if that worked, or was not tried.
        is_confirmed: the person said that the mail arrived.
    """

    mail: Mail
    password: str = ""
    problem: str = ""
    is_confirmed: bool = False

    @property
    def is_wanted(self) -> bool:
        """Return whether any is to be sent."""
        return bool(self.mail.to)


@dataclass(frozen=True, slots=True)
class TestedPush:
    """How phones are reached: URLs for apprise; the rest is as for mail."""

    urls: tuple[str, ...]
    problem: str = ""
    is_confirmed: bool = False

    @property
    def is_wanted(self) -> bool:
        """Return whether any is to be reached."""
        return bool(self.urls)


_KEEP = "keep"
_Tested = TypeVar("_Tested", TestedMail, TestedPush)


class AlertQuestions:
    """
    The questions about alerts.

    Args:
        base: the configuration so far.
        gains_privileges: as in ``find_mail_ways``.
        tests: whether to test that damage is found and alerts are accepted.
    """

    def __init__(
        self, output: Output, asker: Asker, given: GivenAlerts, base: Config, *, gains_privileges: bool, tests: bool
    ) -> None:
        self._output, self._asker, self._given, self._base = output, asker, given, base
        self._gains_privileges = gains_privileges
        self._tests = tests
        self._is_canary_found = False

    def ask_mail(self) -> TestedMail:
        """
        Ask where mails go, and try it; ask again if they don't arrive.

        Raises:
            AppError: the test failed: damage is not found here.
        """
        ways = find_mail_ways(self._base.mail, gains_privileges=self._gains_privileges)
        host = socket.gethostname().partition(".")[0]

        def attempt(given: GivenAlerts) -> TestedMail:
            return self._try_mail(self._ask_recipients(ways, given.mail_server, given.mail_to))

        hint = f'Its subject begins with "[integrity] {host}:". Look in the spam folder, too.'
        return self._repeat(attempt, "Did the mail arrive?", hint, "another address or server")

    def ask_push(self) -> TestedPush:
        """Ask which phones get a message, too, and try it; ask again if none arrives."""
        if find_spec("apprise") is None:
            return self._do_without_push()

        def attempt(given: GivenAlerts) -> TestedPush:
            return self._try_push(self._parse_services(*given.push) if given.push else self._ask_services())

        return self._repeat(attempt, "Did the message arrive on your phone?", "", "another service")

    def _do_without_push(self) -> TestedPush:
        remedy = f"messages to a phone need packages that are not installed; {how_to_install('notify')}"
        if self._given.push not in ((), (NONE,)):
            raise ConfigError(f"--push: {remedy}")
        if self._asker.asks:
            self._output.tell()
            self._output.tell(wrap(f"Not asked: {remedy}"))
        return TestedPush(self._base.alerts.apprise)

    def _repeat(self, attempt: Callable[[GivenAlerts], _Tested], question: str, hint: str, alternative: str) -> _Tested:
        """Ask and try, until it works or the person is content; what was given as an option is tried once."""
        given = self._given
        while True:
            tested = attempt(given)
            if not (self._asker.asks and self._tests and tested.is_wanted):
                return tested
            if not tested.problem:
                answer = self._asker.ask(
                    f"{question} yes, no, or later", "later", parse_choice("yes", "no", "later"), [hint] if hint else []
                )
                if answer != "no":
                    return replace(tested, is_confirmed=answer == "yes")
            words = f"Try {alternative}, or keep this one? again, or keep"
            if self._asker.ask(words, "again", parse_choice("again", "keep")) == "keep":
                return tested
            given = GivenAlerts((), "", given.mail_password_file, ())

    def _ask_services(self) -> tuple[str, ...]:
        before = self._base.alerts.apprise

        def parse(text: str) -> tuple[str, ...]:
            names = parse_names(text)
            return before if before and names == [_KEEP] else self._parse_services(*names)

        explanation = [*views.PUSH_EXPLANATION, *views.describe_push_so_far(before)]
        return self._asker.ask("Should your phone get alerts, too?", _KEEP if before else NONE, parse, explanation)

    def _parse_services(self, *urls: str) -> tuple[str, ...]:
        """Check URLs for apprise; the word none stands for no URL."""
        from integrity.alerts.apprise import find_problem

        chosen = tuple(url for url in urls if url != NONE)
        for url in chosen:
            if find_problem(url) is not None:
                raise ConfigError("apprise knows no service with such a URL; write ntfy://TOPIC, for example")
        return chosen

    def _try_push(self, urls: tuple[str, ...]) -> TestedPush:
        if not self._tests or not urls:
            return TestedPush(urls)
        with self._without_log():
            return TestedPush(urls, self._send(Config(alerts=Alerts(apprise=urls))))

    def _ask_recipients(self, ways: MailWays, server: str, to: tuple[str, ...]) -> TestedMail:
        before = self._base.mail
        if to != (NONE,):
            _require_addresses(to)
        if not ways.is_open and not server and to != (NONE,) and self._asker.asks:
            server = self._ask_server(ways, before)
        mail, password = make_mail_settings(before, (), server, ways), ""
        if self._given.mail_password_file:
            mail = replace(mail, password_file=os.path.realpath(self._given.mail_password_file))
        elif mail.user and not mail.password_file and self._asker.asks:
            password = self._asker.ask_secret(f"Password of {mail.user} at {mail.host} (not shown)")
        if not to and (ways.is_open or server or before.to):
            to = self._ask_addresses(ways, mail)
        return TestedMail(make_mail_settings(mail, () if to == (NONE,) else to, server, ways), password)

    def _ask_server(self, ways: MailWays, before: Mail) -> str:
        def parse(text: str) -> str:
            if text.lower() in ("", NONE, "-"):
                return ""
            make_mail_settings(before, (), text, ways)
            return text

        explanation = [
            views.describe_mail_ways(ways),
            "The server of your mail provider: submission://USER@HOST, or smtps://USER@HOST; or none.",
        ]
        return self._asker.ask("Through which server can mails be sent?", NONE, parse, explanation)

    def _ask_addresses(self, ways: MailWays, mail: Mail) -> tuple[str, ...]:
        def parse(text: str) -> tuple[str, ...]:
            return _require_addresses(tuple(parse_names(text))) or (NONE,)

        own = mail.user if "@" in mail.user else ways.local_name if ways.is_open else NONE
        default = ", ".join(self._base.mail.to) or own
        explanation = [views.describe_mail_ways(ways)] if ways.is_open else []
        explanation += ["You get mail if something is wrong, and once a month that all is well. Addresses, or none."]
        return self._asker.ask("Where should mails go?", default, parse, explanation)

    def _try_mail(self, tested: TestedMail) -> TestedMail:
        """Test that damage is found, the first time, and that a mail is accepted."""
        if not self._tests:
            return tested
        self._output.say()
        self._output.say("Testing ...")
        with _password_file(tested) as mail:
            config = Config(mail=mail, alerts=replace(self._base.alerts, apprise=()))
            problem = self._send(config) if self._is_canary_found else self._test_everything(config)
        self._is_canary_found = True
        return replace(tested, problem=problem)

    def _test_everything(self, config: Config) -> str:
        """Run the self-test; return why no mail was accepted."""
        from integrity.service.selftest import Stage, run_self_test

        problem = ""
        with stop_on_signals() as stop, self._without_log():
            test = run_self_test(config, hostname=socket.gethostname(), stop=stop, needs_channel=False)
            with closing(test) as steps:
                for step in steps:
                    self._tell_step(step)
                    if not step.is_ok and step.stage is not Stage.ALERT:
                        raise AppError(f"the self-test failed: {step.seen}; nothing was changed")
                    problem = problem or ("" if step.is_ok else f"{step.channel}: {step.seen}")
            if stop.is_set():
                raise click.Abort
        return problem

    @contextmanager
    def _without_log(self) -> Iterator[None]:
        """Keep warnings of the log from the terminal: what they say is told in the dialog."""
        logging.disable(logging.NOTSET if self._output.verbosity else logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)

    def _tell_step(self, step: SelfTestStep) -> None:
        from integrity.service.selftest import Stage

        output = self._output
        fields: JsonObject = {
            "stage": step.stage.value,
            "is_ok": step.is_ok,
            "seen": step.seen,
            "channel": step.channel,
        }
        output.give("self_test_step", fields)
        if step.stage is Stage.SCRUB and step.is_ok:
            output.say(self._mark_ok("one bit of a test file was flipped, and a scrub found it"))
        elif step.stage is Stage.ALERT and step.is_ok:
            output.say(self._mark_ok(f"{printable(step.channel or '')} accepted a test message"))
        elif not step.is_ok:
            output.tell(self._mark_failed(f"{step.channel or step.stage.value}: {step.seen}"))

    def _mark_ok(self, text: str) -> str:
        return f"   {self._output.style('ok', 'green')}      {text}"

    def _mark_failed(self, text: str) -> str:
        return wrap(f"   FAILED  {printable(text)}").replace("FAILED", self._output.style("FAILED", "red"), 1)

    def _send(self, config: Config) -> str:
        """Send a test message; return why it was not accepted."""
        from integrity.alerts.channels import send_test
        from integrity.service.selftest import SelfTestStep, Stage

        results = send_test(config)
        for name, error in results:
            self._tell_step(SelfTestStep(Stage.ALERT, error is None, error or "accepted a test message", name))
        return next((f"{name}: {error}" for name, error in results if error is not None), "")


def _require_addresses(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return recipients; raise ConfigError for one that nobody can have."""
    from integrity.alerts.mail import address_of

    try:
        for name in names:
            require_recipient(address_of(name))
    except ChannelError as error:
        raise ConfigError(str(error).removeprefix("[mail] ")) from error
    return names


@contextmanager
def _password_file(tested: TestedMail) -> Iterator[Mail]:
    """Give settings with which the server can be used now; the password touches no disk."""
    if not tested.password:
        yield tested.mail
        return
    fd = os.memfd_create("integrity-password")
    try:
        os.write(fd, os.fsencode(tested.password))
        yield replace(tested.mail, password_file=b"/proc/self/fd/%d" % fd)
    finally:
        os.close(fd)
