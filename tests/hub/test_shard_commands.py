"""Commands on files of a shared tree: they work on the catalog of the shard that has the files."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from integrity.hub.schema import audit
from support.shapes import damage
from support.shardrig import ShardRig, make_tree
from support.waiting import wait_until

MIB = 1 << 20


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a tree of 122 files in nested folders, one of them of three blocks."""
    top = tmp_path / "tree"
    make_tree(top, 6, 20)
    (top / "g1" / "folder 1" / "large").write_bytes(bytes(3 * MIB))
    return top


@pytest.fixture
def rig(shards_url: str, tmp_path: Path, tree: Path) -> Iterator[ShardRig]:
    """Run a hub for the tree, as an archive."""
    with ShardRig(shards_url, tmp_path / "rig", tree, policy="archive") as made:
        yield made


def _find_versions(rig: ShardRig) -> dict[object, object]:
    return {row.id: row.version for row in rig.shards()}


def test_rot_is_explained_and_repaired_from_a_copy(rig: ShardRig, tmp_path: Path, tree: Path) -> None:
    """A worker finds it, ``explain`` shows the block, ``repair`` mends it, and the finding of the hub ends at once."""
    place = Path("g1") / "folder 1" / "large"
    box, replica = rig.make_box(), tmp_path / "replica"
    shutil.copytree(tree, replica)
    rig.work_until_read([box], 0)
    damage(tree / place, MIB)
    rig.work_until_read([box], int(time.time()) + 1)
    assert {bytes(place)} == rig.find_damaged()

    explained = rig.run(box, "explain", tree / place)
    assert 1 == explained.code, explained.stderr
    assert "bytes 1,048,576 to 2,097,151" in explained.stdout
    versions = _find_versions(rig)
    planned = rig.run(box, "repair", tree / place, "--from", replica)
    assert "can be repaired" in planned.stdout, planned
    assert versions == _find_versions(rig)
    repaired = rig.run(box, "repair", tree / place, "--from", replica, "--apply")
    assert 0 == repaired.code, repaired

    assert (replica / place).read_bytes() == (tree / place).read_bytes()
    assert set() == rig.find_damaged()
    assert 0 == rig.run(box, "explain", tree / place).code
    assert sum(map(int, map(str, versions.values()))) + 1 == sum(map(int, map(str, _find_versions(rig).values())))


def test_change_in_an_archive_is_accepted(rig: ShardRig, tree: Path) -> None:
    """The content becomes the baseline in the catalog of the shard; workers find nothing about it any more."""
    box, changed = rig.make_box(), tree / "g2" / "folder 2" / "file 2"
    rig.work_until_read([box], 0)
    changed.write_bytes(b"edited on purpose")
    rig.work_until_read([box], int(time.time()) + 1)
    assert {b"g2/folder 2/file 2"} == rig.find_damaged()

    done = rig.run(box, "accept", changed, "--reason", "I edited it")
    assert "accepted: what it holds now is right; 1 finding resolved" in done.stdout, done
    assert set() == rig.find_damaged()
    rig.work_until_read([box], int(time.time()) + 1)
    assert set() == rig.find_damaged()


def test_command_waits_for_a_worker_that_has_the_shard(rig: ShardRig, tree: Path) -> None:
    """A worker that reads slowly ends its visit for a command, and goes on later: every file is recorded in the end."""
    box, slow = rig.make_box(), rig.make_box()
    rig.work_until_read([box], 0)
    (tree / "g1" / "folder 1" / "new").write_bytes(bytes(8 * MIB))
    rig.start_worker(slow, "--rate", "500K")
    shard = rig.find_shard(b"g1/folder 1")
    wait_until(lambda: shard in rig.find_busy(), f"the worker to have the shard\n{rig.log}", every_s=0.1)
    done = rig.run(box, "accept", tree / "g1" / "folder 1" / "large", "--reason", "as it is")

    assert 0 == done.code, done
    assert "works on this part of the shared tree now; waiting" in done.stdout
    assert "accepted" in done.stdout


