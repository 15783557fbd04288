"""``integrity setup``: messages to a phone, by a server that stands in for ntfy."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.loopfs import LoopFS
from support.servers import WebSink
from support.setupbox import SetupBox, answer, fill, press_enter

BEFORE_PUSH = 5  # folders, backups, windows, interval, server

pytestmark = pytest.mark.root


@pytest.fixture
def machine(ext4: LoopFS, tmp_path: Path) -> SetupBox:
    """A machine with one disk."""
    fill(ext4.folder / "data", 10, "odt", age_days=20)
    return SetupBox(tmp_path / "home", {"/srv/data": ext4.folder / "data"})


@pytest.fixture
def ntfy() -> Iterator[WebSink]:
    """The server that ntfy:// leads to."""
    with WebSink() as sink:
        yield sink


def test_push_is_tested_and_asked_about(machine: SetupBox, ntfy: WebSink) -> None:
    """What no service takes is asked again, as is what did not arrive; the token is shown nowhere."""
    ntfy.status = 403
    with machine.talk() as dialog:
        press_enter(dialog, BEFORE_PUSH)
        answer(dialog, "Should your phone get alerts, too?", "my-phone")
        answer(dialog, "write ntfy://TOPIC, for example", f"ntfy://{ntfy.address}/t0pic")
        assert "FAILED  apprise:ntfy:" in answer(dialog, "Try another service")
        ntfy.status = 200
        answer(dialog, "Should your phone get alerts, too?", f"ntfy://{ntfy.address}/t0pic")
        answer(dialog, "Did the message arrive on your phone?", "no")
        answer(dialog, "Try another service", "again")
        answer(dialog, "Should your phone get alerts, too?", f"ntfy://{ntfy.address}/t0pic2")
        answer(dialog, "Did the message arrive on your phone?", "yes")
        answer(dialog, "page")
        shown = answer(dialog, "Write it?")
        assert 0 == dialog.finish(), dialog.text

    assert "push      ntfy://(hidden)" in shown
    assert "mail      none\n" in shown
    messages = [json.loads(body) for _, _, body in ntfy.asked]
    assert ["t0pic", "t0pic", "t0pic2"] == [message["topic"] for message in messages][-3:]
    assert "test: alerts arrive" in messages[-1]["title"]
    config = tomllib.loads(machine.config.read_text(encoding="utf-8"))
    assert [f"ntfy://{ntfy.address}/t0pic2"] == config["alerts"]["apprise"]
    machine.box.run("alert", "test", env={"INTEGRITY_CONFIG": str(machine.config)}, expect=0)
    assert "alerts arrive" in json.loads(ntfy.asked[-1][2])["title"]


def test_push_that_can_not_be_sent_is_told(machine: SetupBox, ntfy: WebSink) -> None:
    """The configuration is written all the same, and the exit code says that something is missing."""
    ntfy.status = 500
    options = ("--yes", "--push", f"ntfy://{ntfy.address}/topic")
    done = machine.run(*options, expect=3)
    told = machine.run(*options, "--root", "/srv/data", expect=3, is_json=True).of_type("self_test_step")[-1]

    assert ("alert", False) == (told["stage"], told["is_ok"])
    assert str(told["channel"]).startswith("apprise:ntfy:")
    assert "no message to a phone could be sent: apprise:ntfy:" in done.stderr
    assert "correct `apprise` in [alerts]" in done.stderr
    assert "apprise" in machine.read()


def test_present_services_are_kept(machine: SetupBox) -> None:
    """Enter keeps them, and shows no token."""
    machine.config.parent.mkdir()
    machine.config.write_text('[[root]]\npath = "/srv/data"\n[alerts]\napprise = ["ntfy://s3cret@example.org"]\n')
    with machine.talk("--no-test") as dialog:
        press_enter(dialog, BEFORE_PUSH)
        shown = answer(dialog, "Should your phone get alerts, too?")
        press_enter(dialog, 2)
        assert 0 == dialog.finish(), dialog.text

    assert "So far: ntfy://(hidden); keep leaves it so." in shown
    assert "[keep] >" in shown
    assert "s3cret" not in shown
