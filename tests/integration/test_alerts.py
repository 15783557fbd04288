"""Alerts through real servers and programs: told once, never lost, and read back as a person would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from integrity.alerts.channels import ChannelError, make_channels, send_test
from integrity.alerts.command import CommandChannel
from integrity.alerts.compose import Composer
from integrity.alerts.delivery import back_off_s
from integrity.alerts.heartbeat import HEARTBEAT, Heartbeat
from integrity.alerts.smtp import SmtpChannel
from integrity.catalog import findings, outbox
from integrity.catalog.outbox import ChannelState
from integrity.config import Alerts, Config, Mail, MailTls, MailTransport
from integrity.model import FindingKind
from support.alerting import HOST, Teller, mail_config
from support.catalogs import DAY_S, NOW, CatalogBox
from support.proxies import LineProxy, LineRules
from support.servers import SilentServer, WebSink, free_port, make_certificate
from support.smtpsink import Received, Rules, SmtpSink
from support.waiting import wait_until

GROUP_S = 120
HOUR_S = 3600


@pytest.fixture
def teller(box: CatalogBox, sink: SmtpSink) -> Teller:
    """Deliver to one recipient through the mail server."""
    return Teller(box, mail_config(sink.port))


def subjects(sink: SmtpSink) -> list[str]:
    return [str(received.mail["Subject"]) for received in sink.received]


def states(box: CatalogBox) -> dict[str, ChannelState]:
    with box.catalog.read() as c:
        return {state.name: state for state in outbox.channel_states(c)}


# What is told, and when


def test_mail_names_file_block_and_next_step(teller: Teller, sink: SmtpSink) -> None:
    """Who reads it on a telephone knows machine, folder, file, place and what to type."""
    finding = teller.find(b"2019/img 7.jpg")
    teller.tick()
    assert [] == sink.received
    teller.tick(after=GROUP_S)
    (received,) = sink.received

    assert "[integrity] nas: 1 damaged photo in photos" == received.mail["Subject"]
    assert "/srv/photos/2019/img 7.jpg" in received.text
    assert "block 17 (counted from 0, 1 MiB each): bytes 17,825,792 to 18,874,367" in received.text
    assert "next:  integrity explain '/srv/photos/2019/img 7.jpg'" in received.text
    assert "<code>/srv/photos/2019/img 7.jpg</code>" in received.html
    assert "block 17" in received.html
    assert "auto-generated" == received.mail["Auto-Submitted"]
    assert str(finding.id) == received.mail["X-Integrity-Incident"]
    assert "integrity@nas.example.org" == received.mail["From"]
    assert received.mail["Date"].datetime.timestamp() == NOW + GROUP_S
    assert received.mail["Message-ID"].endswith("@nas.example.org>")


def test_findings_of_the_same_moments_share_a_mail(teller: Teller, sink: SmtpSink) -> None:
    """The gravest comes first, whatever came first."""
    teller.find(b"gone", FindingKind.MISSING, blocks=(), certainty=None)
    teller.tick()
    teller.clock.now += 60
    teller.find(b"rotten")
    teller.find(b"rotten too")
    assert 60 == teller.tick()
    teller.tick(after=60)
    (received,) = sink.received

    assert "[integrity] nas: 2 damaged files, 1 file missing in photos" == received.mail["Subject"]
    assert received.text.index("/rotten too") < received.text.index("/gone")


def test_silence_until_the_finding_changes(teller: Teller, sink: SmtpSink) -> None:
    """Found again by each scrub, it is told once; with more damage it is told again, as a change."""
    teller.find(b"a")
    teller.tick(after=GROUP_S)
    for _ in range(5):
        teller.clock.now += HOUR_S
        teller.find(b"a")
        teller.tick(after=GROUP_S)
    assert 1 == len(sink.received)

    teller.find(b"a", blocks=(17, 18))
    teller.tick()
    teller.tick(after=GROUP_S)
    assert "blocks 17-18" in sink.received[1].text
    assert "has changed since" in sink.received[1].text


def test_open_findings_are_reminded_of_once_a_day(teller: Teller, sink: SmtpSink) -> None:
    """Acknowledged ones are not; resolved ones are told with it."""
    first, second, third = (teller.find(name) for name in (b"a", b"b", b"c"))
    teller.tick(after=GROUP_S)
    with teller.box.catalog.transaction() as c:
        findings.silence(c, [second.id])
    for _ in range(47):
        teller.tick(after=HOUR_S)
    assert 2 == len(sink.received)
    reminder = sink.received[1]
    assert "[integrity] nas: still 2 damaged files in photos" == reminder.mail["Subject"]
    assert "/photos/b" not in reminder.text

    teller.resolve(third.id)
    teller.tick(after=HOUR_S)
    digest = sink.received[2]
    assert "[integrity] nas: still 1 damaged file in photos; 1 resolved" == digest.mail["Subject"]
    assert "Resolved:\nDAMAGED (bit rot)  [finding 3]: repaired  /srv/photos/c\n" in digest.text
    assert f"finding {first.id}]" in digest.text


def test_all_clear_when_the_last_is_resolved(teller: Teller, sink: SmtpSink) -> None:
    """At once, and once."""
    first, second = teller.find(b"a"), teller.find(b"b")
    teller.tick(after=GROUP_S)
    teller.resolve(first.id)
    teller.tick()
    assert 1 == len(sink.received)
    teller.resolve(second.id)
    teller.tick()
    teller.tick(after=2 * DAY_S)

    assert "[integrity] nas: all clear: 2 findings resolved, none open" == subjects(sink)[1]
    assert 2 == len(sink.received)


def test_all_clear_can_be_switched_off(box: CatalogBox, sink: SmtpSink) -> None:
    """With `all_clear = false` the end is not told."""
    teller = Teller(box, mail_config(sink.port, alerts=Alerts(all_clear=False)))
    finding = teller.find(b"a")
    teller.tick(after=GROUP_S)
    teller.resolve(finding.id)
    teller.tick(after=2 * DAY_S)

    assert 1 == len(sink.received)


def test_dying_device_is_one_mail(teller: Teller, sink: SmtpSink) -> None:
    """Not five thousand, and none of 5,000 lines."""
    for number in range(300):
        teller.find(b"%d" % number, FindingKind.UNREADABLE, certainty=None)
    teller.find(None, FindingKind.DEVICE_FAILING)
    teller.tick(after=GROUP_S)
    for _ in range(23):
        teller.tick(after=HOUR_S)
    (received,) = sink.received

    assert "[integrity] nas: 1 disk failing in photos" == received.mail["Subject"]
    assert "300 files that could not be read are not listed one by one" in received.text


def test_mail_has_at_most_200_lines(teller: Teller, sink: SmtpSink) -> None:
    """It says how many it leaves out, and where they are."""
    for number in range(300):
        teller.find(b"%04d/a" % number)
    teller.tick(after=GROUP_S)
    (received,) = sink.received
    lines = received.text.splitlines()

    assert 150 < len(lines) <= 200
    listed = sum(1 for line in lines if "[finding" in line)
    assert f"and {300 - listed:,} more: integrity findings" == lines[-1]
    assert listed == received.html.count("[finding")


def test_damage_found_for_hours_does_not_mail_every_two_minutes(teller: Teller, sink: SmtpSink) -> None:
    """At most five such mails an hour, and nothing is left out in the end."""
    for number in range(60):
        teller.find(b"%02d/a" % number)
        teller.tick(after=GROUP_S)
    assert 5 <= len(sink.received) <= 10
    for _ in range(3):
        teller.tick(after=HOUR_S)
    texts = "".join(received.text for received in sink.received)

    assert all(f"/srv/photos/{number:02}/a\n" in texts for number in range(60))


@pytest.mark.parametrize("kind", [FindingKind.ROT, FindingKind.MASS_CHANGE])
def test_grave_finding_waits_for_no_limit(
    teller: Teller, sink: SmtpSink, caplog: pytest.LogCaptureFixture, kind: FindingKind
) -> None:
    """However many mails there were about other things; more of its kind wait with the rest, and the log says so."""
    for number in range(10):
        teller.find(b"%02d" % number, FindingKind.UNSTABLE, blocks=(), certainty=None)
        teller.tick(after=GROUP_S)
    assert 5 == len(sink.received)
    assert "alerts_wait" in caplog.text
    teller.find(b"grave", kind)
    teller.tick()
    teller.tick(after=GROUP_S)
    assert 6 == len(sink.received)
    assert "/srv/photos/grave" in sink.received[-1].text
    teller.find(b"another", kind)
    teller.tick(after=GROUP_S)
    teller.tick(after=GROUP_S)
    assert 6 == len(sink.received)


def test_sign_of_life_comes_each_month(teller: Teller, sink: SmtpSink) -> None:
    """Even if all is well, counting from when somebody could be told."""
    file_id = teller.box.record(b"a")
    teller.box.damage("UPDATE file SET verified_at = ? WHERE id = ?", NOW + DAY_S, file_id)
    teller.tick()
    for _ in range(61):
        teller.tick(after=DAY_S)

    assert subjects(sink) == [
        "[integrity] nas: alive: 1 file (4.9 KiB) verified",
        "[integrity] nas: alive: 0 files (0 B) verified",
    ]


@pytest.mark.parametrize("jump_s", [-365 * DAY_S, -10 * DAY_S, 4400 * DAY_S])
def test_clock_that_jumps_repeats_no_reminder(teller: Teller, sink: SmtpSink, jump_s: int) -> None:
    """A reminder that is due is sent once a jump, back or ahead, and then a day later; what is found then is told."""
    teller.find(b"a")
    teller.tick(after=GROUP_S)
    teller.tick(after=DAY_S)
    for jump in (jump_s, -jump_s):
        before = len(subjects(sink))
        teller.clock.now += jump
        for _ in range(3):
            teller.tick(after=1)
        jumped = subjects(sink)[before:]
        assert 1 >= len([subject for subject in jumped if "alive" not in subject]), jumped
    before = len(subjects(sink))
    teller.tick(after=DAY_S)
    assert 1 == len([subject for subject in subjects(sink)[before:] if "alive" not in subject])
    teller.clock.now += jump_s
    teller.find(b"b")
    teller.tick()
    teller.tick(after=GROUP_S)
    assert any("/srv/photos/b" in received.text for received in sink.received)


@pytest.mark.parametrize(
    "name",
    [
        b"a\nBcc: evil@example.org\n\nb",
        b"\xff\xfe",
        b"<b>&amp;",
        "\u202egpj.exe".encode(),
        b"\r\n.\r\n",
        b"'; rm -rf ~",
    ],
)
def test_odd_names_stay_on_their_line(teller: Teller, sink: SmtpSink, name: bytes) -> None:
    """No name ends a line, a header or a mail, and none becomes HTML."""
    teller.find(name)
    teller.tick(after=GROUP_S)
    (received,) = sink.received
    shown = next(line for line in received.text.splitlines() if "[finding 1]" in line)

    assert shown.isprintable()
    assert ["me@example.org"] == list(received.recipients)
    assert received.mail["Bcc"] is None
    assert "<b>&amp;</code>" not in received.html
    assert "damaged: block 17" in received.text
    assert "next:  integrity explain " in received.text


def test_name_of_a_root_can_not_break_the_subject(box: CatalogBox, sink: SmtpSink) -> None:
    """A root's folder may be called anything."""
    box.damage("UPDATE root SET path = ?", b"/srv/a\nX-Spam: no\xff")
    teller = Teller(box, mail_config(sink.port))
    teller.find(b"a")
    teller.tick(after=GROUP_S)

    assert [r"[integrity] nas: 1 damaged file in a\nX-Spam: no\xff"] == subjects(sink)


