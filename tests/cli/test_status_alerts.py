"""What ``status`` says of alerts: who is told, when it was last done, what waits until when and why."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from integrity.config import load_config
from integrity.model import FindingKind
from support.alerting import Teller
from support.catalogs import CatalogBox
from support.cli import Box
from support.clock import Clock
from support.daemons import SmallDaemon
from support.smtpsink import Rules, SmtpSink, mail_toml

GROUP_S = 120
HOUR_S = 3600


@pytest.fixture
def teller(integrity: Box, sink: SmtpSink) -> Iterator[Teller]:
    """Deliver from the catalog of the box to one recipient, beginning a quarter of an hour ago."""
    config = integrity.configure(mail_toml(sink.port))
    with CatalogBox(bytes(integrity.catalog)) as box:
        yield Teller(box, load_config(bytes(config)), clock=Clock(time.time() - 900))


@pytest.fixture
def service(integrity: Box, teller: Teller) -> Iterator[None]:
    """Have a service run that sends nothing by itself."""
    with SmallDaemon(integrity):
        yield


def find_note(teller: Teller, name: bytes) -> None:
    """Find something that is not grave."""
    teller.find(name, FindingKind.UNSTABLE, blocks=(), certainty=None)


def use_up_limit(teller: Teller) -> int:
    """Send as many mails as may leave within an hour; return when the first of them left."""
    times = []
    for number in range(5):
        find_note(teller, b"%d" % number)
        teller.tick(after=GROUP_S)
        times.append(int(teller.clock.now))
    return times[0]


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def local(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).astimezone().strftime("%Y-%m-%d %H:%M")


@pytest.mark.usefixtures("service")
def test_findings_beyond_the_limit_are_said_to_wait(integrity: Box, teller: Teller, sink: SmtpSink) -> None:
    """How many, until when, and that the limit of mails is why: status is asked when no mail comes."""
    first_at = use_up_limit(teller)
    teller.clock.now = time.time()
    noticed_at = teller.clock.now
    find_note(teller, b"a")
    find_note(teller, b"b")
    teller.tick()
    text, alerts = integrity.run("status", expect=3).stdout, integrity.get_object("alerts", "status")

    assert 5 == len(sink.received)
    assert (2, "limit") == (alerts["findings_waiting"], alerts["waits_for"])
    assert (iso(noticed_at), iso(first_at + HOUR_S)) == (alerts["waiting_since"], alerts["next_mail_at"])
    assert f"  waiting    2 findings, the first since {local(noticed_at)}; next mail {local(first_at + HOUR_S)}" in text
    assert "at most 5 mails about new findings are sent within an hour" in text
    assert "integrity findings" in text


@pytest.mark.usefixtures("service")
def test_findings_of_the_same_moments_are_said_to_share_a_mail(integrity: Box, teller: Teller) -> None:
    """What was just found is sent soon, and the setting that decides how soon is named."""
    teller.clock.now = time.time()
    find_note(teller, b"a")
    text, alerts = integrity.run("status", expect=3).stdout, integrity.get_object("alerts", "status")

    assert (1, "group") == (alerts["findings_waiting"], alerts["waits_for"])
    assert iso(teller.clock.now + GROUP_S) == alerts["next_mail_at"]
    assert "findings within 2 min share a mail ([alerts] group)" in text


@pytest.mark.usefixtures("service")
def test_grave_finding_is_not_said_to_wait_for_the_limit(integrity: Box, teller: Teller) -> None:
    """The first of its kind leaves after the time of grouping."""
    use_up_limit(teller)
    teller.clock.now = time.time()
    teller.find(b"grave")
    alerts = integrity.get_object("alerts", "status")

    assert ("group", iso(teller.clock.now + GROUP_S)) == (alerts["waits_for"], alerts["next_mail_at"])


def test_nothing_waits_once_it_is_sent(integrity: Box, teller: Teller) -> None:
    """No line speaks of waiting."""
    find_note(teller, b"a")
    teller.tick(after=GROUP_S)
    text, alerts = integrity.run("status", expect=3).stdout, integrity.get_object("alerts", "status")

    assert "  waiting" not in text
    assert (0, None, None, None) == tuple(
        alerts[name] for name in ("findings_waiting", "waiting_since", "next_mail_at", "waits_for")
    )


def test_without_a_service_nothing_is_sent_and_that_is_said(integrity: Box, teller: Teller) -> None:
    """No time is promised at which nobody will send anything."""
    find_note(teller, b"a")
    text, alerts = integrity.run("status", expect=3).stdout, integrity.get_object("alerts", "status")

    assert "next mail" not in text
    assert (1, "service", None) == (alerts["findings_waiting"], alerts["waits_for"], alerts["next_mail_at"])


def test_without_a_channel_no_mail_is_promised(integrity: Box, teller: Teller) -> None:
    """What was found waits for somebody who can be told."""
    find_note(teller, b"a")
    integrity.configure("")
    text, alerts = integrity.run("status", expect=3).stdout, integrity.get_object("alerts", "status")

    assert "next mail" not in text
    assert "  waiting    1 finding, the first since" in text
    assert (1, "channel", None) == (alerts["findings_waiting"], alerts["waits_for"], alerts["next_mail_at"])


@pytest.mark.usefixtures("service")
def test_recipients_and_the_last_mail_are_shown(integrity: Box, teller: Teller) -> None:
    """By name, but no token, password or address of a service; before the first alert there was none."""
    command, apprise, heartbeat = (
        'command = ["/opt/tell me", "x"]\n',
        'apprise = ["ntfy://tok3n@host/x"]\n',
        'heartbeat_url = "https://hc.example.org/s3cret"\n',
    )
    before = integrity.run("status", expect=0).stdout
    find_note(teller, b"a")
    teller.tick(after=GROUP_S)
    toml = f'[mail]\nto = ["me@example.org", "you@example.org"]\n[alerts]\n{command}{apprise}{heartbeat}'
    integrity.configure(toml)
    text, alerts = integrity.run("status", expect=3).stdout, integrity.get_object("alerts", "status")
    names = ["mail:me@example.org", "mail:you@example.org", "apprise:ntfy", "command:/opt/tell me", "heartbeat"]

    assert "Alerts: to mail:me@example.org; none sent yet\n" in before
    assert f"Alerts: to {', '.join(names)}; last sent {local(teller.clock.now)}\n" in text
    assert names == alerts["recipients"]
    assert (True, iso(teller.clock.now)) == (alerts["is_anybody_told"], alerts["last_sent_at"])
    assert "tok3n" not in f"{text}{alerts}"
    assert "s3cret" not in f"{text}{alerts}"


def test_without_a_channel_nobody_will_be_told(integrity: Box, teller: Teller) -> None:
    """The settings that change that are named, and the file in which they stand; also while all is well."""
    config = integrity.configure("")
    text, alerts = integrity.run("status", expect=0).stdout, integrity.get_object("alerts", "status")

    assert "Alerts: nobody will be told of damage: no channel is configured\n" in text
    assert f"  set `to` in [mail], or `apprise`, `command` or `heartbeat_url` in [alerts], in {config}\n" in text
    assert ([], False, None) == (alerts["recipients"], alerts["is_anybody_told"], alerts["last_sent_at"])
    assert "" == integrity.run("-q", "status", expect=0).stdout


def test_without_a_service_nobody_will_be_told(integrity: Box, teller: Teller) -> None:
    """Recipients are configured, and nothing runs that would send them anything."""
    text, alerts = integrity.run("status", expect=0).stdout, integrity.get_object("alerts", "status")

    assert "Alerts: nobody will be told of damage while the service does not run\n" in text
    assert "  once it runs: to mail:me@example.org (none sent yet)\n" in text
    assert (["mail:me@example.org"], False) == (alerts["recipients"], alerts["is_anybody_told"])


@pytest.mark.usefixtures("service")
def test_messages_that_no_channel_took_are_counted(integrity: Box, teller: Teller, sink: SmtpSink) -> None:
    """With the channel that fails, since when and why, right below."""
    sink.rules = Rules(data="421 down")
    find_note(teller, b"a")
    teller.tick(after=GROUP_S)
    text, alerts = integrity.run("status", expect=3).stdout, integrity.get_object("alerts", "status")
    failed = f"alerts by mail:me@example.org fail since {local(teller.clock.now)}: "

    assert (0, 1) == (alerts["findings_waiting"], alerts["messages_waiting"])
    assert "; none sent yet\n  unsent     1 message, written " in text
    assert failed in text.partition("  unsent ")[2]
