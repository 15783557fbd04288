"""A hub for shared trees, its workers as processes of their own, and one box alone to compare the result with."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import sqlalchemy as sa
import zstandard

from integrity.catalog import findings, roots
from integrity.catalog.connection import Catalog
from integrity.config import load_config
from integrity.files.scope import find_parents
from integrity.hub.boxes import add_box
from integrity.hub.database import HubDatabase
from integrity.hub.findings import find_findings
from integrity.hub.schema import finding
from integrity.hub.shards.schema import shard, shard_folder, shared_tree
from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.runner import scan, scrub
from support.jobs import open_context
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
            for one in roots.find_records(c, catalog.sealer, root.id):
                digests, witness = one.digests, one.witness
                numbers = (witness.size_bytes, witness.mtime_ns, digests.md5, digests.xxh3_128)
                recorded.files[one.path] = RecordedFile(*numbers, one.block_size_bytes, one.is_frozen)
            for found in findings.find_findings(c, root_id=root.id):
                certainty = None if found.certainty is None else found.certainty.value
                recorded.findings.add((found.path or b"", found.kind.value, found.state.value, certainty))
    return recorded


class OneBox:
    """
    One box that reads a tree alone.

    Args:
        folder: for its catalog.
        tree: the tree.
        policy: of the root.
    """

    def __init__(self, folder: Path, tree: Path, *, policy: str = "mutable") -> None:
        folder.mkdir()
        self._catalog = folder / "catalog.db"
        self._tree = str(tree).encode()
        (folder / "integrity.toml").write_text(f'[[root]]\npath = "{tree}"\npolicy = "{policy}"\n')
        self._config = folder / "integrity.toml"

    def read(self) -> Recorded:
        """Scan and scrub the tree."""
        with open_context(self._catalog, load_config(str(self._config))) as context:
            scan(context, [self._tree], ScanOptions())
            scrub(context, [self._tree], ScrubOptions(scan_first=False))
        return read_catalog(self._catalog)


class ShardRig:
    """
    ``with ShardRig(url, folder, tree) as rig: ...`` runs a hub; workers are started by the test.

    Args:
        url: of a PostgreSQL database with the tables of a hub.
        folder: for everything.
        tree: the shared tree.
        most_files: size of a shard.
        lease_s: a silent worker loses its shard after this time.
        visit_s: a worker stores what it did after this time.
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
        visit_s: int = 600,
        verify_every: str = "20s",
        policy: str = "mutable",
    ) -> None:
        self.url = url
        self.folder = folder
        self.tree = tree
        self._limits = {"shard_files": most_files, "shard_lease": f'"{lease_s}s"', "shard_visit": f'"{visit_s}s"'}
        self._verify_every = verify_every
        self._policy = policy
        self.hub: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self._configs = 0
        self._rounds: dict[tuple[int, int], int] = {}

    def __enter__(self) -> ShardRig:
        self.folder.mkdir()
        self.database = HubDatabase.open(self.url)
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.start_hub()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.workers, *([self.hub] if self.hub else [])):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(30)
        self.database.close()

    @property
    def log(self) -> str:
        """All that hub and workers printed."""
        return "\n".join(f"== {path.name}\n{path.read_text()}" for path in sorted(self.folder.glob("*.log")))

    def start_hub(self) -> None:
        """Start the hub, again after it was killed, and wait until it answers."""
        settings = "\n".join(f"{name} = {value}" for name, value in self._limits.items())
        config = self.folder / "hub.toml"
        config.write_text(
            f'catalog = "{self.folder}/catalog.db"\n[hub_server]\nlisten = "127.0.0.1:{self._port}"\n'
            f'database = "{self.url}"\nstore = "{self.folder}/store"\n{settings}\n'
        )
        self.hub = self._spawn("hub", config, "hub", "run")

        def answers() -> bool:
            assert self.hub is not None
            assert self.hub.poll() is None, self.log
            with closing(socket.socket()) as probe:
                return probe.connect_ex(("127.0.0.1", self._port)) == 0

        wait_until(answers, f"the hub to answer: {self.log}")

    def kill_hub(self) -> None:
        """Kill the hub."""
        assert self.hub is not None
        self.hub.kill()
        self.hub.wait(30)

    @property
    def hub_url(self) -> str:
        """URL of the hub."""
        return f"http://127.0.0.1:{self._port}"

    def make_config(self, url: str = "") -> Path:
        """Add a box and return its configuration. ``url``: of what is between it and the hub."""
        self._configs += 1
        folder = self.folder / f"box{self._configs}"
        folder.mkdir()
        with self.database.transaction() as c:
            token = add_box(c, folder.name, 1)
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)
        config = folder / "integrity.toml"
        config.write_text(
            f'catalog = "{folder}/catalog.db"\n[hub]\nurl = "{url or self.hub_url}"\n'
            f'token_file = "{folder}/token"\n[[root]]\npath = "{self.tree}"\nshared = "archive"\n'
            f'policy = "{self._policy}"\nverify_every = "{self._verify_every}"\n'
        )
        return config

    def start_worker(self, config: Path | None = None, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker on a box of its own, or on one that is there already; it goes on until it is ended."""
        config = config or self.make_config()
        worker = self._spawn(config.parent.name, config, "hub", "work", "--jobs", "1", "--keep-on", *options)
        self.workers.append(worker)
        return worker

    def run(self, config: Path, *command: object) -> subprocess.CompletedProcess[str]:
        """Run a command on a box."""
        return subprocess.run(
            [sys.executable, "-m", "integrity", "--config", str(config), *map(str, command)],
            env={**os.environ, "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def stop_workers(self) -> None:
        """End all workers in order: they store what they did."""
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        for worker in self.workers:
            worker.wait(60)

    def work_until_read(self, configs: Sequence[Path], since: int) -> None:
        """Let workers read every shard, in a round that begins at or after this time."""
        for config in configs:
            self.start_worker(config)
        wait_until(lambda: self.has_read_since(since), f"all shards to be read\n{self.log}", timeout_s=200, every_s=0.1)
        self.stop_workers()

    def find_damaged(self) -> set[bytes]:
        """Return the files about which the hub has an unresolved finding."""
        with self.database.read() as c:
            return {one.path for one in find_findings(c, finding.c.resolved_at.is_(None)) if one.path}

    def start_service(self, config: Path) -> subprocess.Popen[bytes]:
        """Start the service of a box, with an open window."""
        config.write_text(config.read_text() + '[schedule]\nscrub = "00:00-24:00"\n')
        service = self._spawn(config.parent.name, config, "daemon")
        self.workers.append(service)
        return service

    def _spawn(self, name: str, config: Path, *command: str) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "integrity", "--config", str(config), *command],
                env={**os.environ, "RUNTIME_DIRECTORY": str(config.parent)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def shards(self) -> list[sa.Row[tuple[object, ...]]]:
        """Return the rows of the shards."""
        with self.database.read() as c:
            return list(c.execute(sa.select(shard).order_by(shard.c.id)))

    @staticmethod
    def pause(seconds: float) -> None:
        """Let the workers go on for a while."""
        threading.Event().wait(seconds)

    def find_busy(self) -> set[int]:
        """Return the shards that workers have now."""
        with self.database.read() as c:
            query = sa.text("SELECT args FROM procrastinate_jobs WHERE status = 'doing' AND args ? 'shard'")
            return {int(row.args["shard"]) for row in c.execute(query)}

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
    configs = [rig.make_config() for _ in range(workers)]
    running = [rig.start_worker(config) for config in configs]
    for number in range(kills):
        threading.Event().wait(chance.uniform(0, most_wait_s))
        if number % 4 == 3:
            rig.kill_hub()
            rig.start_hub()
            continue
        which = chance.randrange(workers)
        running[which].kill()
        running[which].wait(30)
        running[which] = rig.start_worker(configs[which])
    return int(time.time())


def make_tree(top: Path, folders: int, files_each: int, *, size: int = 300) -> None:
    """Make a tree with files of different content in nested folders."""
    for number in range(folders):
        folder = top / f"g{number % 3}" / f"folder {number}"
        folder.mkdir(parents=True)
        for index in range(files_each):
            (folder / f"file {index}").write_bytes(f"{number}/{index} ".encode() * (size // 8))
    (top / "on top").write_bytes(b"on top")


def damage(path: Path, at: int = 0) -> None:
    """Change a byte of a file and put its mtime back."""
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"X")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