# Servers that fail


def test_nothing_is_lost_while_the_server_is_down(box: CatalogBox) -> None:
    """Tried after 1, 2, 4 minutes up to an hour, over restarts, until it is there again."""
    port = free_port()
    teller = Teller(box, mail_config(port))
    teller.find(b"a")
    teller.tick(after=GROUP_S)
    assert "refused" in str(states(box)["mail:me@example.org"].last_error)
    tries = []
    for _ in range(8):
        (due,) = box_due_times(box)
        tries.append(due - teller.clock.now)
        teller.restart()
        teller.tick(after=due - teller.clock.now)
    assert [60, 120, 240, 480, 960, 1920, 3600, 3600] == tries
    assert 3600 == back_off_s(10**6)

    with SmtpSink(port=port) as sink:
        teller.tick(after=HOUR_S)
        assert ["[integrity] nas: 1 damaged file in photos"] == subjects(sink)
    assert states(box)["mail:me@example.org"].failing_since is None


def test_mail_that_is_no_longer_true_does_not_leave(box: CatalogBox) -> None:
    """Nothing of it: no mail, and no all-clear for what nobody was told of. A part: the rest, written anew."""
    port = free_port()
    teller = Teller(box, mail_config(port))
    alone = teller.find(b"a")
    teller.tick(after=GROUP_S)
    teller.resolve(alone.id)
    with SmtpSink(port=port) as sink:
        teller.tick(after=HOUR_S)
        assert [] == subjects(sink)
    first, _ = teller.find(b"b"), teller.find(b"c")
    teller.tick(after=GROUP_S)
    teller.resolve(first.id)
    with SmtpSink(port=port) as sink:
        teller.tick(after=HOUR_S)
        assert ["[integrity] nas: 1 damaged file in photos"] == subjects(sink)
        assert "/srv/photos/c" in sink.received[0].text


