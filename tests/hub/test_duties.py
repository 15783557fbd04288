"""What a hub does again and again, as its worker calls it, with an alert that arrives."""

from __future__ import annotations

import json
from pathlib import Path

from integrity.config import Alerts, Config
from integrity.hub.box_checks import BoxLimits
from integrity.hub.database import HubDatabase
from integrity.hub.server import make_duties
from support.hub_rows import DAY_S, NOW, HubRows


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
