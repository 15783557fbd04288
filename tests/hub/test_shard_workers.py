"""Workers of a shared tree, as processes: together they find what one box alone finds, whoever dies meanwhile."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from integrity.hub.findings import UNRESOLVED, find_findings
from integrity.hub.schema import shared_tree
from integrity.hub.shards.tree_disks import ANY_INODE
from support.cli import Box
from support.loopfs import LoopFS
from support.shapes import damage
from support.shardrig import ShardRig, kill_at_random, make_tree, read_alone, read_catalog
from support.waiting import wait_until


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a tree of 241 files in nested folders."""
    top = tmp_path / "tree"
    make_tree(top, 12, 20)
    return top


def test_workers_record_and_find_what_one_box_does(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """Two workers record the same files as one box alone; damage and changes are found alike in the next round."""
    with ShardRig(shards_url, tmp_path / "rig", tree) as rig:
        boxes = [rig.make_box(), rig.make_box()]
        began_at = int(time.time())
        rig.work_until_read(boxes, began_at)
        recorded, shards = rig.read_shards(), len(rig.shards())
        assert read_alone(tmp_path / "alone", tree) == recorded
        assert 241 == len(recorded.files)
        assert shards >= 5

        damage(tree / "g0" / "folder 3" / "file 7")
        (tree / "g1" / "folder 1" / "file 1").unlink()
        (tree / "g2" / "folder 2" / "file 2").write_bytes(b"honestly changed")
        (tree / "new").mkdir()
        (tree / "new" / "file").write_bytes(b"new")
        rig.work_until_read(boxes, int(time.time()) + 1)

        after = rig.read_shards()
        assert read_alone(tmp_path / "alone", tree) == after
        assert {b"g0/folder 3/file 7"} == {path for path, *_ in after.findings}


def test_kills_of_workers_and_hub_lose_and_double_nothing(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """Workers and the hub are killed at random moments; in the end every file is recorded once, as by one box alone."""
    with ShardRig(shards_url, tmp_path / "rig", tree) as rig:
        last = kill_at_random(rig, random.Random(15), workers=3, kills=12, most_wait_s=3)
        rig.wait_read(last)
        recorded = rig.read_shards()

    assert read_alone(tmp_path / "alone", tree) == recorded


def test_service_reads_a_shared_tree_and_leaves_it_out_of_its_own_work(
    shards_url: str, tmp_path: Path, tree: Path
) -> None:
    """A service with a shared root reads its shards while a window is open, and records none of it by itself."""
    with ShardRig(shards_url, tmp_path / "rig", tree) as rig:
        box = rig.make_box()
        service = rig.start_service(box)
        rig.wait_read(0)
        assert 0 == service.stop()
        recorded = rig.read_shards()

    assert read_alone(tmp_path / "alone", tree) == recorded
    assert {} == read_catalog(box.catalog).files


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(10))
def test_many_kills_lose_and_double_nothing(shards_url: str, tmp_path: Path, tree: Path, seed: int) -> None:
    """Fifty kills of workers and hub at random moments, while files come, change and are damaged."""
    read_alone(tmp_path / "alone", tree)
    chance = random.Random(seed)
    with ShardRig(shards_url, tmp_path / "rig", tree) as rig:
        rig.work_until_read([rig.make_box(), rig.make_box()], int(time.time()))
        damage(tree / "g0" / "folder 3" / "file 7")
        make_tree(tree / f"new {seed}", 3, 20)
        last = kill_at_random(rig, chance, workers=4, kills=50, most_wait_s=5)
        rig.wait_read(last, timeout_s=600)
        rig.stop_workers()
        recorded = rig.read_shards()

    read_alone(tmp_path / "alone", tree)
    assert read_alone(tmp_path / "alone", tree) == recorded


def test_worker_that_hangs_loses_its_shard_and_stores_nothing(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """A worker that stands still while it has a shard is replaced; when it goes on, its late result is refused."""
    with ShardRig(shards_url, tmp_path / "rig", tree, lease_s=2) as rig:
        hanging = rig.start_worker()

        def is_stopped_amid_a_shard() -> bool:
            os.kill(hanging.pid, signal.SIGSTOP)
            is_amid = bool(rig.find_busy())
            if not is_amid:
                os.kill(hanging.pid, signal.SIGCONT)
            return is_amid

        wait_until(is_stopped_amid_a_shard, f"a worker to have a shard\n{rig.log}", every_s=0.01)
        (stuck,) = rig.find_busy()
        version = next(row.version for row in rig.shards() if row.id == stuck)
        rig.start_worker()
        wait_until(
            lambda: next(row.version for row in rig.shards() if row.id == stuck) > version,
            f"another worker to read the shard\n{rig.log}",
            every_s=0.1,
        )
        os.kill(hanging.pid, signal.SIGCONT)
        wait_until(lambda: "lease" in rig.log, f"the first worker to hear of it\n{rig.log}", every_s=0.1)
        since = int(time.time())
        rig.wait_read(since)
        recorded = rig.read_shards()

    assert read_alone(tmp_path / "alone", tree) == recorded


@pytest.mark.long  # the hub's part of it: ``test_shards``
def test_shard_that_grew_is_cut_and_keeps_what_is_known(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """Many new files get shards of their own; damage that is known of the old one stays known, and is not recorded."""
    with ShardRig(shards_url, tmp_path / "rig", tree) as rig:
        boxes = [rig.make_box(), rig.make_box()]
        rig.work_until_read(boxes, int(time.time()))
        assert rig.read_shards() == read_alone(tmp_path / "alone", tree)
        damage(tree / "g0" / "folder 3" / "file 7")
        rig.work_until_read(boxes, int(time.time()) + 1)
        before = len(rig.shards())
        for number in range(10):
            make_tree(tree / "g0" / "folder 3" / f"new {number}", 1, 30)
        rig.work_until_read(boxes, int(time.time()) + 1)
        rig.work_until_read(boxes, int(time.time()) + 1)
        cut, recorded = len(rig.shards()), rig.read_shards()

    assert cut >= before + 5
    read_alone(tmp_path / "alone", tree)
    assert read_alone(tmp_path / "alone", tree) == recorded
    assert {b"g0/folder 3/file 7"} == {path for path, *_ in recorded.findings}


def test_tree_that_changes_while_it_is_surveyed_and_read(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """Folders that come and go meanwhile are recorded in the end as one box alone records them."""
    with ShardRig(shards_url, tmp_path / "rig", tree) as rig:
        for _ in range(2):
            rig.start_worker()
        for number in range(30):
            make_tree(tree / f"came {number}", 1, 5)
            if number >= 10:
                shutil.rmtree(tree / f"came {number - 10}")
            (tree / "g1" / f"folder {number % 4 * 3 + 1}").rename(tree / "g1" / f"moved {number}")
            (tree / "g1" / f"moved {number}").rename(tree / "g1" / f"folder {number % 4 * 3 + 1}")
            threading.Event().wait(0.2)
        since = int(time.time()) + 1
        rig.wait_read(since)
        rig.stop_workers()
        recorded = rig.read_shards()

    assert read_alone(tmp_path / "alone", tree).files == recorded.files


def test_worker_before_another_folder_gets_no_work(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """A machine on which the tree is not mounted stores nothing, and its owner reads why."""
    with ShardRig(shards_url, tmp_path / "rig", tree) as rig:
        rig.work_until_read([rig.make_box()], int(time.time()))
        recorded = rig.read_shards()
        box = rig.make_box()
        (tmp_path / "not mounted").mkdir()
        toml = (box.home / "integrity.toml").read_text()
        box.configure(toml.replace(str(tree), str(tmp_path / "not mounted")))
        worker = rig.start_worker(box)

        assert worker.wait() != 0
        assert "Mount the right disk on box2" in rig.log
        assert recorded == rig.read_shards()


def _mount_elsewhere(box: Box, tree: Path, other: Path) -> None:
    toml = (box.home / "integrity.toml").read_text()
    box.configure(toml.replace(f'"{tree}"', f'"{other}"'))


def _let_any_folder_be_the_tree(rig: ShardRig) -> None:
    """Make the number of the top folder prove nothing, as that of every ext4."""
    with rig.database.transaction() as c:
        c.execute(sa.update(shared_tree).values(inode=ANY_INODE))


def _find_open(rig: ShardRig) -> list[tuple[str, str | None]]:
    with rig.database.read() as c:
        found = [(one.kind.value, one.box_name) for one in find_findings(c, UNRESOLVED)]
    return [one for one in found if one[0].startswith("tree_") and one[0] != "tree_overdue"]


@pytest.mark.parametrize("policy", ["archive", pytest.param("mutable", marks=pytest.mark.long)])
def test_worker_before_a_wrong_disk_reports_nothing_as_missing(
    shards_url: str, tmp_path: Path, tree: Path, policy: str
) -> None:
    """It reads nothing, and its owner hears which disk it sees; with the right disk it works again."""
    with ShardRig(shards_url, tmp_path / "rig", tree, policy=policy) as rig:
        rig.work_until_read([rig.make_box()], int(time.time()))
        recorded = rig.read_shards()
        other = tmp_path / "other disk"
        make_tree(other / "films", 3, 30)
        box = rig.make_box()
        _mount_elsewhere(box, tree, other)
        _let_any_folder_be_the_tree(rig)
        wrong = rig.start_worker(box)

        assert 0 != wrong.wait()
        assert "is not the shared tree archive" in rig.log
        assert [("tree_other_disk", "box2")] == _find_open(rig)
        assert recorded == rig.read_shards()

        _mount_elsewhere(box, other, tree)
        _let_any_folder_be_the_tree(rig)
        rig.work_until_read([box], int(time.time()) + 1)
        assert [] == _find_open(rig)
        assert recorded.files == rig.read_shards().files


@pytest.mark.root
def test_ext4_in_place_of_another_is_known_by_its_uuid(shards_url: str, tmp_path: Path) -> None:
    """The top folders of both have the inode 2, and both have the same folders; nothing becomes missing."""
    with LoopFS("ext4") as right, LoopFS("ext4") as wrong:
        make_tree(right.folder, 12, 20)
        make_tree(wrong.folder, 12, 5)
        with ShardRig(shards_url, tmp_path / "rig", right.folder, policy="archive") as rig:
            box = rig.make_box()
            rig.work_until_read([box], int(time.time()))
            recorded = rig.read_shards()
            _mount_elsewhere(box, right.folder, wrong.folder)
            worker = rig.start_worker(box)

            assert 0 != worker.wait()
            assert "a different one is (uuid:" in rig.log
            assert [("tree_other_disk", "box1")] == _find_open(rig)
            assert recorded == rig.read_shards()


def test_folder_that_was_removed_is_missing_and_no_other_disk(shards_url: str, tmp_path: Path, tree: Path) -> None:
    """All files of a shard are gone, and the rest of the tree is there: they were removed."""
    with ShardRig(shards_url, tmp_path / "rig", tree, policy="archive") as rig:
        box = rig.make_box()
        rig.work_until_read([box], int(time.time()))
        shutil.rmtree(tree / "g0" / "folder 3")
        rig.work_until_read([box], int(time.time()) + 1)

        assert {f"g0/folder 3/file {number}".encode() for number in range(20)} == rig.find_damaged()
        assert {"tree_damaged"} == {kind for kind, _ in _find_open(rig)}