def test_all_clear_counts_what_it_lists(teller: Teller, sink: SmtpSink) -> None:
    """A finding that was removed with its root is said in a sentence of its own."""
    first, second = teller.find(b"a"), teller.find(b"b")
    teller.tick(after=GROUP_S)
    teller.resolve(first.id)
    with teller.box.catalog.transaction() as c:
        c.run("DELETE FROM finding WHERE id = ?", second.id)  # as with its root
    teller.tick()

    assert "[integrity] nas: all clear: 1 finding resolved, none open" == subjects(sink)[1]
    assert "1 finding was about a folder that is no longer watched." in sink.received[1].text


def test_change_that_was_never_told_is_told_although_another_part_of_its_mail_is_over(box: CatalogBox) -> None:
    """It was told once before it changed, so its end is told as well."""
    port = free_port()
    teller = Teller(box, mail_config(port))
    with SmtpSink(port=port) as sink:
        changed = teller.find(b"a", blocks=(1,))
        teller.tick(after=GROUP_S)
    other = teller.find(b"b")
    teller.find(b"a", blocks=(1, 2))
    teller.tick(after=GROUP_S)
    teller.resolve(other.id)
    with SmtpSink(port=port) as sink:
        teller.tick(after=HOUR_S)
        assert ["[integrity] nas: 1 damaged file in photos"] == subjects(sink)
        assert "bytes 1,048,576 to 2,097,151, 2,097,152 to 3,145,727" in sink.received[0].text
        teller.resolve(changed.id)
        teller.tick(after=GROUP_S)
    assert "all clear: 1 finding resolved" in subjects(sink)[-1]


