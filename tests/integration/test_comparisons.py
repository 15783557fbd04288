"""When a comparison begins and when it does not, with a clock that the test moves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.copies import find_copies
from integrity.catalog.findings import find_findings
from integrity.catalog.runs import find_unfinished, last_started
from integrity.config import Config
from integrity.config.definition import ConfiguredCopy, ConfiguredRoot
from integrity.files.span import UNLIMITED
from integrity.jobs.compare.deadline import check_copies
from integrity.jobs.options import ScanOptions
from integrity.jobs.runner import scan
from integrity.model import Finding
from integrity.service.dispatch import Dispatcher, ServiceContext
from integrity.service.inventory import MonitoredCopy, find_disks, find_monitored_copies, find_monitored_roots
from integrity.service.schedule.copy_schedule import Comparisons, schedule_name
from support.clock import Clock
from support.faultfs import FaultFS, Rule
from support.jobs import open_context
from support.loopfs import LoopFS
from support.planted import plant
from support.waiting import wait_until

COUNT = 12
DAY_S = 86_400
HOUR_S = 3600
NOW = 1_800_014_400


class Parts:
    """What the daemon gives its comparisons: catalog, configuration, roots, dispatcher, and a clock."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.root = plant(folder / "root", COUNT)
        self.copy = folder / "copy"
        self.path = folder / "catalog.db"
        self.clock = Clock(NOW)
        self.set_url(url)
        Catalog.create(bytes(self.path)).close()
        service = ServiceContext(
            self.open_catalog, lambda: self.config, lambda _: UNLIMITED, "", clock=self.clock, monotonic=self.clock
        )
        self.dispatcher = Dispatcher(service, lambda _: None)
        self.ended = 0
        self.comparisons = Comparisons(service, self.dispatcher, self.copies, self.count)

    def set_url(self, url: str, *, read_percent: int = 0) -> None:
        self.config = Config(
            roots=(ConfiguredRoot(path=os.fsencode(self.root)),),
            copies=(ConfiguredCopy(name="nightly", of=os.fsencode(self.root), url=url, read_percent=read_percent),),
        )

    def open_catalog(self) -> Catalog:
        return Catalog.open(bytes(self.path), writes=True)

    def copies(self) -> list[MonitoredCopy]:
        with self.open_catalog() as catalog:
            return find_monitored_copies(self.config, find_monitored_roots(catalog, self.config))

    def count(self) -> None:
        self.ended += 1

    def settle(self, *, after: float = 0) -> str:
        """Let time pass, look again at what waits, and return what it waits for when that has ended."""
        self.clock.now += after
        before = self.ended
        self.comparisons.turn()
        if self.dispatcher.busy() or self.dispatcher.queued():
            wait_until(lambda: self.ended > before, "the end of a turn")
        return self.waits

    def want(self) -> str:
        """Have it compared; return what it waits for at the end of that."""
        before = self.ended
        self.comparisons.want("nightly")
        wait_until(lambda: self.ended > before, "the end of a turn")
        return self.waits

    @property
    def waits(self) -> str:
        return "".join(one.reason for one in self.comparisons.waits())

    @property
    def is_done(self) -> bool:
        with self.open_catalog() as catalog, catalog.read() as c:
            name = schedule_name("nightly")
            return last_started(c, name) is not None and find_unfinished(c, name) is None

    def count_read(self) -> int:
        """Count the files whose copies have been read back."""
        with self.open_catalog() as catalog, catalog.read() as c:
            (copy,) = find_copies(c)
            return int(c.value("SELECT count(read_at) FROM copy_file WHERE copy_id = ?", copy.id))

    def findings(self) -> list[Finding]:
        with self.open_catalog() as catalog, catalog.read() as c:
            return find_findings(c)

    def end(self) -> None:
        self.comparisons.stop()
        self.dispatcher.end()
        wait_until(lambda: self.dispatcher.join(self.clock() + 1) == [], "the end of the threads")


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    """Make them, with a copy that is not there."""
    made = Parts(tmp_path, str(tmp_path / "copy"))
    yield made
    made.end()


def test_copy_that_is_away_is_looked_for_now_and_then(parts: Parts) -> None:
    """A folder that is filled tells nobody; nothing is written for one that is not there."""
    assert parts.want().startswith("waits for its disk: ")
    assert [] == parts.findings()
    with parts.open_catalog() as catalog, catalog.read() as c:
        assert last_started(c, schedule_name("nightly")) is None
    shutil.copytree(parts.root, parts.copy)
    parts.comparisons.turn()
    parts.settle(after=HOUR_S)
    wait_until(lambda: parts.is_done, "the comparison")
    assert "" == parts.waits
    assert [] == parts.findings()


def test_mount_is_what_it_waits_for(parts: Parts) -> None:
    """Whatever is mounted, it looks at once, and without the catalog."""
    parts.want()
    shutil.copytree(parts.root, parts.copy)
    parts.comparisons.mounts_changed()
    wait_until(lambda: parts.is_done, "the comparison")


