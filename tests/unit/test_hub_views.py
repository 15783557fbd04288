"""What commands and pages say of reports to a hub, and which addresses a hub can have."""

from __future__ import annotations

import pytest

from integrity.config.parsers import parse_hub_url
from integrity.jobs.hub_status import HubStatus
from integrity.service.control.wire import DaemonState
from integrity.views.sentence import describe_hub, find_complete_at, hub_object
from integrity.views.service import ServiceView
from support.catalogs import NOW

RUNNING = ServiceView(DaemonState(1, NOW, "1"))
URL = "https://hub.example.org"


def status(**values: object) -> HubStatus:
    fields = {"complete_at": NOW, "failing_since": None, "last_error": None, "waiting": 0} | values
    return HubStatus(url=URL, **fields)  # type: ignore[arg-type]  # any of its fields


def test_nothing_is_said_without_a_hub() -> None:
    """Most boxes have none."""
    assert [] == list(describe_hub(None, RUNNING))


def test_failing_reports_say_why_and_that_nothing_is_lost() -> None:
    """What happened, since when, how bad, and what follows."""
    failing = status(complete_at=None, failing_since=NOW, last_error="hub: Connection refused", waiting=1)

    first, second, third = describe_hub(failing, RUNNING)

    assert f"Hub: {URL}; it never had everything yet" == first
    assert second.endswith(": hub: Connection refused")
    assert "nothing is lost: 1 change waiting to be reported; next try within 15 minutes" == third.strip()


def test_service_knows_better_than_the_catalog_when_the_hub_had_everything() -> None:
    """A report without news is not written down, so that it wakes no disk."""
    live = ServiceView(DaemonState(1, NOW, "1", reported_at=NOW + 3600))

    assert (NOW, NOW + 3600) == (find_complete_at(status(), RUNNING), find_complete_at(status(), live))
    assert "2025-11-21T05:40:00Z" == hub_object(status(), live)["complete_at"]


def test_missing_service_is_said() -> None:
    """Only it reports."""
    assert "only the service reports, and none runs" in list(describe_hub(status(), ServiceView(None)))[-1]


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("", ""),
        ("https://hub.example.org/", "https://hub.example.org"),
        ("https://hub.example.org/sub", "https://hub.example.org/sub"),
        ("http://127.0.0.1:8433", "http://127.0.0.1:8433"),
        ("http://[::1]:8433", "http://[::1]:8433"),
        ("http://localhost:8433", "http://localhost:8433"),
    ],
)
def test_addresses_of_hubs(url: str, parsed: str) -> None:
    """A path is allowed: a proxy may serve more than the hub."""
    assert parsed == parse_hub_url(url)


@pytest.mark.parametrize(
    "url",
    ["http://hub.example.org", "ftp://hub", "https://me:secret@hub", "https://hub?x", "hub", 5, "http://10.0.0.1"],
)
def test_token_is_never_sent_in_plain_text(url: object) -> None:
    """http:// is for this machine only; passwords and queries have no place."""
    with pytest.raises(ValueError, match="must be an address"):
        parse_hub_url(url)
