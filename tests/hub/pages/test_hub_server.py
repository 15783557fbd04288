"""The pages of the real hub: a box that reports appears on them, and neither side reaches what is the other's."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from support.cli import Box
from support.hub_reports import Stream, make_finding, make_heartbeat, make_root
from support.hubserver import HubServerProcess
from support.waiting import wait_until
from support.webpage import PASSWORD, WebClient


@pytest.fixture
def owner(hub: HubServerProcess) -> WebClient:
    """Set the password with the link that the hub printed; that logs in."""
    wait_until(lambda: "/welcome?" in hub.log and hub.log.endswith("\n"), "the link")
    token = re.findall(r"/welcome\?token=(\S+)", hub.log)[0]
    client = WebClient(hub.port)
    form = {"token": token, "password": PASSWORD, "again": PASSWORD}
    assert 303 == client.post("/welcome", form).status
    return client


def test_box_that_reports_is_on_the_pages(hub: HubServerProcess, owner: WebClient) -> None:
    """First it is missed, then it is there with its sentence, its folder and its finding."""
    nas = hub.add("nas")
    waiting = owner.get("/").text
    now = int(time.time())
    stream = Stream().begin(make_finding(1, "2019/<b>.jpg"))
    root = make_root(1, oldest_verified_at=now - 60)
    nas.call("heartbeat", make_heartbeat(stream.id, root, sent_at=now, newest=2, state="problem", sentence="1 < 2."))
    assert 200 == nas.post("messages", stream.body()).status
    overview, box = owner.get("/").text, owner.get("/boxes/nas").text

    assert "1 box has not reported yet: nas." in waiting
    assert "1 box reports a problem: nas." in overview
    assert "nas says: 1 &lt; 2." in overview
    assert "/srv/root1/2019/&lt;b&gt;.jpg" in box
    assert 'href="/sets/photos"' in box
    assert "new_stream" in {one["verb"] for one in owner.get("/api/v1/audit").object["entries"]}
    assert "Traceback" not in hub.log


def test_neither_side_reaches_what_is_the_others(hub: HubServerProcess, owner: WebClient) -> None:
    """The token of a box opens no page, and a log-in is no token."""
    nas = hub.add("nas")
    program = WebClient(hub.port)

    assert 401 == program.get("/metrics", Authorization=f"Bearer {nas.token}").status
    assert 401 == program.get("/api/v1/boxes", Authorization=f"Bearer {nas.token}").status
    assert 303 == program.get("/", Authorization=f"Bearer {nas.token}").status
    assert 401 == owner.ask("POST", "/hub/v1/heartbeat", b"{}").status
    assert "Content-Security-Policy" not in owner.ask("POST", "/hub/v1/heartbeat", b"{}").headers
    assert 200 == program.get("/healthz").status


def test_pages_answer_under_configured_names_only(integrity: Box, tmp_path: Path) -> None:
    """A name that an attacker lets point here (DNS rebinding) gets nothing, not even the log-in."""
    with HubServerProcess(integrity, str(tmp_path / "hub.db"), 'hosts = ["NAS.example"]\n') as hub:
        asked = WebClient(hub.port)
        told = [asked.get("/login", Host=f"{host}:{hub.port}") for host in ("nas.example", "evil.example", "localhost")]

    assert [303, 421, 303] == [303 if one.status in (200, 303) else one.status for one in told]
    assert "add it to [hub_server] hosts" in told[1].text