@pytest.mark.parametrize("are_all_over", [True, False])
def test_channel_that_works_again_sends_what_is_still_true(box: CatalogBox, *, are_all_over: bool) -> None:
    """What another channel has told already is left as it was, as long as a part of it is true."""
    port = free_port()
    with SmtpSink() as good:
        works = make_channels(mail_config(good.port, "good@example.org"), hostname=HOST)
        fails = make_channels(mail_config(port, "bad@example.org"), hostname=HOST)
        teller = Teller(box, mail_config(port), channels=[*works, *fails])
        found = [teller.find(b"a"), teller.find(b"b")]
        teller.tick(after=GROUP_S)
        assert 1 == len(good.received)
        teller.resolve(*[one.id for one in found[: 2 if are_all_over else 1]])
        with SmtpSink(port=port) as sink:
            teller.tick(after=HOUR_S)
            told = subjects(sink)
    assert (["all clear" in subject for subject in told] == [True]) is are_all_over, told
    assert are_all_over or any("2 damaged files" in subject for subject in told)


def box_due_times(box: CatalogBox) -> list[int]:
    with box.catalog.read() as c:
        return c.column("SELECT next_try_at FROM delivery WHERE sent_at IS NULL")


@pytest.mark.parametrize("rules", [Rules(mail="451 later", times=2), Rules(rcpt={"*": "450 greylisted"}, times=2)])
def test_greylisted_mail_arrives_later(teller: Teller, sink: SmtpSink, rules: Rules) -> None:
    """A refusal for now is tried again after a minute."""
    sink.rules = rules
    teller.find(b"a")
    teller.tick(after=GROUP_S)
    teller.tick(after=59)
    assert 1 == sink.rules.times
    teller.tick(after=1)
    teller.tick(after=120)

    assert 1 == len(sink.received)


