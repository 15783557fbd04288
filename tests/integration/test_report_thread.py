"""The real service reports to a hub: findings at once, the rest in time, nothing while it is away; and ends at once."""

from __future__ import annotations

import os
from pathlib import Path

from support.cli import Box
from support.planted import plant
from support.servers import SILENCE
from support.service import Service
from support.shapes import damage
from support.smallhub import TOKEN, SmallHub, refusal
from support.stored import query
from support.waiting import wait_until

NEVER = "0 0 29 feb *"


def configure(box: Box, root: Path, url: str, *, every: str = "1s", token: str = TOKEN) -> None:
    """Have a root that is reported."""
    box.home.mkdir(exist_ok=True)
    token_file = box.home / "hub.token"
    token_file.write_text(token)
    token_file.chmod(0o600)
    box.configure(
        f'[[root]]\npath = "{root}"\nsettle = "1s"\nreplica_set = "photos"\n[schedule]\nscrub = "{NEVER}"\n'
        f'[hub]\nurl = "{url}"\ntoken_file = "{token_file}"\nreport_every = "{every}"\n'
    )


def kinds_of(hub: SmallHub) -> list[object]:
    """Return the kind of each reported finding."""
    return [body["kind"] for kind, body in hub.messages if kind == "finding"]


def test_damage_is_on_the_hub_after_the_scrub(integrity: Box, tmp_path: Path, hub: SmallHub) -> None:
    """At once, although the next report is due in an hour; files and tree follow."""
    root = plant(tmp_path / "photos", 10)
    configure(integrity, root, hub.url, every="1h")
    with Service(integrity) as service:
        service.wait_begun()
        damage(root / "d0/0.txt")
        integrity.run("scrub", root, expect=1)
        wait_until(lambda: kinds_of(hub) == ["silent_rewrite"], "the finding on the hub")
        wait_until(lambda: 1 in hub.settled, "the tree on the hub")
        wait_until(lambda: hub.heartbeats[-1]["state"] == "problem", "a heartbeat that knows of it")
        status = integrity.get_object("hub", "status")
        service.stop()

    assert (hub.url, 0, False) == (status["url"], status["waiting"], status["is_failing"])
    assert status["complete_at"]
    assert 10 == sum(len(folder.files) for folder in hub.trees[1].values())


def test_hub_that_is_away_is_said_by_status_and_gets_all_later(integrity: Box, tmp_path: Path, hub: SmallHub) -> None:
    """Why, since when, and what waits; the queue outlives the service."""
    root = plant(tmp_path / "photos", 3)
    configure(integrity, root, "http://127.0.0.1:1")
    with Service(integrity) as service:
        service.wait_begun()
        failing = "SELECT 1 FROM report_state WHERE failing_since IS NOT NULL"
        wait_until(lambda: bool(query(integrity, failing)), "a failed report")
        integrity.run("scan", root)
        text = integrity.run("status").stdout
        service.stop()
    assert "Hub: http://127.0.0.1:1; it never had everything yet" in text
    assert "127.0.0.1: Connection refused" in text
    assert "nothing is lost: " in text

    configure(integrity, root, hub.url)
    with Service(integrity) as service:
        wait_until(lambda: ["state", "run"] == [kind for kind, _ in hub.messages][:2], "the run of then on the hub")
        wait_until(lambda: 1 in hub.settled, "the tree on the hub")
        service.stop()
    assert "had everything" in integrity.run("status").stdout


def test_box_that_leaves_the_hub_queues_nothing_any_more(integrity: Box, tmp_path: Path, hub: SmallHub) -> None:
    """Without [hub] the queue and the digests are removed when the configuration is read again."""
    root = plant(tmp_path / "photos", 3)
    configure(integrity, root, hub.url)
    with Service(integrity) as service:
        wait_until(lambda: 1 in hub.settled, "the tree on the hub")
        integrity.configure(f'[[root]]\npath = "{root}"\n[schedule]\nscrub = "{NEVER}"\n')
        service.reload()
        wait_until(lambda: not query(integrity, "SELECT 1 FROM report_state"), "no state")
        service.stop()

    assert [(0, 0)] == query(integrity, "SELECT (SELECT count(*) FROM report_change), count(*) FROM report_folder")
    assert "Hub" not in integrity.run("status").stdout


def test_service_ends_at_once_while_the_hub_hangs(integrity: Box, tmp_path: Path, hub: SmallHub) -> None:
    """No answer is waited for."""
    hub.answers = [("heartbeat", SILENCE)]
    configure(integrity, plant(tmp_path / "photos", 3), hub.url)
    with Service(integrity) as service:
        wait_until(lambda: "heartbeat" in hub.calls, "a heartbeat")
        service.stop()
        assert "hang in the system" not in service.log


def test_refused_token_is_read_again_from_its_file(integrity: Box, tmp_path: Path, hub: SmallHub) -> None:
    """A new one takes effect without a restart; of one that everybody can read status says what to do, none is sent."""
    root = plant(tmp_path / "photos", 3)
    configure(integrity, root, hub.url, token="integrity-box-" + "B" * 43)
    os.chmod(integrity.home / "hub.token", 0o644)
    with Service(integrity) as service:
        wait_until(lambda: "report_failed" in service.log, "a failure")
        assert "others can read the token of this box: chmod 600" in integrity.run("status").stdout
        assert [] == hub.calls
        os.chmod(integrity.home / "hub.token", 0o600)
        wait_until(lambda: "does not accept the token" in service.log, "a refusal")
        (integrity.home / "hub.token").write_text(TOKEN)
        wait_until(lambda: bool(hub.messages), "a report")
        service.stop()


def test_busy_hub_is_left_alone_for_as_long_as_it_says(integrity: Box, tmp_path: Path, hub: SmallHub) -> None:
    """200 boxes that come back together are spread by the hub."""
    hub.answers = [("heartbeat", refusal(503, "starting", "3000"))]
    configure(integrity, plant(tmp_path / "photos", 3), hub.url)
    with Service(integrity) as service:
        wait_until(lambda: "report_failed" in service.log, "a failure")
        integrity.run("scan", tmp_path / "photos")
        service.stop()

    assert ["heartbeat"] == hub.calls
