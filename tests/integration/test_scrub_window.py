"""What a window does for a root: its share once, new files whenever they come, and nothing after it has closed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from zoneinfo import ZoneInfo

import pytest

from integrity.catalog.connection import Catalog
from integrity.config import Config
from integrity.errors import AppError
from integrity.files.block_devices import Device
from integrity.files.span import UNLIMITED
from integrity.jobs.admin.roots import set_paused
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import Summary
from integrity.jobs.runner import scan, scrub
from integrity.model import Outcome
from integrity.service.dispatch import Dispatcher, ServiceContext
from integrity.service.inventory import MonitoredRoot, find_monitored_roots
from integrity.service.schedule.clock import parse_windows
from integrity.service.schedule.timetable import ScrubWindow, Timetable
from support.jobs import open_context
from support.planted import plant
from support.waiting import wait_until

COUNT = 21
pytestmark = pytest.mark.files(COUNT, size_bytes=2000, is_aged=True)
NOON = 1_800_014_400  # 12:00 UTC on some day


@pytest.fixture
def context(tmp_path: Path, root: Path) -> Iterator[Context]:
    """Record a root at noon."""
    with open_context(tmp_path / "catalog.db") as context:
        context.clock = lambda: NOON
        scan(context, [os.fsencode(root)], ScanOptions())
        yield context


@pytest.fixture
def monitored(context: Context) -> MonitoredRoot:
    """Find the root as the service does."""
    (root,) = find_monitored_roots(context.catalog, context.config)
    return root


def make_window(windows: str = "00:00-24:00") -> ScrubWindow:
    return ScrubWindow(parse_windows(windows, ZoneInfo("UTC")), Config())


def turn(window: ScrubWindow, context: Context, root: MonitoredRoot) -> tuple[int, bool]:
    """Let a root have its turn; tell how many files were verified, and whether it wants another one."""
    options = window.plan(context, root)
    if options is None:
        return 0, False
    summary = scrub(context, [root.path], options)
    return summary.counts.verified, window.record_turn(root, summary, is_paused=False)


def test_new_files_are_all_verified(context: Context, monitored: MonitoredRoot) -> None:
    """First the share that the promise asks for, then the rest of what is new; after that there is nothing to do."""
    window = make_window()
    share, wants_more = turn(window, context, monitored)
    assert 0 < share < COUNT
    assert wants_more
    rest, wants_more = turn(window, context, monitored)
    assert COUNT == share + rest
    assert not wants_more


def test_new_files_that_come_later_are_verified_too(context: Context, monitored: MonitoredRoot) -> None:
    """The window is still open when something is added."""
    window = make_window()
    while turn(window, context, monitored)[1]:
        pass
    plant(Path(os.fsdecode(monitored.path)) / "more", 7)
    scan(context, [monitored.path], ScanOptions())
    window.mark_new(monitored)
    assert (7, False) == turn(window, context, monitored)


def test_touched_files_are_verified_in_the_open_window(context: Context, monitored: MonitoredRoot) -> None:
    """All was verified just now; then one file is touched, and is verified alone."""
    window = make_window()
    while turn(window, context, monitored)[1]:
        pass
    touched = next(one for one in Path(os.fsdecode(monitored.path)).rglob("*") if one.is_file())
    touched.chmod(0o600)
    scan(context, [monitored.path], ScanOptions())
    window.mark_new(monitored)
    assert (1, False) == turn(window, context, monitored)


def test_turn_that_made_room_goes_on(context: Context, monitored: MonitoredRoot) -> None:
    """What it has read counts; it has another turn however much that was."""
    window = make_window()
    options = window.plan(context, monitored)
    assert options is not None
    context.preempted.set()
    summary = scrub(context, [monitored.path], options)
    assert 0 == summary.counts.verified
    assert window.record_turn(monitored, summary, is_paused=True)


def test_nothing_begins_after_the_window(context: Context, monitored: MonitoredRoot) -> None:
    """Nor for a monitored that was paused meanwhile."""
    window = make_window()
    set_paused(context.catalog, monitored.path, is_paused=True, now=context.now())
    assert window.plan(context, monitored) is None
    set_paused(context.catalog, monitored.path, is_paused=False, now=context.now())
    window.is_over = True
    assert window.plan(context, monitored) is None


def test_sleeping_disk_is_not_woken_before_it_must_be(
    context: Context, monitored: MonitoredRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A month later the promise forces it. What a disk says of itself is the one thing that can't be had here."""
    sleeps = {"sdz"}
    monkeypatch.setattr("integrity.service.inventory.is_asleep", lambda disk, **_: disk in sleeps)
    monitored = replace(monitored, device=Device(is_rotational=True, name="sdz", key="disk:sdz"))
    window = make_window("11:00-13:00")
    assert window.plan(context, monitored) is None
    assert [] == window.take_ready([monitored])
    context.clock = lambda: NOON + 31 * 86_400
    assert window.plan(context, monitored) is not None
    sleeps.clear()
    assert [monitored] == window.take_ready([monitored])
    assert [] == window.take_ready([monitored])


def test_sleeping_disk_is_woken_when_the_other_one_has_cooled_down(
    context: Context, monitored: MonitoredRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The promise still forces the root: that one of its disks sleeps on must not keep it waiting."""
    degrees = {"sdy": 61}
    monkeypatch.setattr("integrity.service.inventory.is_asleep", lambda disk, **_: disk == "sdz")
    monkeypatch.setattr("integrity.service.inventory.temperature", lambda disk, **_: degrees[disk])
    monitored = replace(monitored, device=Device(is_rotational=True, name="sdy+sdz", key="disk:sdy+sdz"))
    config = replace(Config(), pace=replace(Config().pace, max_temperature=60))
    window = ScrubWindow(parse_windows("11:00-13:00", ZoneInfo("UTC")), config)
    context.clock = lambda: NOON + 31 * 86_400
    assert window.plan(context, monitored) is None
    assert [] == window.take_ready([monitored])
    degrees["sdy"] = 40
    assert [monitored] == window.take_ready([monitored])
    assert window.plan(context, monitored) is not None


def test_turn_that_waits_when_the_service_stops_is_not_queued_again(
    context: Context, monitored: MonitoredRoot, tmp_path: Path
) -> None:
    """It has new files to verify still, and is told that it was interrupted; queues that have ended take nothing."""
    config = replace(Config(), schedule=replace(Config().schedule, scrub="00:00-24:00"))
    path = str(tmp_path / "catalog.db")
    service = ServiceContext(
        lambda: Catalog.open(path, writes=True), lambda: config, lambda _: UNLIMITED, "", clock=lambda: NOON
    )
    results: list[Summary | AppError] = []
    dispatcher = Dispatcher(service, results.append)
    timetable = Timetable(
        service, dispatcher, lambda: [monitored], list, scan=lambda *_: None, beat=int, has_news=lambda: None
    )
    dispatcher.set_roots([monitored])
    timetable.start()
    wait_until(lambda: len(results) == 2, "the turns for the share and for what is new")
    lent = Event()
    dispatcher.lend([monitored.path], lent.set, lambda _: None)
    assert lent.wait(10)
    timetable.verify_new(monitored, has_new=True)
    assert 1 == len(dispatcher.queued())

    timetable.stop()
    dispatcher.end()

    assert [] == dispatcher.join(service.monotonic() + 10)
    assert 4 == len(results)
    assert [Outcome.INTERRUPTED] * 2 == [one.outcome for one in results[2:] if isinstance(one, Summary)]