def test_refused_login_is_tried_hourly_and_told_otherwise(box: CatalogBox, tmp_path: Path) -> None:
    """The other channel tells of it once; with the right password all that waited arrives."""
    password, told = tmp_path / "password", tmp_path / "told"
    password.write_text("wrong\n")
    with SmtpSink(auth=("user", "right")) as sink:
        mail = Mail(
            to=("me@example.org",),
            transport=MailTransport.SMTP,
            host="127.0.0.1",
            port=sink.port,
            user="user",
            password_file=bytes(password),
        )
        config = Config(catalog=b"/c", mail=mail, alerts=Alerts(command=("sh", "-c", f"cat >> {told}")))
        teller = Teller(box, config)
        teller.find(b"a")
        teller.tick(after=GROUP_S)
        state = states(box)["mail:me@example.org"]
        assert state.is_permanent
        assert "the login was refused: 535" in str(state.last_error)
        assert [teller.clock.now + HOUR_S] == box_due_times(box)
        for _ in range(5):
            teller.tick(after=HOUR_S)
        objects = [json.loads(line) for line in told.read_text().splitlines()]
        assert ["incident", "channel"] == [each["kind"] for each in objects]
        assert "[integrity] nas: alerts by mail:me@example.org fail" == objects[1]["subject"]
        assert [] == sink.received

        password.write_text("right\n")
        teller.tick(after=HOUR_S)
        assert "user" == sink.received[0].login


def test_server_that_says_nothing_is_given_up_in_time(box: CatalogBox) -> None:
    """Its silence is an error like any other, and does not hold up the other channel."""
    with SilentServer() as silent, SmtpSink() as sink:
        mails = [mail_config(port).mail for port in (silent.port, sink.port)]
        channels = [
            SmtpChannel(mails[0], "first@example.org", HOST, timeout_s=0.2),
            SmtpChannel(mails[1], "second@example.org", HOST),
        ]
        teller = Teller(box, mail_config(1), channels=channels)
        teller.find(b"a")
        teller.tick(after=GROUP_S)

        assert 1 == len(sink.received)
        assert "timed out" in str(states(box)["mail:first@example.org"].last_error)


def test_server_that_never_comes_to_an_end_is_given_up_in_time(box: CatalogBox, sink: SmtpSink) -> None:
    """It says a byte now and then: each wait is short, all of them would last for hours."""
    with LineProxy(sink.port) as line:
        line.rules = LineRules(chunk_bytes=1, pause_s=0.1)
        mail = mail_config(line.port).mail
        channel = SmtpChannel(mail, "me@example.org", HOST, timeout_s=5, total_s=3)  # enough for a busy machine
        teller = Teller(box, mail_config(1), channels=[channel])
        teller.find(b"a")
        began = time.monotonic()
        teller.tick(after=GROUP_S)

        assert time.monotonic() - began < 60
        assert "not done within 3 s" in str(states(box)["mail:me@example.org"].last_error)
        line.rules = LineRules()
        teller.tick(after=HOUR_S)
    assert 1 == len(sink.received)


