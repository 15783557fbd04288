"""``integrity setup``: the page for browsers. Each answer leads to a page that answers, with its password."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest

from support.cli import make_command
from support.dialog import CTRL_C
from support.loopfs import LoopFS
from support.servers import free_port
from support.setupbox import PROMPT, SetupBox, answer, answer_secret, fill, press_enter
from support.waiting import wait_until
from support.webpage import PASSWORD

BEFORE_PAGE = 6  # folders, backups, windows, interval, server, phone

pytestmark = pytest.mark.root


@pytest.fixture
def machine(ext4: LoopFS, tmp_path: Path) -> SetupBox:
    """A machine with one disk, on which another port than the page's usual one is free."""
    fill(ext4.folder / "data", 10, "odt", age_days=20)
    return SetupBox(tmp_path / "home", {"/srv/data": ext4.folder / "data"})


@contextmanager
def serving(machine: SetupBox, port: int) -> Iterator[None]:
    """Run the page that setup has configured, on a port that is free."""
    text = machine.config.read_text().replace(":8431", f":{port}")
    machine.config.write_text(re.sub(rf'^# (?=listen = "[^"]*:{port}")', "", text, flags=re.MULTILINE))
    log = machine.box.home / "web.log"
    with open(log, "wb") as file:
        process = subprocess.Popen(make_command("web"), env=machine.environment, stdout=file, stderr=file)
    try:
        wait_until(lambda: b"The page is at" in log.read_bytes() or process.poll() is not None, "the page to start")
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def log_in(connection: HTTPConnection, host: str) -> int:
    """Log in with the password, and return the status of the answer."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Host": host}
    with closing(connection):
        connection.request("POST", "/login", urlencode({"password": PASSWORD}), form)
        return connection.getresponse().status


def test_page_in_the_network(machine: SetupBox) -> None:
    """It answers at this machine's address under its own certificate, to the password."""
    with machine.talk("--no-test") as dialog:
        press_enter(dialog, BEFORE_PAGE)
        shown = answer(dialog, "page for browsers?", "lan")
        answer(dialog, "What may be done on the page?", "repair")
        answer(dialog, "type look or decide", "decide")
        answer(dialog, "Write it?")
        answer_secret(dialog, "short")
        answer_secret(dialog, PASSWORD)
        answer_secret(dialog, "another one")
        answer_secret(dialog, PASSWORD)
        answer_secret(dialog, PASSWORD)
        assert 0 == dialog.finish(), dialog.text

    address = re.search(r"lan: at https://([\d.]+):8431/", " ".join(shown.split()))
    assert address is not None, shown
    assert "it needs at least 10 characters" in dialog.text
    assert "these were not the same" in dialog.text
    assert PASSWORD not in dialog.text + machine.config.read_text()
    assert "To start it:        integrity" in dialog.text
    web = tomllib.loads(machine.config.read_text(encoding="utf-8"))["web"]
    expected = {
        "listen": "0.0.0.0:8431",
        "public_url": f"https://{address[1]}:8431",
        "self_signed": True,
        "actions": True,
    }
    assert expected == web
    port = free_port()
    with serving(machine, port):
        certificate = machine.box.home / ".local/state/integrity-web/certificate.pem"
        trusting = ssl.create_default_context(cafile=certificate)
        for host in (address[1], "127.0.0.1"):
            connection = HTTPSConnection(host, port, context=trusting, timeout=30)
            assert 303 == log_in(connection, f"{host}:{port}")
        curl = ("curl", "--silent", "--fail", "--cacert", certificate, f"https://{address[1]}:{port}/login")
        assert b"password" in subprocess.run(curl, check=True, capture_output=True).stdout


def test_page_on_this_machine_only(machine: SetupBox) -> None:
    """It answers on the loopback, and how to reach it from elsewhere is one line to be typed there."""
    with machine.talk("--no-test") as dialog:
        press_enter(dialog, BEFORE_PAGE)
        answer(dialog, "page for browsers?", "local")
        answer(dialog, "What may be done on the page?")
        assert "page      http://127.0.0.1:8431/  (on this machine only; it only shows)" in answer(dialog, "Write it?")
        answer_secret(dialog, PASSWORD)
        answer_secret(dialog, PASSWORD)
        assert 0 == dialog.finish(), dialog.text

    assert re.search(r"\nFrom elsewhere:     ssh -L 8431:127.0.0.1:8431 \w+@\S+ ", dialog.text)
    port = free_port()
    with serving(machine, port):
        assert 303 == log_in(HTTPConnection("127.0.0.1", port, timeout=30), f"127.0.0.1:{port}")
    assert "Its certificate" not in dialog.text


def test_interruption_says_what_is_there(machine: SetupBox) -> None:
    """
    At the question about actions nothing, not even the folder of its password; at the password the configuration.

    A page without a password can be opened by nobody but with the link that it prints.
    """
    before = machine.list_files()
    with machine.talk("--no-test") as dialog:
        press_enter(dialog, BEFORE_PAGE)
        answer(dialog, "page for browsers?", "lan")
        dialog.wait_for("What may be done on the page?")
        dialog.wait_for(PROMPT)
        dialog.type(CTRL_C)
        assert 130 == dialog.finish(), dialog.text
    assert before == machine.list_files()
    assert dialog.text.endswith("integrity: interrupted; nothing was changed\n")

    with machine.talk("--no-test") as dialog:
        press_enter(dialog, BEFORE_PAGE)
        answer(dialog, "page for browsers?", "local")
        answer(dialog, "What may be done on the page?")
        answer(dialog, "Write it?")
        answer_secret(dialog, PASSWORD)
        dialog.wait_for("The same again")
        dialog.type(CTRL_C)
        assert 130 == dialog.finish(), dialog.text

    assert dialog.text.endswith(f"integrity: interrupted; written: {machine.config}\n")
    assert not list(machine.box.home.rglob("password.json"))


def test_page_is_chosen_by_options(machine: SetupBox) -> None:
    """Without a terminal no password is set: the page's link does that."""
    done = machine.run("--yes", "--no-test", "--page", "local", "--page-actions", "decide", is_json=True)

    (config,) = done.of_type("config")
    assert {"actions": True} == tomllib.loads(str(config["toml"]))["web"]
    assert not list(machine.box.home.rglob("password.json"))
