"""Hub, database and boxes are killed at random moments: nothing is lost or there twice, and every vote is right."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.check import check_hub
from integrity.hub.database import HubDatabase
from support.bitrot import rot
from support.cli import Box
from support.fleet import NAMES, PATIENCE_S, Fleet
from support.hubserver import HubServerProcess, make_tables
from support.planted import plant_path
from support.postgres import PostgresServer
from support.stored import query
from support.waiting import TimedOutError, wait_until

FILES = 60
SIZE_BYTES = 5000
LONGEST_S = 3.0
"""Between two kills: a report, a vote, or the start of one of them is under way."""

QUIET_S = 300.0
Said = tuple[str, str | None, bytes]
"""What is wrong, on which box if one is named, with which file."""

_DIFFERS = {"replica_stale", "replica_conflict", "replica_differs"}


class KilledFleet:
    """A hub with its database and three boxes, all of which are killed."""

    def __init__(self, postgres: PostgresServer, hub: HubServerProcess, fleet: Fleet, seed: int) -> None:
        self._postgres, self._hub, self._fleet = postgres, hub, fleet
        self._random = random.Random(seed)
        self._rotten: set[tuple[str, int]] = set()

    def go_on(self) -> None:
        """Change something, and kill one of them a moment later."""
        self._random.choice([self._write, self._write, self._remove, self._damage])()
        threading.Event().wait(self._random.random() * LONGEST_S)
        victim = self._random.choice(["hub", "database", *NAMES])
        if victim == "hub":
            self._hub.stop(signal.SIGKILL)
            self._hub.start()
        elif victim == "database":
            self._postgres.stop(signal.SIGKILL)
            self._postgres.start()
        else:
            self._fleet.kill(victim)

    def _choose(self) -> tuple[str, int, Path]:
        name, number = self._random.choice(NAMES), self._random.randrange(FILES)
        return name, number, plant_path(self._fleet.roots[name], number)

    def _write(self) -> None:
        """Give a file new content on one box, or on all."""
        one, number, _ = self._choose()
        content = self._random.randbytes(SIZE_BYTES)
        for name in NAMES if self._random.random() < 0.5 else (one,):
            if (name, number) not in self._rotten:
                plant_path(self._fleet.roots[name], number).write_bytes(content)

    def _remove(self) -> None:
        """Delete a file on one box."""
        name, number, path = self._choose()
        if (name, number) not in self._rotten:
            path.unlink(missing_ok=True)

    def _damage(self) -> None:
        """Flip a bit of a recorded file on one box, and have it found."""
        name, number, path = self._choose()
        if path.exists() and (name, number) not in self._rotten and len(self._rotten) < FILES // 4:
            self._fleet.boxes[name].run("scan", path.parent)  # whose interruption by a kill is no concern here
            rot(path, 100)
            self._rotten.add((name, number))
            self._fleet.boxes[name].run("scrub", path)

    def wait_quiet(self) -> None:
        """Have all changes recorded, and wait until the hub has concluded from them what the catalogs say."""
        for round_ in range(2):
            # The second one makes the hub vote after all have reported: what is just recorded it leaves open till then.
            for name in NAMES:
                (self._fleet.roots[name] / "last").write_bytes(b"%d" % round_)
            os.sync()
            for name in NAMES:
                self._fleet.boxes[name].run("scan", self._fleet.roots[name])
            self._fleet.wait_settled()
        with suppress(TimedOutError):  # the caller compares both, and shows what differs
            wait_until(self.are_right, "the right votes", timeout_s=QUIET_S, every_s=1.0)

    def are_right(self) -> bool:
        """Return whether the hub says what follows from the catalogs."""
        expected, found = self.compare()
        return expected == found

    def compare(self) -> tuple[set[Said], set[Said]]:
        """Return what follows from the catalogs, and what the hub says."""
        files = {name: read_files(self._fleet.boxes[name]) for name in NAMES}
        damaged = {name: read_damaged(self._fleet.boxes[name]) for name in NAMES}
        expected, found = find_expected(files, damaged), self.found()
        # Whether a sound box is behind a damaged one depends on the order of their contents, which no catalog knows.
        behind = {("differs", None, path) for path in find_possibly_behind(files, damaged)}
        return expected - behind, found - behind

    def found(self) -> set[Said]:
        """Return what the hub says, without distinguishing how the boxes differ: that depends on their order."""
        said: set[Said] = set()
        for one in self._fleet.find_findings():
            if one.resolved_at is None and one.kind in _DIFFERS:
                said.add(("differs", None, one.path))
            elif one.resolved_at is None and one.kind in {"replica_missing", "replica_damaged"}:
                said.add((one.kind.removeprefix("replica_"), one.box_name, one.path))
        return said


def find_expected(files: Mapping[str, Mapping[bytes, bytes]], damaged: Mapping[str, set[bytes]]) -> set[Said]:
    """Compute from the catalogs alone what is damaged, missing, and different."""
    said: set[Said] = set()
    for path in {path for held in files.values() for path in held}:
        said |= {("missing", name, path) for name in NAMES if path not in files[name]}
        said |= {("damaged", name, path) for name in NAMES if path in damaged[name]}
        said |= {("differs", None, path)} if len(find_sound(path, files, damaged)) > 1 else set()
    return said


def find_possibly_behind(
    files: Mapping[str, Mapping[bytes, bytes]], damaged: Mapping[str, set[bytes]]
) -> Iterator[bytes]:
    """Return the files of which the sound boxes have the same content, and a damaged one recorded another."""
    for path in {path for held in damaged.values() for path in held}:
        sound = find_sound(path, files, damaged)
        recorded = {files[name][path] for name in NAMES if path in files[name]}
        if len(sound) == 1 and recorded != sound:
            yield path


def find_sound(
    path: bytes, files: Mapping[str, Mapping[bytes, bytes]], damaged: Mapping[str, set[bytes]]
) -> set[bytes]:
    """Return the contents of a file that the boxes have without damage."""
    return {files[name][path] for name in NAMES if path in files[name] and path not in damaged[name]}


def read_files(box: Box) -> dict[bytes, bytes]:
    """Return the MD5 of each recorded file by its path."""
    rows = query(box, "SELECT folder.path, name, md5 FROM file JOIN folder ON folder.id = folder_id")
    return {os.path.join(bytes(folder), bytes(name)): bytes(md5) for folder, name, md5 in rows}  # type: ignore[arg-type]


def read_damaged(box: Box) -> set[bytes]:
    """Return the paths of damaged files."""
    kinds = "'rot', 'silent_rewrite', 'unreadable'"
    rows = query(box, f"SELECT path FROM finding WHERE kind IN ({kinds}) AND state <> 'resolved'")
    return {bytes(path) for (path,) in rows}  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def durable() -> Iterator[PostgresServer]:
    """Run a PostgreSQL that survives kills."""
    with PostgresServer(is_durable=True) as server:
        yield server


@pytest.mark.root
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(8, marks=pytest.mark.timeout(900)),
        pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(0)]),
    ],
)
def test_nothing_is_lost_or_doubled(durable: PostgresServer, tmp_path: Path, kills: int) -> None:
    """What the hub says in the end is what follows from the catalogs, each run and finding is there once."""
    url = make_tables(durable.create_database())
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    with (
        HubServerProcess(Box(tmp_path / "hub"), url) as hub,
        Fleet(hub, url, tmp_path / "boxes", files=FILES, size_bytes=SIZE_BYTES) as fleet,
    ):
        fleet.wait_settled()
        killed = KilledFleet(durable, hub, fleet, seed)
        for _ in range(kills):
            killed.go_on()
        killed.wait_quiet()

        expected, found = killed.compare()
        assert expected == found
        for name in NAMES:
            assert_reported_once(fleet, name)
        database = HubDatabase.open(url)
        assert [] == check_hub(database, 0).problems
        database.close()


def assert_reported_once(fleet: Fleet, name: str) -> None:
    """
    The hub has each finding of a box as its catalog has it, and each of its runs once.

    The first run may have ended before the service opened its stream of messages, of which it is then no part.
    """
    box = schema.box.c.id == sa.select(schema.box.c.id).where(schema.box.c.name == name).scalar_subquery()
    findings = sa.select(schema.box_finding.c.number, schema.box_finding.c.kind, schema.box_finding.c.state)
    ordered = findings.join(schema.box).where(box).order_by(schema.box_finding.c.number)
    reported = fleet.ask(lambda c: list(c.execute(ordered)))
    recorded = query(fleet.boxes[name], "SELECT id, kind, state FROM finding ORDER BY id")
    assert recorded == [tuple(row) for row in reported]

    def find_missing() -> list[object]:
        bodies = sa.select(sa.cast(schema.box_event.c.body, sa.JSON)["id"].as_integer())
        runs = bodies.join(schema.box).where(box, schema.box_event.c.kind == "run")
        reported = fleet.ask(lambda c: list(c.execute(runs).scalars()))
        assert len({*reported}) == len(reported)
        finished = query(fleet.boxes[name], "SELECT id FROM run WHERE finished_at IS NOT NULL AND id > 1")
        return [number for (number,) in finished if number not in reported]

    wait_until(lambda: find_missing() == [], "the reports of all runs", timeout_s=PATIENCE_S, every_s=0.5)
