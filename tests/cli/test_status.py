"""``status`` beside a running service, and what it tells of the channels of alerts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integrity.catalog import outbox
from integrity.catalog.connection import Catalog
from integrity.config.places import default_catalog_path
from integrity.service.systemd.installed import find_stopped_unit
from integrity.views.service import ask_service, describe_service
from support.cli import Box
from support.comparing import back_up
from support.daemons import SmallDaemon
from support.planted import plant_path
from support.privileges import as_nobody
from support.running import Running
from support.shapes import damage
from support.waiting import wait_until

pytestmark = pytest.mark.files(10)


@contextmanager
def serving(box: Box) -> Iterator[Running]:
    """Run the service until it looks after its roots, and end it by SIGTERM."""
    own = {"RUNTIME_DIRECTORY": box.environment["XDG_RUNTIME_DIR"]}  # root's would be the machine's
    with Running(box, "daemon", env=own) as running:
        wait_until(lambda: bool(box.get_object("service", "status")["watch"]), "the service to watch")
        yield running
        running.signal(signal.SIGTERM)
        done = running.finish()
        assert 0 == done.code, done.stderr


def fail_channel(box: Box, name: str, *, since_s: int) -> None:
    """Write down that a channel failed for the first time so long ago."""
    with Catalog.open(bytes(box.catalog), writes=True) as catalog, catalog.transaction() as c:
        outbox.note_success(c, "mail:you@example.org", int(time.time()))
        outbox.note_failure(c, name, "connection refused", is_permanent=False, now=int(time.time()) - since_s)


def test_without_service_it_says_so(integrity: Box, root: Path) -> None:
    """Nothing runs by itself then; also if a link and a socket of one that was killed are left."""
    integrity.run("scan", root, expect=0)
    text = integrity.run("status", expect=0).stdout
    os.symlink(integrity.home / "run" / "control.sock", f"{integrity.catalog}.control")
    service = integrity.get_object("service", "status")

    assert "Service: no service runs for this catalog: nothing is checked by itself.\n  - " in text
    assert "watched" not in text
    assert (False, None, None, []) == tuple(service[name] for name in ("is_running", "trouble", "pid", "watch"))


def test_running_service_is_shown(integrity: Box, root: Path) -> None:
    """
    Since when it runs, how each root is watched, and what comes next.

    If it hangs all that the catalog knows is told, and that it does not answer; nothing looks as if none ran.
    """
    integrity.run("scan", root, expect=0)
    began = time.time()
    with serving(integrity) as running:
        texts: list[str] = []

        def is_idle() -> bool:  # in the window of the night a scrub follows the first scan
            texts.append(integrity.run("status", expect=0).stdout)
            return "\n  now        nothing\n" in texts[-1]

        wait_until(is_idle, "the first jobs to end")
        service, text = integrity.get_object("service", "status"), texts[-1]
        running.signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        hung = integrity.run("status", expect=0).stdout
        took_s = time.monotonic() - stopped_at
        nagios = integrity.run("status", "--nagios", expect=0).stdout
        silent = integrity.get_object("service", "status")
        running.signal(signal.SIGCONT)

    assert (True, running.pid) == (service["is_running"], service["pid"])
    assert str(service["started_at"]) >= time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began - 1))
    assert [{"root": str(root), "folders": 8, "blind": []}] == service["watch"]
    assert isinstance(service["next_runs"], list)
    assert {"scan", "scrub"} == {one["name"] for one in service["next_runs"]}
    assert "  watched    8 folders: changes are noticed as they happen\n" in text
    assert f", process {running.pid}\n  now        nothing\nNext runs: sc" in text
    (told,) = (line for line in hung.splitlines() if line.startswith("Service: "))
    assert f"Service: the service can't be asked: the service (process {running.pid}) does not answer" in told
    assert "no service runs" not in hung
    assert "10 files" in hung
    assert took_s < 10
    assert nagios.startswith("INTEGRITY OK")
    assert False is silent["is_running"]
    assert "does not answer" in str(silent["trouble"])


def test_service_that_was_killed_is_missed_in_the_verdict(integrity: Box, root: Path) -> None:
    """Sentence, exit codes, and metrics tell it, and what starts it; whoever never had one is not alarmed."""
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    assert integrity.run("status", "--nagios", expect=0).stdout.startswith("INTEGRITY OK")
    own = {"RUNTIME_DIRECTORY": integrity.environment["XDG_RUNTIME_DIR"]}
    with Running(integrity, "daemon", env=own) as running:
        wait_until(lambda: bool(integrity.get_object("service", "status")["watch"]), "the service to watch")
        running.signal(signal.SIGKILL)
        running.finish()
    for arguments in ((), ("scrub",), ()):  # reading by hand does not bring it back
        if arguments:
            integrity.run(*arguments, root, expect=0)
        status = integrity.run("status", expect=3).stdout
        assert status.startswith("The service that checked here crashed, was killed, or lost power after 20")
        assert ": nothing is checked by itself.\n  - " in status
        assert " daemon\n" in status
    nagios = integrity.run("status", "--nagios", expect=1).stdout
    assert nagios.startswith("INTEGRITY WARNING: The service that checked here crashed, was killed, or lost power")
    assert "\nintegrity_service_missing 1.0\n" in integrity.run("status", "--prometheus", expect=0).stdout
    service = integrity.get_object("service", "status")
    assert (False, True, True) == tuple(service[name] for name in ("is_running", "is_missing", "has_crashed"))


def test_service_that_was_stopped_is_missed_until_commands_take_its_place(integrity: Box, root: Path) -> None:
    """A scrub by cron does; who starts the service again needs none."""
    integrity.run("scan", root, expect=0)
    with serving(integrity):
        integrity.run("scrub", root, expect=0)
    stopped = integrity.run("status", expect=3).stdout
    integrity.run("scrub", root, expect=0)
    taken_over = integrity.run("status", expect=0).stdout

    assert stopped.startswith("The service that checked here was stopped 20")
    assert "or let cron run every night" in stopped
    assert taken_over.startswith("All 10 files")


def test_channel_that_fails_for_long_is_in_the_verdict(integrity: Box, root: Path) -> None:
    """Nobody is told of damage then: that is not green, for status, for monitoring, or on the page."""
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    fail_channel(integrity, "mail:me@example.org", since_s=7200)
    status = integrity.run("status", expect=3).stdout

    assert status.startswith("Alerts by mail:me@example.org fail since 20")
    assert integrity.run("status", "--nagios", expect=1).stdout.startswith("INTEGRITY WARNING")


def test_root_that_is_gone_is_said_once(integrity: Box, root: Path) -> None:
    """It is suspended; that its changes are not noticed either goes without saying, but for programs."""
    integrity.run("scan", root, expect=0)
    os.rename(root, f"{root}.away")
    with serving(integrity):
        wait_until(lambda: "suspended:" in integrity.run("status").stdout, "the root to be missed")
        text = integrity.run("status").stdout
        (watch,) = [one for one in integrity.get_object("service", "status")["watch"] if isinstance(one, dict)]  # type: ignore[attr-defined]

    assert 0 == watch["folders"]
    assert str(root) in watch["blind"][0]
    assert "not seen" not in text
    assert "put it back" not in text


def test_work_and_queue_are_shown(integrity: Box, root: Path) -> None:
    """What is being done and what waits, with roots of any bytes."""
    integrity.run("scan", root, expect=0)
    with SmallDaemon(integrity) as daemon:
        daemon.gate.clear()
        integrity.run("scan", "--no-wait", root, expect=0)
        wait_until(lambda: bool(daemon.state().busy), "the job to begin")
        integrity.run("scrub", "--no-wait", root, expect=0)
        text, service = integrity.run("status", expect=0).stdout, integrity.get_object("service", "status")
        daemon.gate.set()

    assert f"  now        scan of {root}: record, 1 file, 2 B, 4 B a second\n" in text
    assert "  waiting    scrub of /odd\\xff: asked for\n" in text
    assert "version 0, process" in text
    assert ": restart the service\n" in text  # it is of another version
    queued = {"root": "/odd\\xff", "root_b64": "L29kZP8=", "job": "scrub", "reason": "asked for", "copy": None}
    assert [queued] == service["queued"]


def test_failing_channel_is_told_even_with_q(integrity: Box, root: Path) -> None:
    """Since when, why, and what waits; the codes are those of the findings."""
    integrity.run("scan", root, expect=0)
    fail_channel(integrity, "mail:me@example.org", since_s=60)
    quiet = integrity.run("-q", "status", expect=0).stdout
    mine, yours = [each for each in integrity.json("status", expect=0) if each["type"] == "channel"]

    assert quiet.startswith("alerts by mail:me@example.org fail since ")
    assert ": connection refused\n" in quiet
    assert 2 == len(quiet.splitlines())
    assert ("mail:me@example.org", True, "connection refused") == (mine["name"], mine["is_failing"], mine["error"])
    assert ("mail:you@example.org", False, None) == (yours["name"], yours["is_failing"], yours["error"])


@pytest.mark.parametrize(("since_s", "code", "word"), [(3000, 0, "OK"), (4000, 1, "WARNING")])
def test_channel_that_fails_for_an_hour_warns_nagios(
    integrity: Box, root: Path, since_s: int, code: int, word: str
) -> None:
    """A server that is being restarted is no warning; alerts that nobody gets are."""
    integrity.run("scan", root, expect=0)
    fail_channel(integrity, "mail:me@example.org", since_s=since_s)
    line = integrity.run("status", "--nagios", expect=code).stdout

    assert line.startswith(f"INTEGRITY {word}: ")
    assert (code == 1) is ("alerts by mail:me@example.org fail" in line)


def test_failing_channel_does_not_hide_what_is_worse(integrity: Box, root: Path) -> None:
    """Damage stays critical."""
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    integrity.run("scan", expect=0)
    (root / "d1" / "1.txt").write_text("changed")
    integrity.run("scan", expect=1)
    fail_channel(integrity, "heartbeat", since_s=4000)

    assert integrity.run("status", "--nagios", expect=2).stdout.startswith("INTEGRITY CRITICAL: 1 changed")


def test_shared_trees_lead_to_the_hub(integrity: Box, root: Path, tmp_path: Path) -> None:
    """What this machine's catalog does not know is not called well, nor unknown: the hub has it."""
    tree = tmp_path / "tree"
    tree.mkdir()
    hub = '[hub]\nurl = "https://hub.example.org/"\ntoken_file = "/etc/token"\n'
    integrity.configure(f'{hub}[[root]]\npath = "{root}"\n[[root]]\npath = "{tree}"\nshared = "archive"\n')
    integrity.run("scan", expect=0)
    page = "https://hub.example.org/trees"

    for command in ("status", "findings"):
        line = f"{tree}: the shared tree archive; its state and findings are on the hub: {page}\n"
        assert line in integrity.run(command, expect=0).stdout
        assert line not in integrity.run("-q", command, expect=0).stdout
        integrity.json(command, expect=0)  # it reads only objects
    for refused in (["status", tree], ["findings", "--path", tree / "a"]):
        error = integrity.run(*refused, expect=2).stderr
        assert f"lies in the shared tree archive, whose state and findings are on the hub: {page}" in error


