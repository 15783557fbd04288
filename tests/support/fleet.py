"""Three boxes with the same photos, each on a disk of its own, that report to one hub."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.database import HubDatabase
from integrity.hub.findings import HubFinding, find_findings
from support.cli import Box
from support.hubserver import HubServerProcess
from support.loopfs import LoopFS
from support.planted import plant
from support.service import Service
from support.waiting import wait_until

NAMES = ("berlin", "garage", "parents")
PATIENCE_S = 120.0
_NEVER = "0 0 29 feb *"
_T = TypeVar("_T")


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
        return int(self.ask(lambda c: c.execute(count).scalar_one()))

    def ask(self, question: Callable[[sa.Connection], _T]) -> _T:
        """Ask the hub's database."""
        database = HubDatabase.open(self._url)
        try:
            with database.read() as c:
                return question(c)
        finally:
            database.close()

    def find_findings(self) -> list[HubFinding]:
        """Return the findings of the hub, the oldest first."""
        return self.ask(lambda c: sorted(find_findings(c), key=lambda one: one.id))
