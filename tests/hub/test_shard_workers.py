"""Workers of a shared tree, as processes: together they find what one box alone finds, whoever dies meanwhile."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.postgres import PostgresServer
from support.shardrig import OneBox, ShardRig, damage, make_tree
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


def _work_until_read(rig: ShardRig, configs: list[Path], since: int) -> None:
    workers = [rig.start_worker(config) for config in configs]
    wait_until(lambda: rig.has_read_since(since), f"all shards to be read\n{rig.log}", timeout_s=60, every_s=0.1)
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
