"""``daemon --self-test``: users trust it, so it must be able to fail."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.cli.daemon import code_for
from integrity.cli.exitcodes import ExitCode
from integrity.jobs.report import Stop
from integrity.service.selftest import SelfTestStep, Stage, run_self_test
from support.alerting import mail_config
from support.catalogs import MIB
from support.cli import Box, Completed
from support.mounts import small_tmpfs
from support.running import Running
from support.servers import free_port
from support.smtpsink import Rules, SmtpSink, mail_toml
from support.waiting import wait_until

_STAGES = ["plant", "record", "damage", "scrub", "alert"]


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Give an empty folder for the self-test to work in."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def take(box: Box, scratch: Path, *options: str, expect: int) -> Completed:
    return box.run(*options, "daemon", "--self-test", expect=expect, env={"TMPDIR": str(scratch)})


def test_rot_is_found_and_the_mail_about_it_arrives(integrity: Box, scratch: Path, tmp_path: Path) -> None:
    """Each step says what was seen; the mail is about the canary and says that it is a self-test; nothing is left."""
    with SmtpSink() as sink:
        integrity.configure(f'{mail_toml(sink.port)}[catalog_backup]\nfolder = "{tmp_path}/backups"\n')
        done = take(integrity, scratch, expect=0)
        (mail,) = sink.received

    lines = done.stdout.splitlines()
    assert [f"ok      {stage}".split() for stage in _STAGES] == [line.split()[:2] for line in lines[:-1]]
    assert "found rot" in lines[3]
    assert "/integrity-self-test/canary, block 1 (counted from 0); 2 more readings agreed; " in lines[3]
    assert "the other file is intact" in lines[3]
    assert "mail:me@example.org: took the alert" in lines[4]
    assert "self-test: all is well: damage is found, and told through every channel" == lines[5]

    host = os.uname().nodename.partition(".")[0]
    assert f"[integrity] {host}: this is a drill: 1 damaged test file" == mail.mail["Subject"]
    assert "This is a drill" in mail.text
    assert "None of your files is affected" in mail.text
    assert "DAMAGED (bit rot)" in mail.text
    assert f"{scratch}" not in mail.text + mail.html
    assert "integrity explain" not in mail.text

    assert [] == os.listdir(scratch)
    assert not integrity.catalog.exists()
    assert not (tmp_path / "backups").exists()


def test_users_own_catalog_is_not_touched(integrity: Box, scratch: Path) -> None:
    """Not a byte of it, nor anything beside it; with -q a self-test that comes out says nothing."""
    Catalog.create(bytes(integrity.catalog)).close()
    with SmtpSink() as sink:
        integrity.configure(mail_toml(sink.port))
        before = {path: path.read_bytes() for path in integrity.home.glob("catalog*")}
        done = take(integrity, scratch, "-q", expect=0)
        assert 1 == len(sink.received)

    assert before == {path: path.read_bytes() for path in integrity.home.glob("catalog*")}
    assert ("", "") == (done.stdout, done.stderr)


def test_channel_that_fails_is_3_and_named(integrity: Box, scratch: Path, tmp_path: Path) -> None:
    """All others still get the alert: other recipients, the command; the heartbeat counts as a channel."""
    with SmtpSink() as sink:
        sink.rules = Rules(rcpt={"bad@example.org": "550 nobody here"})
        more = f'[alerts]\ncommand = ["sh", "-c", "cat > {tmp_path}/out"]\n'
        more += f'heartbeat_url = "http://127.0.0.1:{free_port()}/x"\n'
        integrity.configure(mail_toml(sink.port, "me@example.org", "bad@example.org") + more)
        done = take(integrity, scratch, "--json", expect=3)
        (mail,) = sink.received

    steps = done.of_type("self_test_step")
    assert [*_STAGES, "alert", "alert", "alert"] == [step["stage"] for step in steps]
    assert {
        "mail:me@example.org": True,
        "mail:bad@example.org": False,
        "command": True,
        "heartbeat": False,
    } == {step["channel"]: step["is_ok"] for step in steps[4:]}
    assert "550 nobody here" in str(steps[5]["seen"])
    assert "refused" in str(steps[7]["seen"])
    assert [{"type": "self_test", "schema": 1, "is_ok": False, "steps": 8, "exit_code": 3}] == done.of_type("self_test")
    assert ("me@example.org",) == mail.recipients
    assert '"kind":"rot"' in (tmp_path / "out").read_text()
    assert [] == os.listdir(scratch)


def test_failing_step_is_told_even_with_q(integrity: Box, scratch: Path) -> None:
    """Only what is wrong, and how it ended."""
    integrity.configure(mail_toml(free_port()))
    lines = take(integrity, scratch, "-q", expect=3).stdout.splitlines()

    assert 2 == len(lines)
    assert lines[0].startswith("FAILED  alert   mail:me@example.org: ")
    assert lines[1].startswith("self-test: FAILED: damage is found, and not told")


def test_without_channels_it_says_which_keys_to_set(integrity: Box, scratch: Path) -> None:
    """Exit 2, before anything is done."""
    done = take(integrity, scratch, expect=2)

    assert "" == done.stdout
    assert "set `to` in [mail], or `apprise`, `command` or `heartbeat_url` in [alerts]" in done.stderr


@pytest.mark.parametrize("place", ["missing", "file"])
def test_folder_that_can_not_be_written_is_named(integrity: Box, scratch: Path, place: str) -> None:
    """Exit 2, and how to name another one."""
    (scratch / "file").touch()
    integrity.configure(mail_toml(free_port()))
    done = take(integrity, scratch / place, expect=2)

    assert f"{scratch / place}: the self-test can't write there: " in done.stderr
    assert "TMPDIR=/FOLDER" in done.stderr


@pytest.mark.root
@pytest.mark.parametrize(("room", "code"), [(4 * MIB, 2), (6200 << 10, 4), (6500 << 10, 4)])
def test_folder_that_is_full_proves_nothing(integrity: Box, tmp_path: Path, room: int, code: int) -> None:
    """Whatever did not fit, the disk is said to be full; it is not said that damage is not found."""
    integrity.configure(mail_toml(free_port()))
    with small_tmpfs(tmp_path / "small", room):
        done = take(integrity, tmp_path / "small", expect=code)
        assert [] == os.listdir(tmp_path / "small")

    assert "No space left" in done.stderr or "disk full" in done.stderr
    assert str(tmp_path / "small") in done.stderr
    assert "FAILED" not in done.stdout


def test_interrupted_self_test_proves_nothing_and_leaves_nothing(
    integrity: Box, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 130, at whatever step."""
    integrity.configure(mail_toml(free_port()))
    monkeypatch.setenv("TMPDIR", str(scratch))
    with Running(integrity, "daemon", "--self-test") as running:
        wait_until(lambda: bool(os.listdir(scratch)), "the folder")
        running.signal(signal.SIGTERM)
        done = running.finish()

    assert 130 == done.code
    assert "self-test: interrupted: nothing is proved" in done.stdout
    assert [] == os.listdir(scratch)