def test_each_sending_is_a_sign_of_life(box: CatalogBox) -> None:
    """Many recipients on a server that says nothing take longer than a thread that delivers may be silent."""
    with SilentServer() as silent:
        config = mail_config(silent.port, *(f"{number}@example.org" for number in range(5)))
        channels = [SmtpChannel(config.mail, to, HOST, timeout_s=0.1) for to in config.mail.to]
        teller = Teller(box, config, channels=channels)
        teller.find(b"a")
        teller.tick()
        teller.beats.clear()
        teller.tick(after=GROUP_S)

        assert 5 <= len(teller.beats)
        assert all(later - before < 0.5 for before, later in pairwise(teller.beats))


def test_endless_answer_is_kept_short(box: CatalogBox, sink: SmtpSink) -> None:
    """What a server says stands in the catalog, in the log and in mails: its beginning is enough."""
    sink.rules = Rules(instead={1: b"\r\n".join([b"554-no"] * 5000 + [b"554 no"])})
    teller = Teller(box, mail_config(sink.port))
    teller.find(b"a")
    teller.tick(after=GROUP_S)

    error = str(states(box)["mail:me@example.org"].last_error)
    assert "the server said: 554 no no" in error
    assert len(error) < 1000


def test_recipient_that_is_refused_does_not_concern_the_others(box: CatalogBox, sink: SmtpSink) -> None:
    """Who exists gets the mail, and is told who does not."""
    sink.rules = Rules(rcpt={"nobody@example.org": "550 no such user"})
    teller = Teller(box, mail_config(sink.port, "nobody@example.org", "me@example.org"))
    teller.find(b"a")
    teller.tick(after=GROUP_S)
    teller.tick(after=60)

    assert [("me@example.org",)] * 2 == [received.recipients for received in sink.received]
    assert "550 no such user" in sink.received[1].text
    assert "nobody@example.org, me@example.org" == sink.received[0].mail["To"]


def test_failure_for_an_hour_is_told_once_through_the_others(box: CatalogBox, sink: SmtpSink) -> None:
    """A blip is not."""
    sink.rules = Rules(rcpt={"slow@example.org": "451 later"})
    teller = Teller(box, mail_config(sink.port, "slow@example.org", "me@example.org"))
    teller.find(b"a")
    teller.tick(after=GROUP_S)
    for _ in range(59):
        teller.tick(after=60)
    assert 1 == len(sink.received)
    for _ in range(120):
        teller.tick(after=60)

    assert "[integrity] nas: alerts by mail:slow@example.org fail" == subjects(sink)[1]
    assert 2 == len(sink.received)
    assert 1 == states(box)["mail:slow@example.org"].waiting


def test_lost_answer_means_the_same_message_again(teller: Teller, sink: SmtpSink) -> None:
    """The server has the mail and we can't know: it comes twice under one Message-ID."""
    sink.rules = Rules(cuts=True)
    teller.find(b"a")
    teller.tick(after=GROUP_S)
    sink.rules = Rules()
    teller.tick(after=60)
    first, second = sink.received

    assert first.mail["Message-ID"] == second.mail["Message-ID"]
    assert first.raw == second.raw


@pytest.mark.parametrize("is_implicit", [False, True])
def test_mail_goes_over_tls(
    tmp_path: Path, box: CatalogBox, monkeypatch: pytest.MonkeyPatch, is_implicit: bool
) -> None:
    """With STARTTLS or TLS from the start; a certificate that nobody vouches for is refused, with the reason."""
    certificate = make_certificate(tmp_path)
    with SmtpSink(certificate=certificate, is_implicit=is_implicit) as sink:
        tls = MailTls.TLS if is_implicit else MailTls.STARTTLS
        mail = Mail(to=("me@example.org",), transport=MailTransport.SMTP, host="127.0.0.1", port=sink.port, tls=tls)
        config = Config(catalog=b"/c", mail=mail)
        ((_, error),) = send_test(config, hostname=HOST)
        assert "its certificate can't be trusted" in str(error)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert [("mail:me@example.org", None)] == send_test(config, hostname=HOST)
        assert sink.received[0].is_tls