def test_sleeping_disk_is_woken_only_when_the_promise_forces_it(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is awake it is compared. What a disk says of itself is the one thing that can't be had here."""
    sleeps = {"sdz"}
    monkeypatch.setattr("integrity.service.schedule.copy_schedule.find_disks", lambda _: ["sdz"])
    monkeypatch.setattr("integrity.service.inventory.is_asleep", lambda disk, **_: disk in sleeps)
    shutil.copytree(parts.root, parts.copy)
    assert parts.want() == "waits until its disks are awake, and not hot"
    before = parts.ended
    for _ in range(5):
        parts.settle(after=HOUR_S)
    assert before == parts.ended  # it was asked of the disk alone
    sleeps.clear()
    parts.settle(after=60)
    wait_until(lambda: parts.is_done, "the comparison")

    sleeps.add("sdz")
    parts.clock.now += 60 * DAY_S
    assert parts.want() == "waits until its disks are awake, and not hot"
    parts.settle(after=21 * DAY_S)
    wait_until(lambda: parts.is_done and not parts.waits, "the comparison that is forced")


def test_share_of_the_bytes_is_read_back_each_time(parts: Parts) -> None:
    """What was not read for longest comes first, so that a few comparisons read all of it."""
    parts.set_url(str(shutil.copytree(parts.root, parts.copy)), read_percent=25)
    read = []
    for _ in range(6):
        parts.want()
        read.append(parts.count_read())
        parts.clock.now += DAY_S
    assert 0 < read[0] < COUNT
    assert sorted(read) == read
    assert COUNT == read[-1]


def test_copy_that_can_not_be_read_is_tried_again_less_and_less_often(parts: Parts) -> None:
    """It is told once."""
    parts.set_url("ssh://nobody@127.0.0.1:1/copy")
    assert parts.want() == "is tried again: could not be reached"
    assert ["copy_unreadable"] == [one.kind.value for one in parts.findings()]
    opened_at = parts.findings()[0].opened_at
    tries = []
    for hour in range(1, 17):
        before = parts.ended
        parts.settle(after=HOUR_S)
        tries += [hour] if parts.ended > before else []
    assert [1, 3, 7, 15] == tries
    assert [opened_at] == [one.opened_at for one in parts.findings()]
    parts.set_url(str(shutil.copytree(parts.root, parts.copy)))
    parts.comparisons.try_again()
    wait_until(lambda: parts.is_done, "the comparison")
    assert [] == parts.findings()


def test_copy_that_can_be_none_is_told(parts: Parts) -> None:
    """The root itself under another name: an error that nobody sees would be silence."""
    link = parts.folder / "link"
    link.symlink_to(parts.root)
    parts.set_url(str(link))
    parts.want()
    parts.settle(after=HOUR_S)  # the root has a number now
    (finding,) = parts.findings()
    assert "copy_unreadable" == finding.kind.value
    assert "is the folder itself" in finding.message


def test_promise_runs_while_the_disk_is_away(parts: Parts) -> None:
    """Silence has an end."""
    parts.want()
    shutil.copytree(parts.root, parts.copy)
    parts.comparisons.mounts_changed()
    wait_until(lambda: parts.is_done, "the comparison")
    shutil.rmtree(parts.copy)
    for days, kinds in ((80, []), (11, ["overdue"])):
        parts.clock.now += days * DAY_S
        parts.want()
        with open_context(parts.path, parts.config) as context:
            context.clock = parts.clock
            assert kinds == [one.kind.value for one in check_copies(context)]


def test_first_comparison_believes_the_copy_that_it_finds(parts: Parts) -> None:
    """Its promise was written down before it was ever seen: it is no other disk, and may have less than half."""
    with open_context(parts.path, parts.config) as context:
        scan(context, [os.fsencode(parts.root)], ScanOptions())
        check_copies(context)
    shutil.copytree(parts.root, parts.copy)
    for path in sorted(parts.copy.rglob("*.txt"))[2:]:
        path.unlink()
    parts.want()
    assert ["copy_missing"] * (COUNT - 2) == [one.kind.value for one in parts.findings()]


@pytest.mark.root
def test_copy_that_hangs_holds_up_nobody(faulty: FaultFS, tmp_path: Path) -> None:
    """It does not answer, so it is not there; its root is looked after all the same."""
    parts = Parts(tmp_path, str(faulty.folder / "copy"))
    shutil.copytree(parts.root, faulty.folder / "copy")
    rule = faulty.add(Rule("opendir", is_hung=True))
    try:
        assert parts.want() == "waits for its disk: its disk does not answer"
        assert [] == parts.findings()
    finally:
        faulty.clear(rule)
        parts.end()


@pytest.mark.root
def test_disks_of_a_folder_are_found_without_opening_it(ext4: LoopFS, tmp_path: Path) -> None:
    """Also of one that is not there; a server or memory has none."""
    assert find_disks(ext4.mnt) == find_disks(ext4.mnt + b"/not/there") != []
    assert [] == find_disks(b"/proc/self")
