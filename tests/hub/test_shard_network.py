"""Shard work through a bad network, and while the database of the hub is restarted: nothing is lost or doubled."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hubserver import make_tables
from support.postgres import PostgresServer
from support.proxies import HttpProxy
from support.shapes import damage
from support.shardrig import ShardRig, make_tree, read_alone
from support.waiting import wait_until

DAMAGED = Path("g0") / "folder 3" / "file 7"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a tree of 121 files in nested folders."""
    top = tmp_path / "tree"
    make_tree(top, 6, 20)
    return top


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """Run PostgreSQL for one test, which may kill it."""
    with PostgresServer(is_durable=True) as made:
        yield made


def test_bad_network_loses_and_doubles_nothing(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """A proxy delays, cuts, loses answers and repeats requests: in the end all is as one box alone has it."""
    with (
        ShardRig(shards_url, tmp_path / "rig", tree, lease_s=15) as rig,
        HttpProxy(rig.hub.url).rough(1, faults=0.4) as proxy,
    ):
        boxes = [rig.make_box(proxy.url), rig.make_box(proxy.url)]
        rig.work_until_read(boxes, 0)
        assert read_alone(tmp_path / "alone", tree) == rig.read_shards()
        damage(tree / DAMAGED)
        make_tree(tree / "new", 2, 20)
        rig.work_until_read(boxes, int(time.time()) + 1)
        recorded, found = rig.read_shards(), rig.find_damaged()

    assert read_alone(tmp_path / "alone", tree) == recorded
    assert {bytes(DAMAGED)} == found
    assert {"delay", "cut", "lose", "repeat"} <= {*proxy.happened}


def test_restart_of_the_database_loses_and_doubles_nothing(server: PostgresServer, tmp_path: Path, tree: Path) -> None:
    """PostgreSQL is killed while shards are read, and stored: workers keep what they have, and store it later."""
    read_alone(tmp_path / "alone", tree)
    with ShardRig(make_tables(server.create_database()), tmp_path / "rig", tree, lease_s=15) as rig:
        boxes = [rig.make_box(), rig.make_box()]
        rig.work_until_read(boxes, 0)
        damage(tree / DAMAGED)
        (tree / "g1" / "folder 1" / "new").write_bytes(b"new")
        for box in boxes:
            rig.start_worker(box)
        for _ in range(2):
            wait_until(lambda: bool(rig.find_busy()), f"a worker to have a shard\n{rig.log}", every_s=0.01)
            server.stop(signal.SIGKILL)
            server.start()
        since = int(time.time()) + 1
        rig.wait_read(since)
        rig.stop_workers()
        recorded, found = rig.read_shards(), rig.find_damaged()

    assert read_alone(tmp_path / "alone", tree) == recorded
    assert {bytes(DAMAGED)} == found