def test_password_comes_from_the_systemd_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `user` and no `password_file`, as LoadCredential leaves it."""
    (tmp_path / "smtp-password").write_text("right\n")
    with SmtpSink(auth=("user", "right")) as sink:
        mail = Mail(to=("me@example.org",), transport=MailTransport.SMTP, host="127.0.0.1", port=sink.port, user="user")
        ((_, error),) = send_test(Config(catalog=b"/c", mail=mail))
        assert "there is no password" in str(error)
        monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
        assert [("mail:me@example.org", None)] == send_test(Config(catalog=b"/c", mail=mail))


# Other channels


@pytest.fixture
def web() -> Iterator[WebSink]:
    """Give a web server."""
    with WebSink() as server:
        yield server


def test_heartbeat_pings_start_success_and_failure(box: CatalogBox, web: WebSink) -> None:
    """The suffix stands behind the path, before a query."""
    heartbeat = Heartbeat(f"http://{web.address}/abc?x=1", box.catalog)
    heartbeat.started()
    heartbeat.good()
    heartbeat.bad()

    assert ["/abc/start?x=1", "/abc?x=1", "/abc/fail?x=1"] == [path for _, path, _ in web.asked]
    assert states(box)[HEARTBEAT].good_at is not None


def test_failing_heartbeat_is_told_and_stops_nothing(box: CatalogBox, sink: SmtpSink, web: WebSink) -> None:
    """A wrong address is told by mail at once, without showing it, for it is as good as a password."""
    url = f"http://{web.address}/secret"
    teller = Teller(box, mail_config(sink.port, alerts=Alerts(heartbeat_url=url)))
    teller.tick()
    web.status = 404
    Heartbeat(url, box.catalog, clock=teller.clock).good()
    teller.tick()
    assert "[integrity] nas: alerts by heartbeat fail" == subjects(sink)[0]
    assert "127.0.0.1 answered 404" in sink.received[0].text
    assert "secret" not in sink.received[0].text

    Heartbeat(f"http://127.0.0.1:{free_port()}/x", box.catalog).started()
    assert "refused" in str(states(box)[HEARTBEAT].last_error)
    with SilentServer() as silent:
        Heartbeat(f"http://127.0.0.1:{silent.port}/x", box.catalog, timeout_s=0.1).started()
    assert "no answer within 0.1 s" in str(states(box)[HEARTBEAT].last_error) or "timed out" in str(
        states(box)[HEARTBEAT].last_error
    )


def test_command_gets_the_facts(box: CatalogBox, tmp_path: Path) -> None:
    """JSON on standard input, with the finding as `findings --json` writes it."""
    script, out = tmp_path / "tell.sh", tmp_path / "out"
    script.write_text(f'#!/bin/sh\nread -r line; printf "%s" "$line" > {out}\n')
    script.chmod(0o755)
    teller = Teller(box, Config(catalog=b"/c", alerts=Alerts(command=(str(script),))))
    teller.find(b"a\xff\n")
    teller.tick(after=GROUP_S)
    facts = json.loads(out.read_text())

    assert ("alert", 1, "incident", HOST) == tuple(facts[key] for key in ("type", "schema", "kind", "host"))
    (finding,) = facts["findings"]
    assert [17] == finding["blocks"]
    assert "L3Nydi9waG90b3MvYf8K" == finding["path_b64"]


def test_command_that_fails_is_tried_again(box: CatalogBox, tmp_path: Path) -> None:
    """Its exit code and what it said are kept."""
    flag, out = tmp_path / "flag", tmp_path / "out"
    command = ("sh", "-c", f"test -e {flag} || {{ echo 'no network' >&2; exit 7; }}; cat > {out}")
    teller = Teller(box, Config(catalog=b"/c", alerts=Alerts(command=command)))
    teller.find(b"a")
    teller.tick(after=GROUP_S)
    assert "sh: exit code 7: no network" == states(box)["command"].last_error
    flag.touch()
    teller.tick(after=60)

    assert out.exists()


@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # apprise's own import, on Python 3.11 and 3.12
def test_apprise_posts_subject_and_text(box: CatalogBox, web: WebSink) -> None:
    """A service that refuses is tried again; its URL is never shown."""
    teller = Teller(box, Config(catalog=b"/c", alerts=Alerts(apprise=(f"json://:token@{web.address}/hook",))))
    teller.find(b"a")
    web.status = 500
    teller.tick(after=GROUP_S)
    (state,) = states(box).values()
    assert state.name.startswith("apprise:json:")
    assert "not taken" in str(state.last_error)
    assert "token" not in str(state)
    web.status = 200
    teller.tick(after=60)
    body = json.loads(web.asked[-1][2])

    assert "[integrity] nas: 1 damaged file in photos" == body["title"]
    assert "/srv/photos/a" in body["message"]


# Kills


TICKING = """
import os, sys
from integrity.alerts.channels import make_channels
from integrity.alerts.delivery import AlertDelivery
from integrity.catalog.connection import Catalog
from support.alerting import HOST, mail_config

