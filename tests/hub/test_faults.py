"""A hub whose database goes away and comes back."""

from __future__ import annotations

import signal

from integrity.reporting import protocol
from support.cli import Box
from support.hub_reports import Stream, make_finding, make_heartbeat
from support.hubserver import HubServerProcess, make_tables
from support.postgres import PostgresServer
from support.waiting import wait_until


def test_hub_goes_on_after_a_crash_of_postgresql(integrity: Box) -> None:
    """While PostgreSQL is away boxes are told to come back; afterwards all works, and what was confirmed is there."""
    with PostgresServer(is_durable=True) as server:
        url = make_tables(server.create_database())
        with HubServerProcess(integrity, url) as hub:
            nas, stream = hub.add("nas"), Stream().begin(make_finding(1))
            beat = protocol.encode(make_heartbeat(stream.id, newest=2))
            assert {"last": 2} == nas.post("messages", stream.body()).object
            server.stop(signal.SIGKILL)
            away = nas.post("heartbeat", beat)
            server.start()
            wait_until(lambda: nas.post("heartbeat", beat).status == 200, "the hub to go on", every_s=0.2)

            assert (503, "database_away") == (away.status, away.object["error"])
            assert int(away.headers["Retry-After"]) > 0
            assert 2 == nas.post("heartbeat", beat).object["last"]
            assert not hub.has_ended
