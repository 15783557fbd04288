"""Parts of the service whose patience is long, with a clock that the test moves: disks that hang, blind watches."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.config import Config, load_config
from integrity.errors import AppError
from integrity.files.span import UNLIMITED
from integrity.hashing.engine import STALL_S
from integrity.jobs.report import Summary
from integrity.service.dispatch import Dispatcher, ServiceContext
from integrity.service.inventory import MonitoredRoot, find_monitored_roots
from integrity.service.watch_thread import LASTS_S, DirtyPaths, WatchThread
from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.planted import plant
from support.stored import count_rows
from support.waiting import wait_until


@dataclass
class Clock:
    """The monotonic clock, set forward at will."""

    ahead_s: float = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


class Parts:
    """What the daemon would give its parts: catalog, configuration, roots, a clock."""

    def __init__(self, box: Box, *roots: Path) -> None:
        text = "".join(f'[[root]]\npath = "{root}"\n' for root in roots)
        self.box = box
        self.config: Config = load_config(os.fsencode(box.configure(text)))
        if not box.catalog.exists():
            Catalog.create(bytes(box.catalog)).close()
        self.clock = Clock()
        self.opened = 0  # so often was the catalog opened

    def open_catalog(self) -> Catalog:
        self.opened += 1
        return Catalog.open(bytes(self.box.catalog), writes=True)

    def find_roots(self) -> list[MonitoredRoot]:
        with Catalog.open(bytes(self.box.catalog), writes=True) as catalog:
            return find_monitored_roots(catalog, self.config)

    def open_kinds(self) -> list[object]:
        return [one["kind"] for one in self.box.findings("findings")]


@pytest.fixture
def hung(faulty: FaultFS) -> Iterator[FaultFS]:
    """Let whatever hangs go on at the end."""
    yield faulty
    faulty.clear()


@pytest.mark.root
@pytest.mark.parametrize("op", ["read", "open"])
def test_hanging_disk_is_told_and_the_others_go_on(integrity: Box, hung: FaultFS, tmp_path: Path, op: str) -> None:
    """A read that hangs is a finding after five minutes; a call before it is listed as stuck. Others are scanned."""
    parts = Parts(integrity, plant(hung.folder, 5), plant(tmp_path / "well", 7))
    service = ServiceContext(parts.open_catalog, lambda: parts.config, lambda _: UNLIMITED, "", monotonic=parts.clock)
    dispatcher = Dispatcher(service, lambda _: None)
    ended: dict[bytes, Summary | AppError] = {}
    bad, well = parts.find_roots()
    dispatcher.set_roots([bad, well])
    assert bad.lane != well.lane
    rule = hung.add(Rule(op, path="*.txt", is_hung=True))
    dispatcher.scan(bad, "a test", lambda result: ended.update({bad.path: result}))
    dispatcher.scan(well, "a test", lambda result: ended.update({well.path: result}))
    wait_until(lambda: bool(hung.get_fired()) and well.path in ended, "one that hangs, one that is done")
    assert 7 == count_rows(integrity)
    assert [] == dispatcher.stuck(STALL_S)

    parts.clock.ahead_s += STALL_S + 120
    if op == "read":
        wait_until(lambda: bad.path in ended, "the end of the other")
        assert ["device_stalled"] == parts.open_kinds()
    else:
        assert [bad.path] == [work.root for work in dispatcher.stuck(STALL_S)]
    hung.clear(rule)
    dispatcher.end()
    wait_until(lambda: dispatcher.join(parts.clock() + 1) == [], "the end of the threads")


def test_blindness_that_lasts_is_a_finding_until_it_is_over(integrity: Box, tmp_path: Path) -> None:
    """A quarter of an hour without a watch; the root's folder was away, and is there again."""
    root = plant(tmp_path / "root", 3)
    parts = Parts(integrity, root)
    integrity.run("scan", expect=0)
    roots = parts.find_roots()
    away = root.rename(tmp_path / "away")
    dirty_paths, watched = DirtyPaths(lambda _: 0.0), []
    watch_thread = WatchThread(
        dirty_paths, parts.open_catalog, bytes(integrity.catalog), watched.append, monotonic=parts.clock
    )
    watch_thread.start(roots)
    try:
        wait_until(lambda: parts.opened == 1, "the first round")
        assert any(state.blind for state in watch_thread.states())
        wait_until(lambda: dirty_paths.take(os.fsencode(root)) == (), "all of it to be looked at")
        assert [] == parts.open_kinds()

        parts.clock.ahead_s += LASTS_S + 1
        watch_thread.set_roots(roots)
        wait_until(lambda: parts.open_kinds() == ["watch_blind"], "a finding")
        away.rename(root)
        watch_thread.set_roots(roots)
        wait_until(lambda: parts.open_kinds() == [], "its end")
        assert not any(state.blind for state in watch_thread.states())
    finally:
        watch_thread.end()
        assert watch_thread.join(10)
    assert roots == watched


def test_folder_that_is_told_as_away_is_not_told_as_blind_too(integrity: Box, tmp_path: Path) -> None:
    """That is one incident."""
    root = plant(tmp_path / "root", 3)
    parts = Parts(integrity, root)
    integrity.run("scan", expect=0)
    roots = parts.find_roots()
    root.rename(tmp_path / "away")
    integrity.run("scan", expect=3)
    watch_thread = WatchThread(
        DirtyPaths(lambda _: 0.0), parts.open_catalog, bytes(integrity.catalog), lambda _: None, monotonic=parts.clock
    )
    watch_thread.start(roots)
    try:
        wait_until(lambda: parts.opened == 1, "the first round")
        parts.clock.ahead_s += LASTS_S + 1
        for opened in (2, 3):  # when a round looks, the one before has ended
            watch_thread.set_roots(roots)
            wait_until(lambda opened=opened: parts.opened == opened, "a round")
    finally:
        watch_thread.end()
        assert watch_thread.join(10)
    assert ["root_suspended"] == parts.open_kinds()


def test_roots_are_told_once_they_are_watched(integrity: Box, tmp_path: Path) -> None:
    """So that what happened before is looked for then; one that comes later is told by itself, and changes no other."""
    first, second = plant(tmp_path / "first", 1), plant(tmp_path / "second", 1)
    parts = Parts(integrity, first, second)
    one, other = parts.find_roots()
    watched: list[MonitoredRoot] = []
    dirty_paths = DirtyPaths(lambda _: 0.0)
    watch_thread = WatchThread(dirty_paths, parts.open_catalog, bytes(integrity.catalog), watched.append)
    watch_thread.start([one])
    try:
        wait_until(lambda: watched == [one], "the first")
        assert 2 == watch_thread.states()[0].folders
        watch_thread.set_roots([one, other])
        wait_until(lambda: watched == [one, other], "the second")
        assert dirty_paths.take(one.path) is None
    finally:
        watch_thread.end()
        assert watch_thread.join(10)


def test_watch_thread_that_never_began_has_ended(integrity: Box, tmp_path: Path) -> None:
    """A service that can't begin ends with the reason, not with a bug of its end."""
    parts = Parts(integrity, plant(tmp_path / "root", 1))
    watch_thread = WatchThread(DirtyPaths(lambda _: 0.0), parts.open_catalog, bytes(integrity.catalog), lambda _: None)
    watch_thread.end()

    assert watch_thread.join(1)