config = mail_config(int(sys.argv[2]))
with Catalog.open(os.fsencode(sys.argv[1]), writes=True) as catalog:
    channels = make_channels(config, hostname=HOST)
    delivery = AlertDelivery(catalog, config, channels, clock=lambda: float(sys.argv[3]), hostname=HOST)
    print("ready", flush=True)
    while True:
        delivery.tick()
        if len(sys.argv) > 4:
            break
"""


@pytest.mark.long
def test_kill_in_mid_delivery_loses_nothing(box: CatalogBox, sink: SmtpSink) -> None:
    """Killed twenty times: every finding is mailed, and what comes twice has the same Message-ID."""
    teller = Teller(box, mail_config(sink.port))
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}

    def start(*more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", TICKING, os.fsdecode(box.path), str(sink.port), str(teller.clock.now), *more]
        return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True)

    for number in range(20):
        teller.clock.now += HOUR_S  # what the last one did not send is due
        teller.find(b"%02d" % number)
        teller.clock.now += GROUP_S
        before = len(sink.received)
        with start() as process:
            assert process.stdout is not None
            assert "ready\n" == process.stdout.readline()
            if number % 3:  # at once, as soon as the server has the mail, or a little later
                wait_until(lambda before=before: len(sink.received) > before, "a mail")  # type: ignore[misc]
            process.send_signal(signal.SIGKILL)
    teller.clock.now += HOUR_S
    with start("once") as process:
        assert 0 == process.wait(60)

    assert all(any(f"/srv/photos/{n:02}\n" in mail.text for mail in sink.received) for n in range(20))
    by_id: dict[str, Received] = {}
    for received in sink.received:
        assert received.raw == by_id.setdefault(str(received.mail["Message-ID"]), received).raw
    told_in = [
        sum(f"/srv/photos/{n:02}\n" in mail.text for mail in by_id.values() if "still" not in mail.text)
        for n in range(20)
    ]
    assert [1] * 20 == told_in


def test_nothing_configured_keeps_findings_for_later(box: CatalogBox, sink: SmtpSink) -> None:
    """Who sets an address a week later is told what is open."""
    teller = Teller(box, Config(catalog=b"/c"))
    teller.find(b"a")
    assert 60 == teller.tick(after=GROUP_S)
    later = Teller(box, mail_config(sink.port), clock=teller.clock)
    later.tick(after=7 * DAY_S)

    assert ["[integrity] nas: 1 damaged file in photos"] == subjects(sink)


def test_errors_of_channels_are_errors_of_ours() -> None:
    """A missing program is a permanent ChannelError, with its name."""
    with pytest.raises(ChannelError, match="/no/such: can't be started") as caught:
        CommandChannel(("/no/such",)).send(Composer(HOST).test(NOW))
    assert caught.value.is_permanent
