"""
What thousands of boxes cost one hub: its processor time and memory, and how long its pages take meanwhile.

    python tests/benchmarks/bench_boxes.py [--boxes 10000] [--minutes 5]

Each box reports every five minutes over a connection that it keeps, as far as the hub lets it; one report in fifty has
news: a finding, and a changed file, so its replica set of three is voted on. Pages are asked for beside that, a hundred
a minute. The hub runs on a PostgreSQL of its own. Reports come at the pace of the clock: what the hub does by itself
every minute is in the figures. The processor time is that of the hub; PostgreSQL's is printed beside it.
"""

from __future__ import annotations

import argparse
import http.client
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import measure  # noqa: F401 - makes tests/support importable
import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.boxes import hash_token
from integrity.hub.database import HubDatabase, load_files
from integrity.hub.members import ANY
from integrity.reporting.digest_tree import digest_files, digest_subtree
from integrity.reporting.protocol import FIRST_CHAIN, encode
from integrity.web.passwords import PasswordStore
from support.cli import Box
from support.hub_reports import Stream, Tree, make_file, make_finding, make_heartbeat, make_root
from support.hubserver import HubCaller, HubServerProcess, make_tables
from support.postgres import PostgresServer
from support.webpage import PASSWORD, WebClient

EVERY_S = 300
PAGES_PER_S = 100 / 60
NEWS_EVERY = 50
THREADS = 16
PAGES = ("/", "/boxes", "/sets", "/findings", "/boxes/box5", "/sets/set5", "/audit", "/metrics", "/healthz")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class SimulatedBox:
    """A box with one root in a set of three, and one for itself."""

    number: int
    port: int
    changes: int = 0
    stream: Stream = field(default_factory=Stream)
    caller: HubCaller | None = None
    run: bytes = field(default_factory=lambda: os.urandom(16))

    @property
    def token(self) -> str:
        """Return its token."""
        return f"integrity-box-{self.number:030d}"

    @property
    def tree(self) -> Tree:
        """Return its files: ten, of which one changes with the news."""
        files = [make_file(b"%d.jpg" % number, b"x" * number) for number in range(9)]
        changed = make_file(b"news", b"%d %d" % (self.number, self.changes) if self.changes else b"x")
        return Tree({b"photos": [*files, changed]})

    def report(self, *, has_news: bool) -> None:
        """Report as a box does."""
        if self.caller is None:
            self.caller = HubCaller(self.port, self.token)
            self.stream.begin()
        if has_news:
            self.changes += 1
            self.stream.begin(make_finding(self.changes, "photos/news"))
        tree = self.tree
        roots = make_root(1, f"set{self.number // 3}", tree.top), make_root(2, None)
        now = {"sent_at": int(time.time()), "run": self.run.hex(), "machine": self.run.hex()}
        answer = self._call("heartbeat", make_heartbeat(self.stream.id, *roots, hostname=f"box{self.number}", **now))
        if self.stream.messages and answer["last"] != len(self.stream.messages):
            assert self._post("messages", self.stream.body(first=(answer["last"] or 0) + 1)) == 200
        if answer["trees"]:
            lines = b"".join(encode(line) + b"\n" for line in ({"protocol": 1}, *tree.parts()))
            assert self._post("trees/1/folders", lines) == 200
            self._call("trees/1/settle", {"protocol": 1, "tree": tree.top.hex()})

    def _post(self, path: str, body: bytes) -> int:
        assert self.caller is not None
        try:
            return self.caller.post(path, body).status
        except (http.client.HTTPException, ConnectionError):  # the hub ended a connection that was idle
            self.caller.close()
            return self.caller.post(path, body).status

    def _call(self, path: str, value: object) -> dict[str, object]:
        assert self.caller is not None
        try:
            answer = self.caller.post(path, encode(value))
        except (http.client.HTTPException, ConnectionError):
            self.caller.close()
            answer = self.caller.post(path, encode(value))
        assert answer.status == 200, answer
        found: dict[str, object] = answer.object
        return found