def test_work_says_what_was_done_and_when_the_next_part_is_due(rig: ShardRig) -> None:
    """Also a machine that found nothing to do; it ends with success, and with words."""
    busy, idle = rig.make_box(), rig.make_box()
    first, second = rig.run(busy, "hub", "work"), rig.run(idle, "--json", "hub", "work")
    parts = len(rig.shards())

    assert (0, 0) == (first.code, second.code), (first, second)
    assert f"archive: worked on {parts + 1} parts. Nothing is due now: the next one is due 20" in first.stdout
    assert "Then the service reads it, or `integrity hub work --keep-on`." in first.stdout
    (said,) = second.of_type("hub_work")
    assert ("archive", True, parts, 0) == tuple(said[key] for key in ("tree", "is_surveyed", "parts", "taken"))
    assert str(said["next_due_at"]).endswith("Z")
    listed = rig.hub.command("hub", "list")
    assert ["reads shared trees", "reads shared trees"] == [
        line.partition(": ")[2].partition(",")[0] for line in listed.splitlines()
    ]


def test_trees_are_listed_renamed_and_forgotten(rig: ShardRig) -> None:
    """Each step asks first, and is in the audit log; an unknown name is refused."""
    box = rig.make_box()
    assert "There is no shared tree yet" in rig.hub.command("hub", "tree", "list")
    rig.run(box, "hub", "work")

    assert "archive: " in (listed := rig.hub.command("hub", "tree", "list"))
    assert "Allowed to read it: box1." in listed
    rig.hub.command("hub", "tree", "rebind", "archive", expect=2)
    rig.hub.command("hub", "tree", "rebind", "archive", "films", expect=2)  # nobody to ask
    rig.hub.command("hub", "tree", "rebind", "nothing", "films", "--yes", expect=2)
    rig.hub.command("hub", "tree", "rebind", "archive", "films", "--moved", "--yes")
    (shown,) = [json.loads(line) for line in rig.hub.command("--json", "hub", "tree", "list").splitlines()]
    assert ("hub_tree", "films", ["box1"]) == (shown["type"], shown["name"], shown["allowed"])
    rig.hub.command("hub", "tree", "forget", "films", expect=2)
    gone = json.loads(rig.hub.command("--json", "hub", "tree", "forget", "films", "--yes"))
    assert ("hub_tree_forgotten", "films") == (gone["type"], gone["name"])
    assert "There is no shared tree yet" in rig.hub.command("hub", "tree", "list")
    with rig.database.read() as c:
        verbs = c.execute(sa.select(audit.c.verb).where(audit.c.verb.like("%_tree")).order_by(audit.c.id)).scalars()
        assert ["rebind_tree", "forget_tree"] == list(verbs)


def test_hub_that_is_away_is_said(rig: ShardRig, tree: Path) -> None:
    """The command says which tree it is about, and that nothing was done."""
    box = rig.make_box()
    rig.work_until_read([box], 0)
    rig.hub.stop(signal.SIGKILL)
    done = rig.run(box, "repair", tree / "on top", "--apply")

    assert 3 == done.code, done
    assert f"{tree} is the shared tree archive, whose records the hub has" in done.stderr
    assert "the hub does not answer (127.0.0.1: Connection refused): nothing was done" in done.stderr


def test_folder_of_several_shards_is_refused_with_a_folder_of_one(rig: ShardRig, tree: Path) -> None:
    """Which catalog is meant would be unclear."""
    box = rig.make_box()
    rig.work_until_read([box], 0)
    done = rig.run(box, "repair", tree)

    assert 2 == done.code, done
    assert "has several parts of the shared tree: name a folder in it" in done.stderr


def test_audit_log_says_who_cut_and_stored(rig: ShardRig) -> None:
    """One entry for each stored version, with the box."""
    box = rig.make_box()
    rig.work_until_read([box], 0)
    with rig.database.read() as c:
        entries = c.execute(sa.select(audit.c.who, audit.c.verb, audit.c.subject, audit.c.outcome)).all()

    cut = [one for one in entries if one.verb == "tree_cut"]
    stored = [one for one in entries if one.verb == "shard_stored"]
    assert [("box:box1", "tree_cut", "archive", f"{len(rig.shards())} shards")] == [tuple(one) for one in cut]
    assert sum(int(str(row.version)) for row in rig.shards()) == len(stored)
    assert {"box:box1"} == {one.who for one in stored}


def test_folder_is_compared_with_a_copy(rig: ShardRig, tmp_path: Path, tree: Path) -> None:
    """A damaged copy is found with the records of the shard, and is a finding of it from then on."""
    box, folder, replica = rig.make_box(), tree / "g1" / "folder 1", tmp_path / "replica"
    shutil.copytree(folder, replica)
    rig.work_until_read([box], 0)
    damage(replica / "file 3")
    done = rig.run(box, "compare", folder, "--with", replica)

    assert 1 == done.code, done
    assert "file 3" in done.stdout
    assert {b"g1/folder 1/file 3"} == rig.find_damaged()
