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
from typing import TYPE_CHECKING

import click

from integrity.cli.console import stop_on_signals
from integrity.cli.setup_questions import NONE, Dialog, Given, parse_choice, parse_names, wrap
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
class TestedWay:
    """
    How mails are sent, or how phones are reached.

    Args:
        config: has the settings of this way; ``password_file`` is empty while the password is only known here.
        password: for the mail server; empty if there is none, or a file has it.
        problem: why nothing could be sent; empty if that worked, or was not tried.
        is_confirmed: the person said that it arrived.
    """

    config: Config
    password: str = ""
    problem: str = ""
    is_confirmed: bool = False

    @property
    def is_wanted(self) -> bool:
        return bool(self.config.mail.to or self.config.alerts.apprise)


_KEEP = "keep"


def ask_mail(dialog: Dialog) -> TestedWay:
    """
    Ask where mails go, and try it; ask again if they don't arrive. The first time, test that damage is found.

    Raises:
        AppError: the test failed: damage is not found here.
    """
    ways = find_mail_ways(dialog.base.mail, gains_privileges=dialog.gains_privileges)
    host = socket.gethostname().partition(".")[0]
    send = _test_everything

    def attempt(given: Given) -> TestedWay:
        nonlocal send
        way = _ask_recipients(dialog, ways, given.mail_server or "", given.mail_to)
        if not dialog.tests:
            return way
        dialog.output.say()
        dialog.output.say("Testing ...")
        with _password_file(way) as config:
            problem = send(dialog.output, config)
        send = _send
        return replace(way, problem=problem)

    hint = f'Its subject begins with "[integrity] {host}:". Look in the spam folder, too.'
    return _repeat(dialog, attempt, "Did the mail arrive?", hint, "another address or server")


def ask_push(dialog: Dialog) -> TestedWay:
    """Ask which phones get a message, too, and try it; ask again if none arrives."""
    if find_spec("apprise") is None:
        remedy = f"messages to a phone need packages that are not installed; {how_to_install('notify')}"
        if dialog.given.push not in ((), (NONE,)):
            raise ConfigError(f"--push: {remedy}")
        if dialog.asker.asks:
            dialog.output.tell()
            dialog.output.tell(wrap(f"Not asked: {remedy}"))
        return TestedWay(Config(alerts=Alerts(apprise=dialog.base.alerts.apprise)))

    def attempt(given: Given) -> TestedWay:
        urls = _parse_services(*given.push) if given.push else _ask_services(dialog)
        config = Config(alerts=Alerts(apprise=urls))
        return TestedWay(config, problem=_send(dialog.output, config) if dialog.tests and urls else "")

    return _repeat(dialog, attempt, "Did the message arrive on your phone?", "", "another service")


def _repeat(
    dialog: Dialog, attempt: Callable[[Given], TestedWay], question: str, hint: str, alternative: str
) -> TestedWay:
    """Ask and try, until it works or the person is content; what was given as an option is tried once."""
    given = dialog.given
    while True:
        tested = attempt(given)
        if not (dialog.asker.asks and dialog.tests and tested.is_wanted):
            return tested
        if not tested.problem:
            answer = dialog.asker.ask(
                f"{question} yes, no, or later", "later", parse_choice("yes", "no", "later"), [hint] if hint else []
            )
            if answer != "no":
                return replace(tested, is_confirmed=answer == "yes")
        words = f"Try {alternative}, or keep this one? again, or keep"
        if dialog.asker.ask(words, "again", parse_choice("again", "keep")) == "keep":
            return tested
        given = given._replace(mail_to=(), mail_server=None, push=())


def _ask_services(dialog: Dialog) -> tuple[str, ...]:
    before = dialog.base.alerts.apprise

    def parse(text: str) -> tuple[str, ...]:
        names = parse_names(text)
        return before if before and names == [_KEEP] else _parse_services(*names)

    explanation = [*views.PUSH_EXPLANATION, *views.describe_push_so_far(before)]
    return dialog.asker.ask("Should your phone get alerts, too?", _KEEP if before else NONE, parse, explanation)


def _parse_services(*urls: str) -> tuple[str, ...]:
    """Check URLs for apprise; the word none stands for no URL."""
    from integrity.alerts.apprise import find_problem

    chosen = tuple(url for url in urls if url != NONE)
    for url in chosen:
        if find_problem(url) is not None:
            raise ConfigError("apprise knows no service with such a URL; write ntfy://TOPIC, for example")
    return chosen