def main() -> None:
    """Simulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=10_000)
    parser.add_argument("--minutes", type=float, default=5)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with PostgresServer() as server, tempfile.TemporaryDirectory() as home:
        url = make_tables(server.create_database())
        fill(url, options.boxes)
        PasswordStore(os.fsencode(Path(home) / "hub" / "state")).set_password(PASSWORD)
        with HubServerProcess(Box(Path(home) / "hub"), url) as hub:
            boxes = [SimulatedBox(number, hub.port) for number in range(options.boxes)]
            print(f"memory of a hub that {len(boxes):,} boxes know: {read_memory_mib(hub.pid):.0f} MiB", flush=True)
            owner = WebClient(hub.port)
            owner.log_in()
            measure_pages(hub.pid, owner)
            run(hub.pid, server.pid, boxes, owner, options.minutes * 60)
            measure_pages(hub.pid, owner)


def fill(url: str, count: int) -> None:
    """Add the boxes, as they are once each has reported everything."""
    database = HubDatabase.open(url)
    now, tree = int(time.time()), SimulatedBox(0, 0).tree
    tokens = [hash_token(SimulatedBox(number, 0).token) for number in range(count)]
    known = {"created_at": now, "seen_at": now, "clock_ahead_s": 0, "version": "1.0", "sentence": "All is well."}
    stream = {"state": "ok", "last_number": 0, "last_chain": FIRST_CHAIN}
    with database.transaction() as c:
        rows = [
            {"id": at + 1, "name": f"box{at}", "hostname": f"box{at}", "token_hash": one, **known, **stream}
            for at, one in enumerate(tokens)
        ]
        c.execute(sa.insert(schema.box), rows)
        c.execute(sa.insert(schema.box_grant), [{"box_id": row["id"], "kind": "set", "name": ANY} for row in rows])
        c.execute(sa.insert(schema.box_usage), [{"box_id": row["id"], "stored_bytes": 1 << 20} for row in rows])
        sets = [{"id": at + 1, "name": f"set{at}", "created_at": now, "voted_at": now} for at in range(-(-count // 3))]
        c.execute(sa.insert(schema.replica_set), sets)
        of_root = {"url": "", "excludes": "[]", "policy": "mutable", "verify_every_s": 30 * 86400, "file_count": 10}
        of_tree = {"byte_count": 300, "oldest_verified_at": now, "announced_tree": tree.top, "settled_tree": tree.top}
        numbers = [(box * 2 + root, box, root) for box in range(count) for root in (0, 1)]
        members = [
            {"id": number + 1, "box_id": box + 1, "root_id": root + 1, "path": b"/srv/root%d" % root}
            | {"set_id": None if root else box // 3 + 1, "settled_at": now, **of_root, **of_tree}
            for number, box, root in numbers
        ]
        c.execute(sa.insert(schema.member), members)
        fill_trees(c, tree, [(row["id"], row["set_id"]) for row in members if row["set_id"]])
        for table in ("box", "replica_set", "member", "folder"):
            c.exec_driver_sql(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}")
        c.exec_driver_sql("ANALYZE")
    database.close()


def fill_trees(c: sa.Connection, tree: Tree, members: list[tuple[int, int]]) -> None:
    """Store the files of members, which are given with their sets: all have the same."""
    top, photos = (digest_files(tree.files[path]) for path in (b"", b"photos"))
    below = {"own": photos.own, "content": photos.content, "subtree": tree.subtree(b"photos")}
    below["subtree_content"] = digest_subtree(photos.content, [])
    above = {"own": top.own, "content": top.content, "subtree": tree.top}
    above["subtree_content"] = digest_subtree(top.content, [(b"photos", below["subtree_content"])])
    sets = sorted({set_id for _, set_id in members})
    for at, path in enumerate((b"", b"photos")):
        c.execute(sa.insert(schema.folder), [{"id": 2 * one + at, "set_id": one, "path": path} for one in sets])
    rows = [
        {"member_id": number, "folder_id": 2 * one + at, "parent_id": 2 * one if at else None, **digests}
        for number, one in members
        for at, digests in enumerate((above, below))
    ]
    c.execute(sa.insert(schema.member_folder), rows)
    load_files(
        c,
        schema.file,
        ((number, 2 * one + 1, *each) for number, one in members for each in tree.files[b"photos"]),
    )


def run(hub: int, postgres: int, boxes: list[SimulatedBox], owner: WebClient, lasts_s: float) -> None:
    """Let all boxes report, and pages be asked for, at the pace of the clock."""
    for what, seconds in (("each box for the first time", 0.0), ("the boxes are known", lasts_s)):
        cpu, of_postgres, began = read_cpu_s(hub), read_cpu_s(postgres, children=True), time.monotonic()
        took: list[float] = []
        ended = threading.Event()
        pages = threading.Thread(target=ask_for_pages, args=(owner, ended, took))
        pages.start()
        count = send(boxes, seconds)
        ended.set()
        pages.join()
        passed = time.monotonic() - began
        used, used_by_postgres = read_cpu_s(hub) - cpu, read_cpu_s(postgres, children=True) - of_postgres
        print(f"{what}: {count:,} reports and {len(took):,} pages in {passed:.0f} s", flush=True)
        print(f"    hub: {used:.1f} s of processor time, {100 * used / passed:.0f} % of a core")
        print(f"    postgres: {used_by_postgres:.1f} s; memory of the hub {read_memory_mib(hub):.0f} MiB", flush=True)
        if took:
            some = sorted(took)
            print(f"    pages: median {1000 * statistics.median(some):.0f} ms, the slowest {1000 * some[-1]:.0f} ms")


def send(boxes: list[SimulatedBox], lasts_s: float) -> int:
    """Let boxes report in turn for so long; 0: each once, as fast as the hub answers. Return the number of reports."""
    turns = range(len(boxes)) if not lasts_s else range(int(lasts_s * len(boxes) / EVERY_S))
    began = time.monotonic()

    def report(turn: int) -> None:
        if lasts_s:
            wait_s = began + turn * EVERY_S / len(boxes) - time.monotonic()
            threading.Event().wait(max(0.0, wait_s))
        boxes[turn % len(boxes)].report(has_news=bool(lasts_s) and turn % NEWS_EVERY == 0)

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(1 for _ in pool.map(report, turns))


def ask_for_pages(owner: WebClient, ended: threading.Event, took: list[float]) -> None:
    """Ask for one page after the other, a hundred a minute."""
    for path in rotate():
        if ended.wait(1 / PAGES_PER_S):
            return
        took.append(ask(owner, path))


def rotate() -> Iterator[str]:
    """Yield the pages in turn."""
    while True:
        yield from PAGES


def ask(owner: WebClient, path: str) -> float:
    """Ask for a page; return how many seconds it took."""
    began = time.monotonic()
    assert owner.get(path).status == 200, path
    return time.monotonic() - began


def measure_pages(hub: int, owner: WebClient) -> None:
    """Print what each page costs the hub, which has nothing else to do."""
    for path in PAGES:
        cpu = read_cpu_s(hub)
        took = [ask(owner, path) for _ in range(5)]
        cpu = (read_cpu_s(hub) - cpu) / 5
        print(
            f"    {path:14} {1000 * statistics.median(took):6.0f} ms, {1000 * cpu:6.0f} ms of processor time",
            flush=True,
        )


def read_cpu_s(pid: int, *, children: bool = False) -> float:
    """Return the processor time of a process so far; of its children as well, living and dead."""

    def read(one: int, *, waited: bool) -> float:
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11 : 15 if waited else 13])) / TICKS_PER_S

    total = read(pid, waited=children)
    for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if children else ():
        total += read(int(word), waited=False)
    return total


def read_memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
