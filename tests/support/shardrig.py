"""A hub for shared trees, its workers as processes of their own, and one box alone to compare the result with."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa
import zstandard

from integrity.catalog import findings, roots
from integrity.catalog.connection import Catalog
from integrity.config import parse_config
from integrity.files.excludes import find_parents
from integrity.hub.boxes import add_box
from integrity.hub.database import HubDatabase
from integrity.hub.findings import find_findings
from integrity.hub.schema import finding, shard, shard_folder, shared_tree
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.runner import scan, scrub
from support import AnyPath
from support.catalogs import find_records
from support.cli import Box, Completed, make_command
from support.hubserver import ANYWHERE, HubServerProcess
from support.jobs import open_context
from support.running import Background
from support.waiting import wait_until


class RecordedFile(NamedTuple):
    """What a catalog says of a file, as far as it must be the same whoever read it."""

    size_bytes: int
    mtime_ns: int
    md5: bytes | None
    xxh3_128: bytes | None
    block_size_bytes: int | None
    is_frozen: bool


class Recorded(NamedTuple):
    """Files by path, and findings: path, kind, state and certainty."""

    files: dict[bytes, RecordedFile]
    findings: set[tuple[bytes, str, str, str | None]]


def read_catalog(path: Path) -> Recorded:
    """Read what a catalog says of its files."""
    with Catalog.open(str(path), writes=False) as catalog, catalog.read() as c:
        recorded = Recorded({}, set())
        for root in roots.find_roots(c):
            for one in find_records(c, root.id):
                digests, witness = one.digests, one.witness
                numbers = (witness.size_bytes, witness.mtime_ns, digests.md5, digests.xxh3_128)
                recorded.files[one.path] = RecordedFile(*numbers, one.block_size_bytes, one.is_frozen)
            for found in findings.find_findings(c, root_id=root.id):
                certainty = None if found.certainty is None else found.certainty.value
                recorded.findings.add((found.path or b"", found.kind.value, found.state.value, certainty))
    return recorded


def read_alone(folder: Path, tree: Path) -> Recorded:
    """Scan and scrub a tree as one box, which goes on with what it has in ``folder``."""
    folder.mkdir(exist_ok=True)
    config = parse_config(f'[[root]]\npath = "{tree}"\npolicy = "mutable"\n'.encode(), "test")
    with open_context(folder / "catalog.db", config) as context:
        scan(context, [bytes(tree)], ScanOptions())
        scrub(context, [bytes(tree)], ScrubOptions(scan_first=False))
    return read_catalog(folder / "catalog.db")


class ShardRig:
    """
    ``with ShardRig(url, folder, tree) as rig: ...`` runs a hub; workers are started by the test.

    Args:
        url: of a PostgreSQL database with the tables of a hub.
        folder: for everything.
        tree: the shared tree.
        most_files: size of a shard.
        lease_s: a silent worker loses its shard after this time.
        verify_every: the promise, as in the configuration.
        policy: of the root.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        tree: Path,
        *,
        most_files: int = 50,
        lease_s: int = 4,
        verify_every: str = "20s",
        policy: str = "mutable",
    ) -> None:
        self.folder = folder
        self.tree = tree
        limits = f'shard_files = {most_files}\nshard_lease = "{lease_s}s"\nshard_visit = "600s"\n'
        self.hub = HubServerProcess(Box(folder / "hub"), url, f'store = "{folder}/store"\n{limits}')
        self.workers: list[Background] = []
        promise = f'policy = "{policy}"\nverify_every = "{verify_every}"'
        self._root = f'[[root]]\npath = "{tree}"\nshared = "archive"\n{promise}'
        self._boxes = 0
        self._rounds: dict[tuple[int, int], int] = {}

    def __enter__(self) -> ShardRig:
        self.database = HubDatabase.open(self.hub.database)
        self.hub.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, self.hub):
            process.stop(signal.SIGKILL)
        self.database.close()

    @property
    def log(self) -> str:
        """All that hub and workers printed."""
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*/*.log")))

    def make_box(self, url: str = "") -> Box:
        """Add a box. ``url``: of what is between it and the hub."""
        self._boxes += 1
        name = f"box{self._boxes}"
        with self.database.transaction() as c:
            token = add_box(c, name, 1, ANYWHERE)
        box = Box(self.folder / name)
        self.hub.join(box, token, self._root, url=url)
        return box

    def start_worker(self, box: Box | None = None, *options: str) -> Background:
        """Start a worker on a box of its own, or on one that is there already; it goes on until it is ended."""
        return self._start(box or self.make_box(), "hub", "work", "--jobs", "1", "--keep-on", *options)

    def start_service(self, box: Box) -> Background:
        """Start the service of a box, with an open window."""
        config = box.home / "integrity.toml"
        config.write_text(config.read_text() + '[schedule]\nscrub = "00:00-24:00"\n')
        return self._start(box, "daemon")

    def _start(self, box: Box, *command: str) -> Background:
        environment = box.environment | {"RUNTIME_DIRECTORY": str(box.home / "run")}
        self.workers.append(Background(make_command(*command), environment, box.home / f"{box.home.name}.log"))
        return self.workers[-1].__enter__()

    @staticmethod
    def run(box: Box, *command: AnyPath) -> Completed:
        """Run a command on a box, on a wide terminal."""
        return box.run(*command, env={"COLUMNS": "200"})

    def stop_workers(self) -> None:
        """End all workers in order: they store what they did."""
        for worker in self.workers:
            worker.stop()

    def wait_read(self, since: int, *, timeout_s: float = 200.0) -> None:
        """Wait until every shard was read, in a round that begins at or after this time."""
        what = f"all shards to be read\n{self.log}"
        wait_until(lambda: self.has_read_since(since), what, timeout_s=timeout_s, every_s=0.1)

    def work_until_read(self, boxes: Sequence[Box], since: int) -> None:
        """Let workers read every shard, in a round that begins at or after this time."""
        for box in boxes:
            self.start_worker(box)
        self.wait_read(since)
        self.stop_workers()

    def find_damaged(self) -> set[bytes]:
        """Return the files about which the hub has an unresolved finding."""
        with self.database.read() as c:
            return {one.path for one in find_findings(c, finding.c.resolved_at.is_(None)) if one.path}

    def shards(self) -> list[sa.Row[tuple[object, ...]]]:
        """Return the rows of the shards."""
        with self.database.read() as c:
            return list(c.execute(sa.select(shard).order_by(shard.c.id)))

    def find_busy(self) -> set[int]:
        """Return the shards that workers have now."""
        with self.database.read() as c:
            held = sa.select(shard.c.id).join(shared_tree).where(shard.c.worker_id.is_not(None))
            return set(c.execute(held.where(shared_tree.c.surveyed_at.is_not(None))).scalars())

    def find_shard(self, folder: bytes) -> int:
        """Return the shard of a folder."""
        with self.database.read() as c:
            rows = c.execute(sa.select(shard_folder.c.path, shard_folder.c.shard_id)).all()
        above = {folder, *find_parents(folder)}
        return int(max((len(path), owner) for path, owner in rows if path in above)[1])

    def is_surveyed(self) -> bool:
        """Return whether the tree was cut."""
        with self.database.read() as c:
            return c.execute(sa.select(shared_tree.c.surveyed_at)).scalar() is not None

    def has_read_since(self, at: int) -> bool:
        """
        Return whether every shard was read completely, in a round that began at or after this time.

        A round ends when a later one begins: workers that are slow always have some shard in their hands.
        """
        rows = self.shards() if self.is_surveyed() else []
        for row in rows:
            if row.round_at is not None and row.round_at >= at:
                self._rounds.setdefault((at, row.id), row.round_at)
        began = [self._rounds.get((at, row.id)) for row in rows]
        ended = (
            one is not None and (row.is_complete or row.round_at > one) for one, row in zip(began, rows, strict=True)
        )
        return bool(rows) and all(ended)

    def read_shards(self) -> Recorded:
        """Return what the stored catalogs of all shards say together; no file may be in two of them."""
        whole = Recorded({}, set())
        for row in self.shards():
            path = self.folder / f"shard{row.id}.db"
            with open(self.folder / "store" / row.digest, "rb") as source, open(path, "wb") as target:
                zstandard.ZstdDecompressor().copy_stream(source, target)
            part = read_catalog(path)
            assert not whole.files.keys() & part.files.keys()
            whole.files.update(part.files)
            whole.findings.update(part.findings)
            path.unlink()
        return whole


def kill_at_random(rig: ShardRig, chance: random.Random, *, workers: int, kills: int, most_wait_s: float) -> int:
    """
    Kill workers and the hub at random moments while they work; a worker that was killed is replaced.

    Returns:
        When the last one was killed, seconds UTC.
    """
    boxes = [rig.make_box() for _ in range(workers)]
    running = [rig.start_worker(box) for box in boxes]
    for number in range(kills):
        threading.Event().wait(chance.uniform(0, most_wait_s))
        if number % 4 == 3:
            rig.hub.stop(signal.SIGKILL)
            rig.hub.start()
            continue
        which = chance.randrange(workers)
        running[which].stop(signal.SIGKILL)
        running[which] = rig.start_worker(boxes[which])
    return int(time.time())


def make_tree(top: Path, folders: int, files_each: int, *, size: int = 300) -> None:
    """Make a tree with files of different content in nested folders."""
    for number in range(folders):
        folder = top / f"g{number % 3}" / f"folder {number}"
        folder.mkdir(parents=True)
        for index in range(files_each):
            (folder / f"file {index}").write_bytes(f"{number}/{index} ".encode() * (size // 8))
    (top / "on top").write_bytes(b"on top")
