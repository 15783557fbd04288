"""``alert test``, and what ``config check`` says of channels."""

from __future__ import annotations

from pathlib import Path

from support.cli import Box
from support.servers import free_port
from support.service import Service
from support.smtpsink import SmtpSink, mail_toml
from support.stored import query
from support.waiting import wait_until


def test_without_channels_it_says_which_keys_to_set(integrity: Box) -> None:
    """Exit 2: nothing was done."""
    done = integrity.run("alert", "test", expect=2)

    assert "`to` in [mail]" in done.stderr
    assert "heartbeat_url" in done.stderr


def test_all_channels_that_work_are_named(integrity: Box, tmp_path: Path) -> None:
    """Exit 0, and the mail is there; -q says nothing."""
    with SmtpSink() as sink:
        command = f'[alerts]\ncommand = ["sh", "-c", "cat > {tmp_path}/out"]\n'
        integrity.configure(mail_toml(sink.port) + command)
        done = integrity.run("alert", "test", expect=0)
        assert "" == integrity.run("-q", "alert", "test", expect=0).stdout

    assert "mail:me@example.org: sent\ncommand: sent\n" == done.stdout
    assert "test: alerts arrive" in str(sink.received[0].mail["Subject"])
    assert '"kind":"test"' in (tmp_path / "out").read_text()


def test_channel_that_fails_is_named_with_its_reason(integrity: Box) -> None:
    """Exit 3, and an object for each channel with --json."""
    with SmtpSink() as sink:
        heartbeat = f'[alerts]\nheartbeat_url = "http://127.0.0.1:{free_port()}/x"\n'
        integrity.configure(mail_toml(sink.port) + heartbeat)
        good, bad = integrity.json("alert", "test", expect=3)

    assert {"type": "alert", "schema": 1, "channel": "mail:me@example.org", "sent": True, "error": None} == good
    assert ("heartbeat", False) == (bad["channel"], bad["sent"])
    assert "refused" in str(bad["error"])


def test_results_are_recorded_for_channels_of_the_service(integrity: Box, tmp_path: Path) -> None:
    """The page shows when each was last proven to work; a failure does not take that away."""
    (tmp_path / "photos").mkdir()
    integrity.configure('[alerts]\ncommand = ["true"]\n')
    integrity.run("scan", tmp_path / "photos", expect=0)
    integrity.run("alert", "test", expect=0)
    assert [] == query(integrity, "SELECT name FROM channel")
    with Service(integrity):
        wait_until(lambda: query(integrity, "SELECT name FROM channel"), "the service to note its channels")
    for command, is_failing in (("true", 0), ("false", 1)):
        integrity.configure(f'[alerts]\ncommand = ["{command}"]\n')
        integrity.run("alert", "test", expect=3 * is_failing)

        found = query(integrity, "SELECT name, good_at IS NOT NULL, failing_since IS NOT NULL FROM channel")
        assert [("command", 1, is_failing)] == found


def test_no_catalog_is_needed_or_made(integrity: Box) -> None:
    """Mail can be set up before anything is scanned."""
    integrity.configure(mail_toml(free_port()))
    integrity.run("alert", "test", expect=3)

    assert not integrity.catalog.exists()


def test_config_check_finds_what_alerts_could_not_be_sent_with(integrity: Box, tmp_path: Path) -> None:
    """All at once, with the key to mend."""
    more = f'user = "me"\npassword_file = "{tmp_path}/missing"\n'
    integrity.configure(mail_toml(25, "no address") + more)
    done = integrity.run("config", "check", expect=2)

    assert "'no address' is not an address" in done.stderr
    assert f"can't read the mail password in {tmp_path}/missing: No such file" in done.stderr


def test_token_in_a_url_that_can_not_be_used_is_shown_nowhere(integrity: Box) -> None:
    """Not by the library for it either, which logs whole URLs."""
    integrity.configure('[alerts]\napprise = ["s3cret-topic"]\n')
    told = integrity.run("config", "check", expect=2).stderr + integrity.run("alert", "test", expect=None).stderr

    assert "can't be used" in told
    assert "s3cret" not in told