def test_scrub_that_notices_nothing_fails_the_self_test(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a canary that was not damaged the scrub finds nothing: the check sees that, and no alert is sent."""
    monkeypatch.setenv("TMPDIR", str(scratch))
    with SmtpSink() as sink:
        config = mail_config(sink.port)
        with closing(run_self_test(config, hostname="nas.example.org", stop=Stop(), damages=False)) as taken:
            steps = list(taken)
        assert [] == sink.received

    assert [(stage, stage != "scrub") for stage in _STAGES[:4]] == [(step.stage.value, step.is_ok) for step in steps]
    assert "a scrub did NOT find just the damage: clean, 2 verified; it told of nothing" == steps[3].seen
    assert ExitCode.PROBLEM is code_for(steps)
    assert [] == os.listdir(scratch)


def test_undetected_damage_weighs_more_than_a_mail_that_does_not_leave() -> None:
    """1 wins over 3, as everywhere; steps that were not all taken prove nothing."""
    scrub, alert, failure = (
        SelfTestStep(Stage.SCRUB, True, ""),
        SelfTestStep(Stage.ALERT, True, "", "a"),
        SelfTestStep(Stage.ALERT, False, ""),
    )
    assert ExitCode.OK is code_for([scrub, alert])
    assert ExitCode.INCOMPLETE is code_for([scrub, alert, failure])
    assert ExitCode.PROBLEM is code_for([SelfTestStep(Stage.SCRUB, False, ""), failure])
    assert ExitCode.PROBLEM is code_for([scrub])
