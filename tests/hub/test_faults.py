"""A hub whose database goes away and comes back."""

from __future__ import annotations

import signal

from integrity.reporting import protocol
from support.cli import Box
from support.hub_reports import Stream, Tree, make_file, make_finding, make_heartbeat, make_root
from support.hubserver import HubServerProcess, make_tables
from support.postgres import PostgresServer
from support.waiting import wait_until


def test_full_disk_of_postgresql_is_no_bug_of_the_hub(integrity: Box, postgres: PostgresServer) -> None:
    """Boxes are told to come back, and why, wherever their rows are written; then they are stored."""
    url = make_tables(postgres.create_database())
    with HubServerProcess(integrity, url) as hub:
        nas, stream = hub.add("nas"), Stream()
        tree = Tree({b"": [make_file(b"a.jpg")]})
        parts = tree.parts()
        nas.call("heartbeat", make_heartbeat(stream.id, make_root(1, tree=tree.top)))
        postgres.fill_disk(url, "file", "file_part", "box_finding")
        answers = [
            nas.post("messages", stream.begin(make_finding(1)).body()),
            nas.post("trees/1/folders", protocol.encode_lines([{"protocol": 1}, *parts])),
        ]
        postgres.free_disk(url)
        nas.send_tree(parts)

        for answer in answers:
            assert (503, "database_away") == (answer.status, answer.object["error"])
            assert int(answer.headers["Retry-After"]) > 0
        assert "No space left on device" in hub.log
        assert "a bug" not in hub.log
    postgres.drop_database(url)


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
