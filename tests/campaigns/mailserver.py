"""
A mail server that refuses, lies, stalls and cuts: no mail is lost, and none comes twice but where nobody can know.

A round: ``alert test`` is run, then a finding is told to one or two recipients, by the service's own delivery with a
clock that the campaign sets: it waits up to an hour between two tries. As long as the fault lasts, what the server has
stored and what the catalog takes for sent are held against each other after each try; then the server is honest.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from campaigns.impatient import SENDING_S, SILENCE_S
from integrity.alerts.channels import make_channels
from integrity.alerts.smtp import SmtpChannel
from integrity.catalog.outbox import LONGEST_WAIT_S
from integrity.config import Config, Mail, MailTls, MailTransport
from support.alerting import HOST, Teller
from support.catalogs import CatalogBox
from support.cli import Box
from support.proxies import LineProxy, LineRules
from support.servers import free_port, make_certificate
from support.smtpsink import Received, Rules, SmtpSink
from support.stored import query
from support.warmstart import WarmStart

_DEADLINE_S = 60.0
_GROUP_S = 120
_SESSION_BYTES = 420  # what a server says in a whole session
_REPLIES = 12
_RECIPIENTS = ("first@example.org", "second@example.org")
_REFUSALS = {
    "mail 4xx": Rules(mail="451 later"),
    "mail 5xx": Rules(mail="550 never"),
    "rcpt 4xx": Rules(rcpt={"*": "450 busy"}),
    "rcpt 5xx": Rules(rcpt={"*": "550 unknown"}),
    "one rcpt 5xx": Rules(rcpt={_RECIPIENTS[0]: "553 not you"}),
    "data 4xx": Rules(data="452 no room"),
    "data 5xx": Rules(data="554 not wanted"),
    "cut before 250": Rules(cuts=True),
}
_WORDS = {
    "421": b"421 going down",
    "4xx": b"451 later",
    "5xx": b"554 never",
    "odd code": b"999 what",
    "odd success": b"299 why not",
    "continue": b"354 go on",
    "no code": b"what?",
    "garbage": bytes(range(128, 256)) * 3,
    "long": b"250 " + b"x" * 20_000,
    "unended": b"250-more is to come",
    "many lines": b"\r\n".join([b"451-no"] * 300 + [b"451 no"]),
}
_HONEST = frozenset(_REFUSALS) - {"cut before 250"}
_MORE_TRIES = 3
_LINE = ("cut", "stall", "garble", "trickle")
_CERTIFICATES = ("other certificate, STARTTLS", "other certificate, TLS")
FAULTS = [*_REFUSALS, *(f"reply {name}" for name in _WORDS), *_LINE, "nobody there", *_CERTIFICATES]
"""What goes wrong."""

_DELIVERIES = "SELECT message_id, channel, sent_at IS NOT NULL FROM delivery JOIN alert ON alert.id = alert_id"


class _Round(NamedTuple):
    fault: str
    source: random.Random
    home: Path
    recipients: tuple[str, ...]
    tls: MailTls


def run(
    seed: int,
    rounds: Iterable[int],
    only: Sequence[str],
    folder: Path,
    warm: WarmStart,
    add: Callable[[str, str, Sequence[str], str], None],
) -> None:
    """
    Play rounds.

    Args:
        seed: of the campaign.
        rounds: their numbers.
        only: faults; all if it is empty.
        folder: for catalogs.
        warm: where runs of the program come from.
        add: takes server, fault, what is wrong, and what repeats the round.
    """
    logging.disable()  # of the delivery and of the servers: each failure is wanted
    folder = folder / "mail"
    folder.mkdir()
    os.environ["SSL_CERT_FILE"] = str(folder / "cert.pem")
    faults = [each for each in FAULTS if not only or each in only]
    for number in rounds:
        source = random.Random(f"{seed} smtp {number}")
        fault = faults[number % len(faults)]
        place = folder / str(number)
        place.mkdir()
        tls = {_CERTIFICATES[0]: MailTls.STARTTLS, _CERTIFICATES[1]: MailTls.TLS}.get(fault, MailTls.NONE)
        played = _Round(fault, source, place, _RECIPIENTS[: source.randrange(1, 3)], tls)

        with ExitStack() as stack:
            wrong = _play(played, warm, stack)
        add("smtp", fault, wrong, f"--seed {seed} --only smtp --round {number}: {fault}")


def _play(played: _Round, warm: WarmStart, stack: ExitStack) -> list[str]:
    port, home = free_port(), played.home
    line = stack.enter_context(LineProxy(port)) if played.fault in _LINE else None
    mail_port = port if line is None else line.port
    mail = Mail(to=played.recipients, transport=MailTransport.SMTP, host="127.0.0.1", port=mail_port, tls=played.tls)
    config = Config(catalog=b"/unused", mail=mail)
    box = stack.enter_context(CatalogBox(bytes(home / "catalog.db")))
    channels = [
        replace(each, timeout_s=SILENCE_S, total_s=SENDING_S)
        for each in make_channels(config, hostname=HOST)
        if isinstance(each, SmtpChannel)
    ]
    teller = Teller(box, config, channels=channels)
    post, wrong = _Post(Box(home)), []
    with ExitStack() as bad:
        if played.fault != "nobody there":
            (home / "other").mkdir()
            post.server = bad.enter_context(_open_server(played, port, home / "other"))
        _fail(played, post.server, line)
        wrong += _test_alert(played, mail, post, warm)
        teller.find(b"2019/img 7.jpg")
        teller.tick()
        for nth in range(played.source.randrange(1, 4)):
            if played.source.random() < 0.3:
                teller.restart()
            teller.tick(after=LONGEST_WAIT_S if nth else _GROUP_S)
            wrong += post.look(is_honest=played.fault in _HONEST)
    if line is not None:
        line.rules = LineRules()
    post.turn_over()
    post.server = stack.enter_context(_open_server(played, port, home.parent))
    for _ in range(_MORE_TRIES):
        teller.tick(after=LONGEST_WAIT_S)
        wrong += post.look(is_honest=True)
    return wrong + post.judge(played.recipients)


def _open_server(played: _Round, port: int, certificate: Path) -> SmtpSink:
    """Make the server, with a certificate in a folder: the one above is what the program trusts."""
    if played.tls is MailTls.NONE:
        return SmtpSink(port=port)
    return SmtpSink(port=port, certificate=make_certificate(certificate), is_implicit=played.tls is MailTls.TLS)


def _fail(played: _Round, server: SmtpSink | None, line: LineProxy | None) -> None:
    fault, source = played.fault, played.source
    kind, _, word = fault.partition(" ")
    if line is not None:
        place = source.randrange(1, _SESSION_BYTES)
        if fault == "trickle":
            line.rules = LineRules(chunk_bytes=1, pause_s=0.2)
            return
        names = {"cut": "cut_after", "stall": "hang_after", "garble": "garble_after"}
        line.rules = LineRules(**{names[fault]: place})
    elif server is not None and fault in _REFUSALS:
        server.rules = replace(_REFUSALS[fault])
    elif server is not None and kind == "reply":
        server.rules = Rules(instead={source.randrange(1, _REPLIES): _WORDS[word]})


class _Post:
    """
    What servers have stored of each mail for each recipient, and what the catalog takes for sent.

    Attributes:
        server: the present one.
    """

    def __init__(self, box: Box) -> None:
        self.server: SmtpSink | None = None
        self._box = box
        self._former: list[Received] = []
        self._counts: Counter[tuple[object, object]] = Counter()
        self._sent: set[tuple[object, object]] = set()

    def turn_over(self) -> None:
        """Go on with another server."""
        self._former += self.server.received if self.server else []
        self.server = None

    def count(self) -> Counter[tuple[object, object]]:
        """Count what was stored, by Message-ID and channel."""
        stored = [*self._former, *(self.server.received if self.server else [])]
        return Counter((one.mail["Message-ID"], f"mail:{to}") for one in stored for to in one.recipients)

    def look(self, *, is_honest: bool) -> list[str]:
        """
        Say what is wrong after the delivery had its turn.

        Args:
            is_honest: a server that refuses has not stored the mail.
        """
        counts, wrong, sent = self.count(), [], set()
        for message, channel, is_sent in query(self._box, _DELIVERIES):
            key = (message, channel)
            came = counts[key] - self._counts[key]
            if is_sent:
                sent.add(key)
            if key in self._sent and came:
                wrong.append(f"{key} was sent again though the server had said that it has it")
            elif came > 1:
                wrong.append(f"{key} was sent {came} times in one turn")
            elif is_sent and key not in self._sent and not came:
                wrong.append(f"{key} is taken for sent, and the server does not have it")
            elif is_honest and came and not is_sent:
                wrong.append(f"{key} was stored and acknowledged, and is not taken for sent")
        if lost := self._sent - sent:
            wrong.append(f"no longer taken for sent: {lost}")
        self._counts, self._sent = counts, sent
        return wrong

    def judge(self, recipients: Sequence[str]) -> list[str]:
        """Say what is wrong at the end, when the server has been honest for hours."""
        expected = {f"mail:{to}" for to in recipients}
        deliveries = query(self._box, _DELIVERIES)
        wrong = [f"{key} is not sent" for *key, is_sent in deliveries if not is_sent]
        if {channel for _, channel, _ in deliveries} != expected:
            wrong.append(f"queued for {deliveries}, not {expected}")
        return wrong


def _test_alert(played: _Round, mail: Mail, post: _Post, warm: WarmStart) -> list[str]:
    """Run ``alert test``: exit 0 if all have it, else 3, and words."""
    box = Box(played.home)
    box.configure(
        f'[mail]\nto = {json.dumps(played.recipients)}\ntransport = "smtp"\nhost = "{mail.host}"\n'
        f'port = {mail.port}\ntls = "{mail.tls.value}"\n'
    )
    environment = box.environment | {"SSL_CERT_FILE": os.environ["SSL_CERT_FILE"]}
    try:
        code, out, err = warm.run(["alert", "test"], environment, None, _DEADLINE_S)
    except TimeoutError as error:
        return [f"alert test did not end within {_DEADLINE_S:g} s: {error}"]
    words = (out + err).decode("utf-8", "backslashreplace")
    wrong = [] if code in (0, 3) else [f"alert test: exit {code}: {words}"]
    if "Traceback" in words or "a bug" in words:
        wrong.append(f"alert test: {words}")
    stored = post.count()
    if code == 0 and stored.total() != len(played.recipients):
        wrong.append(f"alert test exits 0 with {stored}: {words}")
    return wrong
