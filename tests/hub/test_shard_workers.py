"""Workers of a shared tree, as processes: together they find what one box alone finds, whoever dies meanwhile."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.postgres import PostgresServer
from support.shardrig import OneBox, ShardRig, damage, kill_at_random, make_tree
from support.waiting import wait_until


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a tree of 241 files in nested folders."""
    top = tmp_path / "tree"
    make_tree(top, 12, 20)
    return top


@pytest.fixture
def shards_url(postgres: PostgresServer) -> Iterator[str]:
    """Return a database with the tables of a hub."""
    url = postgres.create_database(template="hub_template")
    yield url
    postgres.drop_database(url)


def test_workers_record_and_find_what_one_box_does(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """Two workers record the same files as one box alone; damage and changes are found alike in the next round."""
    alone = OneBox(tmp_path / "alone", tree)
    with ShardRig(shards_url, tmp_path / "rig", tree) as rig:
        configs = [rig.make_config(), rig.make_config()]
        began_at = int(time.time())
        _work_until_read(rig, configs, began_at)
        recorded, shards = rig.read_shards(), len(rig.shards())
        assert alone.read() == recorded
        assert 241 == len(recorded.files)
        assert shards >= 5

        damage(tree / "g0" / "folder 3" / "file 7")
        (tree / "g1" / "folder 1" / "file 1").unlink()
        (tree / "g2" / "folder 2" / "file 2").write_bytes(b"honestly changed")
        (tree / "new").mkdir()
        (tree / "new" / "file").write_bytes(b"new")
        _work_until_read(rig, configs, int(time.time()) + 1)

        after = rig.read_shards()
        assert alone.read() == after
        assert {b"g0/folder 3/file 7"} == {path for path, *_ in after.findings}


def test_kills_of_workers_and_hub_lose_and_double_nothing(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """Workers and the hub are killed at random moments; in the end every file is recorded once, as by one box alone."""
    with ShardRig(shards_url, tmp_path / "rig", tree) as rig:
        last = kill_at_random(rig, random.Random(15), workers=3, kills=12, most_wait_s=3)
        wait_until(lambda: rig.has_read_since(last), f"all shards to be read\n{rig.log}", timeout_s=120, every_s=0.1)
        recorded = rig.read_shards()

    assert OneBox(tmp_path / "alone", tree).read() == recorded


def test_worker_that_hangs_loses_its_shard_and_stores_nothing(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """A worker that stands still while it has a shard is replaced; when it goes on, its late result is refused."""
    with ShardRig(shards_url, tmp_path / "rig", tree, lease_s=2) as rig:
        hanging = rig.start_worker()
        wait_until(lambda: bool(rig.find_busy()), f"a worker to have a shard\n{rig.log}", every_s=0.01)
        hanging.send_signal(signal.SIGSTOP)
        (stuck,) = rig.find_busy()
        version = next(row.version for row in rig.shards() if row.id == stuck)
        rig.start_worker()
        wait_until(
            lambda: next(row.version for row in rig.shards() if row.id == stuck) > version,
            f"another worker to read the shard\n{rig.log}",
            every_s=0.1,
        )
        hanging.send_signal(signal.SIGCONT)
        wait_until(lambda: "lease" in rig.log, f"the first worker to hear of it\n{rig.log}", every_s=0.1)
        since = int(time.time())
        wait_until(lambda: rig.has_read_since(since), f"all shards to be read\n{rig.log}", every_s=0.1)
        recorded = rig.read_shards()

    assert OneBox(tmp_path / "alone", tree).read() == recorded


def _work_until_read(rig: ShardRig, configs: list[Path], since: int) -> None:
    workers = [rig.start_worker(config) for config in configs]
    wait_until(lambda: rig.has_read_since(since), f"all shards to be read\n{rig.log}", timeout_s=60, every_s=0.1)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
