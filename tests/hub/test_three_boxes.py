"""What the disk of one box damages, another box mends."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.hub.check import check_hub
from integrity.hub.database import HubDatabase
from support.bitrot import rot
from support.fleet import NAMES, PATIENCE_S, Fleet
from support.hubserver import HubServerProcess
from support.waiting import wait_until

MIB = 1 << 20
DAMAGED = "d0/0.txt"


@pytest.fixture
def fleet(hub: HubServerProcess, hub_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """Start three boxes, and wait until the hub knows that they hold the same files."""
    with Fleet(hub, hub_url, tmp_path / "boxes", files=4, size_bytes=3 * MIB) as made:
        made.wait_settled()
        yield made


@pytest.mark.long
@pytest.mark.root
@pytest.mark.timeout(600)
def test_damaged_replica_is_named_and_mended_by_the_printed_command(fleet: Fleet, hub_database: HubDatabase) -> None:
    """Right box, right file, right block, right command; running it on that box closes the vote."""
    box, root = fleet.boxes["garage"], fleet.roots["garage"]
    whole = (root / DAMAGED).read_bytes()
    for name in NAMES:
        fleet.boxes[name].run("scrub", fleet.roots[name], expect=0)
    assert [] == fleet.find_findings()

    rot(root / DAMAGED, 2 * MIB + 5)
    box.run("scrub", root, expect=1)
    wait_until(lambda: [] != fleet.find_findings(), "the vote", timeout_s=PATIENCE_S)

    (found,) = fleet.find_findings()
    said = found.kind, found.certainty, found.box_name, found.path, found.command_box_name
    assert ("replica_damaged", "proven", "garage", DAMAGED.encode(), "garage") == said
    assert found.resolved_at is None
    blocks = {one["box"]: [block for each in one["findings"] for block in each["blocks"]] for one in found.objects}
    assert {"berlin": [], "garage": [2], "parents": []} == blocks

    program, *words = shlex.split(found.command or "")
    assert "integrity" == program
    box.run(*words, "--apply", expect=0)
    assert whole == (root / DAMAGED).read_bytes()
    wait_until(lambda: fleet.find_findings()[0].resolved_at is not None, "the end of the vote", timeout_s=PATIENCE_S)
    fleet.wait_settled()
    assert [False] == [one.resolved_at is None for one in fleet.find_findings()]
    assert [] == check_hub(hub_database, 0).problems


@pytest.mark.long
@pytest.mark.root
@pytest.mark.timeout(600)
def test_folder_of_one_file_that_one_box_renamed_is_told_as_renamed(fleet: Fleet) -> None:
    """One finding, on the box that renamed; it ends when the folder has its name again."""
    box, root = fleet.boxes["garage"], fleet.roots["garage"]
    (root / "d0").rename(root / "holiday")
    box.run("scan", root, expect=0)
    wait_until(lambda: [] != fleet.find_findings(), "the vote", timeout_s=PATIENCE_S)

    (found,) = fleet.find_findings()
    assert ("replica_renamed", "garage", b"holiday/0.txt") == (found.kind, found.box_name, found.path)

    (root / "holiday").rename(root / "d0")
    box.run("scan", root, expect=0)
    wait_until(lambda: fleet.find_findings()[0].resolved_at is not None, "the end of the vote", timeout_s=PATIENCE_S)
