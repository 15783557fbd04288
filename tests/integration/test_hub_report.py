"""A real box reports to a real hub: damage of its disk is there after one report, whatever lies between them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.check import check_hub
from integrity.hub.database import HubDatabase
from support.cli import Box
from support.hubserver import HubServerProcess, make_tables
from support.planted import plant
from support.postgres import PostgresServer
from support.proxies import HttpProxy
from support.service import Service
from support.shapes import damage
from support.stored import query
from support.waiting import wait_until

NEVER = "0 0 29 feb *"
PATIENCE_S = 120.0


@pytest.fixture(params=["sqlite", "postgresql"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HubServerProcess]:
    """Run a hub, on each kind of database in turn."""
    home = Box(tmp_path / "hub-home")
    if request.param == "sqlite":
        with HubServerProcess(home, str(tmp_path / "hub.db")) as hub:
            yield hub
        return
    with PostgresServer() as postgres:
        url = make_tables(postgres.create_database())
        with HubServerProcess(home, url) as hub:
            yield hub


class HubRows:
    """What a hub has stored, read from its database."""

    def __init__(self, server: HubServerProcess) -> None:
        self._database = HubDatabase.open(server.database)

    def __enter__(self) -> HubRows:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def findings(self) -> list[tuple[object, ...]]:
        """Return path, kind and state of each finding of a box."""
        columns = schema.box_finding.c.path, schema.box_finding.c.kind, schema.box_finding.c.state
        with self._database.read() as c:
            return [(bytes(row.path), row.kind, row.state) for row in c.execute(sa.select(*columns))]

    def runs(self) -> list[int]:
        """Return the number of each run, in the order in which they arrived."""
        query = sa.select(schema.box_event.c.body).order_by(schema.box_event.c.id)
        with self._database.read() as c:
            return [json.loads(body)["id"] for body in c.execute(query).scalars()]

    def settled(self) -> list[bytes]:
        """Return the digest of each settled tree that is the announced one."""
        member = schema.member.c
        query = sa.select(member.settled_tree).where(member.settled_tree == member.announced_tree)
        with self._database.read() as c:
            return [bytes(one) for one in c.execute(query).scalars()]

    def count(self, table: sa.Table) -> int:
        """Count rows."""
        with self._database.read() as c:
            return int(c.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())

    def problems(self) -> list[str]:
        """Return what the hub's own check finds."""
        return check_hub(self._database, 0).problems


def configure(box: Box, root: Path, server: HubServerProcess, url: str) -> None:
    """Have a root reported by a box that the hub knows."""
    roots = f'[[root]]\npath = "{root}"\nsettle = "1s"\nreplica_set = "photos"\n[schedule]\nscrub = "{NEVER}"'
    server.join(box, server.add("nas").token, roots, more='report_every = "2s"\n', url=url)


def test_everything_arrives_once_behind_a_bad_proxy(integrity: Box, tmp_path: Path, server: HubServerProcess) -> None:
    """It delays, cuts, loses answers, and repeats; the hub is killed, and the service, too."""
    root = plant(tmp_path / "photos", 30)
    with HttpProxy(server.url).rough(1, faults=0.3) as proxy, HubRows(server) as rows:
        configure(integrity, root, server, proxy.url)
        for kills_hub in (False, True, False):
            (root / f"new{len(proxy.happened)}").write_text("new")
            before = len(proxy.happened)
            with Service(integrity) as service:
                service.wait_begun()
                wait_until(partial(has_more, proxy, before + 3), "some requests", timeout_s=PATIENCE_S)
                if kills_hub:
                    server.stop(signal.SIGKILL)
                    server.start()
                os.kill(service.pid, signal.SIGKILL)
                service.wait_end()
        with Service(integrity) as service:
            service.wait_begun()
            wait_until(
                lambda: rows.count(schema.file) == 33 and rows.settled() != [], "all files", timeout_s=PATIENCE_S
            )
            service.wait_idle()
            ((newest,),) = query(integrity, "SELECT max(id) FROM run")
            wait_until(lambda: newest in rows.runs(), "the last run", timeout_s=PATIENCE_S)
            service.stop()
        runs = rows.runs()
        assert [*range(runs[0], runs[0] + len(runs))] == runs  # the first may have ended before the box joined
        assert runs[0] <= 2
        assert [] == rows.problems()
        assert {*proxy.happened} - {"pass"}


def test_box_that_went_back_reports_its_open_findings_again(
    integrity: Box, tmp_path: Path, server: HubServerProcess
) -> None:
    """Restored from a backup of its catalog: what the hub had from later ends there, and nothing is doubled."""
    root = plant(tmp_path / "photos", 3)
    configure(integrity, root, server, server.url)
    with Service(integrity) as service, HubRows(server) as rows:
        service.wait_begun()
        wait_until(lambda: rows.settled() != [], "a settled tree", timeout_s=PATIENCE_S)
        service.stop()
        integrity.run("catalog", "backup", expect=0)
        damage(root / "d0/0.txt")
        integrity.run("scrub", root, expect=1)
    with Service(integrity) as service, HubRows(server) as rows:
        wait_until(lambda: len(rows.findings()) == 1, "the finding", timeout_s=PATIENCE_S)
        service.stop()
    integrity.run("catalog", "restore", "--yes", expect=0)
    damage(root / "d0/0.txt")
    with Service(integrity) as service, HubRows(server) as rows:
        wait_until(
            lambda: [one[2] for one in rows.findings()] != ["open"] and rows.settled() != [],
            "the end of what the box does not know any more",
            timeout_s=PATIENCE_S,
        )
        service.stop()
        assert [] == rows.problems()


def has_more(proxy: HttpProxy, count: int) -> bool:
    """Return whether the proxy had more requests than so many."""
    return len(proxy.happened) > count
