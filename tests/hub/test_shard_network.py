"""Shard work through a bad network, and while the database of the hub is restarted: nothing is lost or doubled."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.hub.database import HubDatabase
from integrity.hub.migrate import migrate
from support.postgres import PostgresServer
from support.relay import BadProxy
from support.shardrig import OneBox, ShardRig, damage, make_tree
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


def _make_database(server: PostgresServer) -> str:
    url = server.create_database()
    database = HubDatabase.open(url, any_revision=True)
    migrate(database)
    database.close()
    return url


@pytest.mark.parametrize("seed", range(2))
def test_bad_network_loses_and_doubles_nothing(shards_url: str, tmp_path: Path, tree: Path, seed: int) -> None:
    """A proxy delays, cuts, loses answers and repeats requests: in the end all is as one box alone has it."""
    alone = OneBox(tmp_path / "alone", tree)
    with (
        ShardRig(shards_url, tmp_path / "rig", tree, lease_s=15) as rig,
        BadProxy(rig.hub_url, seed=seed, faults=0.4) as proxy,
    ):
        configs = [rig.make_config(proxy.url), rig.make_config(proxy.url)]
        rig.work_until_read(configs, 0)
        assert alone.read() == rig.read_shards()
        damage(tree / DAMAGED)
        make_tree(tree / "new", 2, 20)
        rig.work_until_read(configs, int(time.time()) + 1)
        recorded, found = rig.read_shards(), rig.find_damaged()

    assert alone.read() == recorded
    assert {bytes(DAMAGED)} == found
    assert {"delay", "cut", "lose", "repeat"} <= {*proxy.happened}


def test_restart_of_the_database_loses_and_doubles_nothing(server: PostgresServer, tmp_path: Path, tree: Path) -> None:
    """PostgreSQL is killed while shards are read, and stored: workers keep what they have, and store it later."""
    alone = OneBox(tmp_path / "alone", tree)
    alone.read()
    with ShardRig(_make_database(server), tmp_path / "rig", tree, lease_s=15) as rig:
        configs = [rig.make_config(), rig.make_config()]
        rig.work_until_read(configs, 0)
        damage(tree / DAMAGED)
        (tree / "g1" / "folder 1" / "new").write_bytes(b"new")
        for config in configs:
            rig.start_worker(config)
        for _ in range(2):
            wait_until(lambda: bool(rig.find_busy()), f"a worker to have a shard\n{rig.log}", every_s=0.01)
            server.stop(signal.SIGKILL)
            server.start()
        since = int(time.time()) + 1
        wait_until(lambda: rig.has_read_since(since), f"all shards to be read\n{rig.log}", timeout_s=200, every_s=0.1)
        rig.stop_workers()
        recorded, found = rig.read_shards(), rig.find_damaged()

    assert alone.read() == recorded
    assert {bytes(DAMAGED)} == found