def test_verdict_comes_first(integrity: Box, root: Path, tmp_path: Path) -> None:
    """In words, with where the files can be repaired from; one cause has one line."""
    integrity.run("scrub", root, expect=0)
    (good,) = integrity.run("status", expect=0).stdout.splitlines()[:1]
    assert "All 10 files (100 B) were verified within 30 days." == good
    copy = back_up(root, tmp_path / "copy")
    integrity.run("compare", root, "--with", copy, expect=0)
    for number, words in ((1, "it can be"), (2, "both can be"), (3, "all 3 can be")):
        damage(plant_path(root, number), 3)
        integrity.run("scrub", root, expect=1)
        (bad,) = integrity.run("status", expect=1).stdout.splitlines()[:1]
        assert f"; {words} repaired from {copy}." in bad, bad
    root.rename(tmp_path / "elsewhere")
    integrity.run("scan", root, expect=3)
    gone = integrity.run("status", expect=1).stdout
    assert 1 == gone.count("suspended:")
    assert "problem" not in gone


@pytest.mark.root
def test_service_that_is_installed_and_stopped_is_to_be_started(
    nobodys_box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody who has set it up is told to do that again."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(nobodys_box.home))
    with as_nobody():
        catalog = default_catalog_path()
        assert find_stopped_unit(catalog) is None
        unit = nobodys_box.home / "systemd/user/integrity.service"
        unit.parent.mkdir(parents=True)
        unit.touch()
        assert find_stopped_unit(catalog + b".another") is None
        live = ask_service(None, catalog, 1.0)
    (first, command) = describe_service(live)
    assert "Service: the service is installed, but stopped: nothing is checked by itself." == first
    assert "  - systemctl --user start integrity" == command
