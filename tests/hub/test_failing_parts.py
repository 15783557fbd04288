"""What of a hub does not work is told, wherever somebody or something looks; one failure alone is not."""

from __future__ import annotations

import json
from collections.abc import Sequence

from starlette.requests import Request

from integrity.config import HubServer
from integrity.errors import HubDatabaseAway
from integrity.hub.database import HubDatabase
from integrity.hub.fleet_sentence import load_fleet, sum_up_fleet
from integrity.hub.pages.api import HubApi
from integrity.hub.pages.fleet import FleetPages
from integrity.hub.pages.site import HubSite
from integrity.hub.work import FailingPart, PartWatch
from integrity.views.sentence import Gravity
from support.clock import Clock

ALERTS = FailingPart("send_alerts", "alerts were not sent", 600, "No space left on device")
TEXT = "The hub does not work as it should: alerts were not sent for 10 min (No space left on device)."


def watch(clock: Clock) -> PartWatch:
    parts = PartWatch(clock)
    parts.add("worker", "no jobs were run", patience_s=100)
    parts.add("send_alerts", "alerts were not sent", patience_s=100, late_s=900)
    return parts


def find_names(parts: PartWatch) -> list[str]:
    return [one.name for one in parts.find_failing()]


def test_part_that_goes_on_failing_is_named_until_it_works() -> None:
    """From the first failure on; the reason is that of the last one, on one line."""
    clock = Clock()
    parts = watch(clock)
    parts.note_failure("worker", HubDatabaseAway("hub: restarted"))
    clock.now += 100
    assert [] == find_names(parts)
    parts.note_failure("worker", HubDatabaseAway("hub: \x1b No space left on device\nLINE 1: secret"))
    clock.now += 1
    assert [("worker", "no jobs were run", 101, "hub: \\x1b No space left on device")] == parts.find_failing()
    parts.note_success("worker")
    assert [] == find_names(parts)
    parts.note_failure("worker", ValueError())
    clock.now += 101
    assert ["ValueError"] == [one.reason for one in parts.find_failing()]


def test_part_that_hangs_is_named() -> None:
    """A job that neither ends nor fails raises nothing; a part that need not do anything may be still."""
    clock = Clock()
    parts = watch(clock)
    clock.now += 901
    assert [("send_alerts", "alerts were not sent", 901, "")] == parts.find_failing()
    assert "alerts were not sent for 15 min 1 s." in parts.find_failing()[0].text
    parts.note_success("send_alerts", "worker")
    clock.now += 900
    assert [] == find_names(parts)


def ask(page: str) -> Request:
    return Request({"type": "http", "method": "GET", "path": page, "query_string": b"", "headers": []})


def make_site(database: HubDatabase, failing: Sequence[FailingPart]) -> HubSite:
    return HubSite(database, HubServer(), lambda: failing)


def test_health_metrics_and_programs_tell_what_fails(hub_database: HubDatabase) -> None:
    """The status is no success, so nobody has to read the text."""
    well, failing = (make_site(hub_database, some) for some in ((), (ALERTS,)))
    health = FleetPages(failing).show_health(ask("/healthz"))
    metrics = [bytes(FleetPages(one).show_metrics(ask("/metrics")).body).decode() for one in (well, failing)]

    assert (503, f"{TEXT}\n".encode()) == (health.status_code, health.body)
    assert 200 == FleetPages(well).show_health(ask("/healthz")).status_code
    assert "integrity_hub_parts_failing 0.0" in metrics[0]
    assert "integrity_hub_parts_failing 1.0" in metrics[1]
    assert 'integrity_hub_part_failing_seconds{part="send_alerts"} 600.0' in metrics[1]
    assert TEXT in json.dumps(HubApi(failing).find_pages()["/status"].answer(ask("/api/v1/status")))


def test_overview_begins_with_what_fails(hub_database: HubDatabase) -> None:
    """What would have been found is not known, so nothing is green; damage that is known stands before it."""
    with hub_database.read() as c:
        sentence = sum_up_fleet(c, load_fleet(c, 0, 0), 0, [ALERTS])

    assert (Gravity.WARNING, TEXT) == (sentence.gravity, sentence.text)
    assert "journalctl -u integrity-hub" in sentence.more[0]