def _ask_recipients(dialog: Dialog, ways: MailWays, server: str, to: tuple[str, ...]) -> TestedWay:
    before = dialog.base.mail
    if to != (NONE,):
        _require_addresses(to)
    if not ways.is_open and not server and to != (NONE,) and dialog.asker.asks:
        server = _ask_server(dialog, ways, before)
    mail, password = make_mail_settings(before, (), server, ways), ""
    if dialog.given.mail_password_file:
        mail = replace(mail, password_file=os.path.realpath(dialog.given.mail_password_file))
    elif mail.user and not mail.password_file and dialog.asker.asks:
        password = dialog.asker.ask_secret(f"Password of {mail.user} at {mail.host} (not shown)")
    if not to and (ways.is_open or server or before.to):
        to = _ask_addresses(dialog, ways, mail)
    mail = make_mail_settings(mail, () if to == (NONE,) else to, server, ways)
    return TestedWay(Config(mail=mail, alerts=replace(dialog.base.alerts, apprise=())), password)


def _ask_server(dialog: Dialog, ways: MailWays, before: Mail) -> str:
    def parse(text: str) -> str:
        if text.lower() in ("", NONE, "-"):
            return ""
        make_mail_settings(before, (), text, ways)
        return text

    explanation = [
        views.describe_mail_ways(ways),
        "The server of your mail provider: submission://USER@HOST, or smtps://USER@HOST; or none.",
    ]
    return dialog.asker.ask("Through which server can mails be sent?", NONE, parse, explanation)


def _ask_addresses(dialog: Dialog, ways: MailWays, mail: Mail) -> tuple[str, ...]:
    def parse(text: str) -> tuple[str, ...]:
        return _require_addresses(tuple(parse_names(text))) or (NONE,)

    own = mail.user if "@" in mail.user else ways.local_name if ways.is_open else NONE
    default = ", ".join(dialog.base.mail.to) or own
    explanation = [views.describe_mail_ways(ways)] if ways.is_open else []
    explanation += ["You get mail if something is wrong, and once a month that all is well. Addresses, or none."]
    return dialog.asker.ask("Where should mails go?", default, parse, explanation)


def _test_everything(output: Output, config: Config) -> str:
    """Run the self-test; return why no mail was accepted."""
    from integrity.service.selftest import Stage, run_self_test

    problem = ""
    with stop_on_signals() as stop, _without_log(output):
        test = run_self_test(config, hostname=socket.gethostname(), stop=stop, needs_channel=False)
        with closing(test) as steps:
            for step in steps:
                _tell_step(output, step)
                if not step.is_ok and step.stage is not Stage.ALERT:
                    raise AppError(f"the self-test failed: {step.seen}; nothing was changed")
                problem = problem or ("" if step.is_ok else f"{step.channel}: {step.seen}")
        if stop.is_set():
            raise click.Abort
    return problem


@contextmanager
def _without_log(output: Output) -> Iterator[None]:
    """Keep warnings of the log from the terminal: what they say is told in the dialog."""
    logging.disable(logging.NOTSET if output.verbosity else logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _tell_step(output: Output, step: SelfTestStep) -> None:
    from integrity.service.selftest import Stage

    fields: JsonObject = {"stage": step.stage.value, "is_ok": step.is_ok, "seen": step.seen, "channel": step.channel}
    output.give("self_test_step", fields)
    done = {
        Stage.SCRUB: "one bit of a test file was flipped, and a scrub found it",
        Stage.ALERT: f"{printable(step.channel or '')} accepted a test message",
    }
    if not step.is_ok:
        line = wrap(f"   FAILED  {printable(f'{step.channel or step.stage.value}: {step.seen}')}")
        output.tell(line.replace("FAILED", output.style("FAILED", "red"), 1))
    elif step.stage in done:
        output.say(f"   {output.style('ok', 'green')}      {done[step.stage]}")


def _send(output: Output, config: Config) -> str:
    """Send a test message; return why it was not accepted."""
    from integrity.alerts.channels import send_test
    from integrity.service.selftest import SelfTestStep, Stage

    with _without_log(output):
        results = send_test(config)
    for name, error in results:
        _tell_step(output, SelfTestStep(Stage.ALERT, error is None, error or "accepted a test message", name))
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
def _password_file(way: TestedWay) -> Iterator[Config]:
    """Give settings with which the server can be used now; the password touches no disk."""
    if not way.password:
        yield way.config
        return
    fd = os.memfd_create("integrity-password")
    try:
        os.write(fd, os.fsencode(way.password))
        yield replace(way.config, mail=replace(way.config.mail, password_file=b"/proc/self/fd/%d" % fd))
    finally:
        os.close(fd)
