"""Three boxes with the same photos, each on a disk of its own, that report to one hub."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.database import HubDatabase
from support.cli import Box
from support.hubserver import HubServerProcess
from support.loopfs import LoopFS
from support.planted import plant
from support.service import Service
from support.waiting import wait_until

NAMES = ("berlin", "garage", "parents")
PATIENCE_S = 120.0
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
    ``with Fleet(hub, url, folder, files=4, size_bytes=300) as fleet: ...`` starts the boxes; none outlives the block.

    Args:
        hub: running.
        url: of its database, to look into.
        folder: for the homes of the boxes.
        files: number of files on each.
        size_bytes: of a file.
    """

    def __init__(self, hub: HubServerProcess, url: str, folder: Path, *, files: int, size_bytes: int) -> None:
        self._hub, self._url, self._files, self._size_bytes = hub, url, files, size_bytes
        self.boxes = {name: Box(folder / name) for name in NAMES}
        self.roots: dict[str, Path] = {}
        self._disks = ExitStack()
        self._services: dict[str, Service] = {}

    def __enter__(self) -> Fleet:
        try:
            for name in NAMES:
                self._make(name)
            for name in NAMES:
                self.start(name).wait_begun()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for service in self._services.values():
            service.__exit__(kind, error, trace)
        self._disks.close()

    def _make(self, name: str) -> None:
        disk = self._disks.enter_context(LoopFS("ext4"))
        root = Path(os.fsdecode(disk.mnt)) / f"photos of {name}"
        self.roots[name] = plant(root, self._files, size_bytes=self._size_bytes)
        os.sync()
        roots = f'[[root]]\npath = "{root}"\nreplica_set = "photos"\nreplica_url = "{root}"\nsettle = "1s"\n'
        token = self._hub.add(name).token
        self._hub.join(self.boxes[name], token, f'{roots}[schedule]\nscrub = "{_NEVER}"', more='report_every = "2s"\n')

    def start(self, name: str) -> Service:
        """Start the service of a box."""
        self._services[name] = Service(self.boxes[name]).__enter__()
        return self._services[name]

    def kill(self, name: str) -> None:
        """Kill the service of a box, and start it again."""
        service = self._services.pop(name)
        service.kill()
        service.__exit__(None, None, None)
        self.start(name)

    def wait_settled(self) -> None:
        """Wait until the hub has the files of all boxes as they announced them last."""
        wait_until(lambda: self.count_settled() == len(NAMES), "complete trees", timeout_s=PATIENCE_S, every_s=0.2)

    def count_settled(self) -> int:
        """Count the members whose trees are complete on the hub."""
        member = schema.member.c
        count = sa.select(sa.func.count()).where(member.settled_tree == member.announced_tree)
        return int(self.ask(count)[0][0])

    def ask(self, query: sa.Select[Any]) -> list[Any]:
        """Ask the hub's database."""
        database = HubDatabase.open(self._url)
        try:
            with database.read() as c:
                return list(c.execute(query))
        finally:
            database.close()

    def find_findings(self) -> list[HubSays]:
        """Return the findings of the hub, the oldest first."""
        about, does = schema.box.alias("about"), schema.box.alias("does")
        found = schema.finding.c
        query = (
            sa.select(
                found.kind, found.certainty, about.c.name, found.path, found.resolved_at, found.command, does.c.name
            )
            .select_from(schema.finding)
            .outerjoin(about, about.c.id == found.box_id)
            .outerjoin(does, does.c.id == found.command_box_id)
            .order_by(found.id)
        )
        return [
            HubSays(kind, certainty, box, bytes(path), resolved_at is None, command or "", place)
            for kind, certainty, box, path, resolved_at, command, place in self.ask(query)
        ]

    def get_blocks(self) -> dict[str, list[int]]:
        """Return the damaged blocks of each member, by the name of the box, of the only finding of the hub."""
        ((text,),) = self.ask(sa.select(schema.finding.c.evidence))
        members = json.loads(str(text))
        return {one["box"]: [block for found in one["findings"] for block in found["blocks"]] for one in members}
