"""What a hub does again and again, as its worker calls it, with an alert that arrives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integrity.config import Alerts, Config
from integrity.hub.box_checks import BoxLimits
from integrity.hub.database import HubDatabase
from integrity.hub.server import make_duties
from integrity.hub.votes import run_vote
from integrity.hub.work import HubWork
from support.clock import Clock
from support.hub_rows import DAY_S, NOW, HubRows
from support.postgres import PostgresServer


def test_full_disk_is_told_though_nothing_happens(hub_url: str, hub_database: HubDatabase) -> None:
    """No set is to be voted on, and no box reports: what writes a row each minute finds that it can't."""
    if not hub_database.is_postgres:
        pytest.skip("disks are filled in PostgreSQL only")
    with hub_database.transaction() as c:
        HubRows(c).add_box("nas")
    clock = Clock()
    duties = make_duties(Config(catalog=b"/unused"), limits=BoxLimits(DAY_S, 1 << 40), page_url="")
    work = HubWork(hub_database, run_vote, duties, clock=lambda: NOW, monotonic=clock)
    PostgresServer.fill_disk(hub_url)
    for duty in duties[:2]:
        work.run_duty(duty)
    clock.now += 200
    (failing,) = work.parts.find_failing()
    PostgresServer.free_disk(hub_url)
    work.run_duty(duties[0])

    assert "nothing was stored of what boxes report" in failing.text
    assert "No space left on device" in failing.text
    assert [] == work.parts.find_failing()


def test_silent_box_is_an_alert(hub_database: HubDatabase, tmp_path: Path) -> None:
    """The check finds it, and the next round of alerts sends it through the configured program."""
    arrived = tmp_path / "alert.json"
    program = tmp_path / "alert"
    program.write_text(f"#!/bin/sh\ncat > {arrived}\n")
    program.chmod(0o755)
    config = Config(catalog=b"/unused", alerts=Alerts(command=(str(program),)))
    duties = {
        one.name: one for one in make_duties(config, limits=BoxLimits(DAY_S, 1 << 40), page_url="https://hub.lan")
    }
    with hub_database.transaction() as c:
        HubRows(c).add_box("attic", seen_ago_s=2 * DAY_S)
    duties["check_boxes"].run(hub_database, NOW)
    for name, at in (("send_alerts", NOW), ("send_alerts", NOW + config.alerts.group_s), ("retain", NOW)):
        duties[name].run(hub_database, at)

    assert "attic does not report" in json.loads(arrived.read_text())["subject"]
    assert duties["send_alerts"].is_after_votes
