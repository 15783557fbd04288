"""Three boxes with the same photos, each on a disk of its own, and a hub: what one disk damages, another mends."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.check import check_hub
from integrity.hub.database import HubDatabase
from support.bitrot import rot
from support.cli import Box
from support.hubserver import HubServerProcess
from support.loopfs import LoopFS
from support.planted import plant
from support.service import Service
from support.waiting import wait_until

MIB = 1 << 20
NAMES = ("berlin", "garage", "parents")
PATIENCE_S = 120.0
DAMAGED = "d0/0.txt"
_NEVER = "0 0 29 feb *"


class HubSays(NamedTuple):
    """A finding of the hub: what it is about, and what is to be done where."""

    kind: str
    certainty: str
    box: str | None
    path: bytes
    is_open: bool
    command: str
    command_box: str | None


class Fleet:
    """
    Three boxes that report to a hub.

    Args:
        hub: running.
        database: its database, to look into.
        folder: for the homes of the boxes.
    """

    def __init__(self, hub: HubServerProcess, database: HubDatabase, folder: Path) -> None:
        self._hub, self._database = hub, database
        self.boxes = {name: Box(folder / name) for name in NAMES}
        self.roots: dict[str, Path] = {}

    def start(self, ending: ExitStack) -> None:
        """Make a disk with the same files for each box, and start its service."""
        for name, box in self.boxes.items():
            disk = ending.enter_context(LoopFS("ext4"))
            root = self.roots[name] = plant(Path(os.fsdecode(disk.mnt)) / f"photos of {name}", 4, size_bytes=3 * MIB)
            os.sync()
            box.configure("")
            token = box.home / "hub-token"
            token.write_text(self._hub.add(name).token)
            token.chmod(0o600)
            box.configure(
                f'[[root]]\npath = "{root}"\nreplica_set = "photos"\nreplica_url = "{root}"\nsettle = "1s"\n'
                f'[schedule]\nscrub = "{_NEVER}"\n'
                f'[hub]\nurl = "{self._hub.url}"\ntoken_file = "{token}"\nreport_every = "2s"\n'
            )
            ending.enter_context(Service(box)).wait_begun()

    def count_settled(self) -> int:
        """Count the members whose trees are complete on the hub."""
        member = schema.member.c
        query = sa.select(sa.func.count()).where(member.settled_tree == member.announced_tree)
        with self._database.read() as c:
            return int(c.execute(query).scalar_one())

    def find_findings(self) -> list[HubSays]:
        """Return the findings of the hub."""
        with self._database.read() as c:
            names = {row.id: row.name for row in c.execute(sa.select(schema.box.c.id, schema.box.c.name))}
            return [
                HubSays(
                    row.kind,
                    row.certainty,
                    names.get(row.box_id),
                    bytes(row.path),
                    row.resolved_at is None,
                    row.command or "",
                    names.get(row.command_box_id),
                )
                for row in c.execute(sa.select(schema.finding).order_by(schema.finding.c.id))
            ]

    def get_blocks(self) -> dict[str, list[int]]:
        """Return the damaged blocks of each member, by the name of the box, of the only finding of the hub."""
        with self._database.read() as c:
            members = json.loads(c.execute(sa.select(schema.finding.c.evidence)).scalar_one())
        return {one["box"]: [block for found in one["findings"] for block in found["blocks"]] for one in members}


@pytest.fixture
def fleet(hub: HubServerProcess, hub_database: HubDatabase, tmp_path: Path) -> Iterator[Fleet]:
    """Start three boxes, and wait until the hub knows that they hold the same files."""
    made = Fleet(hub, hub_database, tmp_path / "boxes")
    with ExitStack() as ending:
        made.start(ending)
        wait_until(lambda: made.count_settled() == len(NAMES), "three complete trees", timeout_s=PATIENCE_S)
        yield made


@pytest.mark.root
@pytest.mark.timeout(600)
def test_damaged_replica_is_named_and_mended_by_the_printed_command(fleet: Fleet, hub_database: HubDatabase) -> None:
    """Right box, right file, right block, right command; running it on that box closes the vote."""
    box, root = fleet.boxes["garage"], fleet.roots["garage"]
    whole = (root / DAMAGED).read_bytes()
    for name, other in fleet.boxes.items():
        other.run("scrub", fleet.roots[name], expect=0)
    assert [] == fleet.find_findings()

    rot(root / DAMAGED, 2 * MIB + 5)
    box.run("scrub", root, expect=1)
    wait_until(lambda: [] != fleet.find_findings(), "the vote", timeout_s=PATIENCE_S)

    (found,) = fleet.find_findings()
    assert ("replica_damaged", "proven", "garage", DAMAGED.encode(), True) == found[:5]
    assert "garage" == found.command_box
    assert {"berlin": [], "garage": [2], "parents": []} == fleet.get_blocks()

    program, *words = shlex.split(found.command)
    assert "integrity" == program
    box.run(*words, "--apply", expect=0)
    assert whole == (root / DAMAGED).read_bytes()
    wait_until(lambda: not fleet.find_findings()[0].is_open, "the end of the vote", timeout_s=PATIENCE_S)
    wait_until(lambda: fleet.count_settled() == len(NAMES), "three complete trees", timeout_s=PATIENCE_S)
    assert [False] == [one.is_open for one in fleet.find_findings()]
    assert [] == check_hub(hub_database, 0).problems
