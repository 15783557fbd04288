"""What a window does for a root: its share once, new files whenever they come, and nothing after it has closed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from integrity.config import Config
from integrity.files.block_devices import Device
from integrity.jobs.admin.roots import set_paused
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions
from integrity.jobs.runner import scan, scrub
from integrity.service.inventory import KeptRoot, find_kept_roots
from integrity.service.schedule.clock import parse_windows
from integrity.service.schedule.scrub_window import ScrubWindow
from support.jobs import open_context
from support.planted import age, plant

COUNT = 21
NOON = 1_800_014_400  # 12:00 UTC on some day


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    """Record a root at noon."""
    root = plant(tmp_path / "root", COUNT, size_bytes=2000)
    age(*root.rglob("*.txt"))
    with open_context(tmp_path / "catalog.db") as context:
        context.clock = lambda: NOON
        scan(context, [os.fsencode(root)], ScanOptions())
        yield context


@pytest.fixture
def kept(context: Context) -> KeptRoot:
    """Find the root as the service does."""
    (root,) = find_kept_roots(context.catalog, context.config)
    return root


def make_night(windows: str = "00:00-24:00") -> ScrubWindow:
    return ScrubWindow(parse_windows(windows, ZoneInfo("UTC")), Config(), NOON)


def turn(night: ScrubWindow, context: Context, kept: KeptRoot) -> tuple[int, bool]:
    """Let a root have its turn; tell how many files were verified, and whether it wants another one."""
    options = night.plan(context, kept)
    if options is None:
        return 0, False
    summary = scrub(context, [kept.path], options)
    return summary.counts.verified, night.take(kept, summary, has_rested=False)


def test_new_files_are_all_verified(context: Context, kept: KeptRoot) -> None:
    """First the share that the promise asks for, then the rest of what is new; after that there is nothing to do."""
    night = make_night()
    share, wants_more = turn(night, context, kept)
    assert 0 < share < COUNT
    assert wants_more
    rest, wants_more = turn(night, context, kept)
    assert COUNT == share + rest
    assert not wants_more


def test_new_files_that_come_later_are_verified_too(context: Context, kept: KeptRoot) -> None:
    """The window is still open when something is added."""
    night = make_night()
    while turn(night, context, kept)[1]:
        pass
    plant(Path(os.fsdecode(kept.path)) / "more", 7)
    scan(context, [kept.path], ScanOptions())
    night.wants(kept)
    assert (7, False) == turn(night, context, kept)


def test_turn_that_made_room_goes_on(context: Context, kept: KeptRoot) -> None:
    """What it has read counts; it has another turn however much that was."""
    night = make_night()
    options = night.plan(context, kept)
    assert options is not None
    context.preempted.set()
    summary = scrub(context, [kept.path], options)
    assert 0 == summary.counts.verified
    assert night.take(kept, summary, has_rested=True)


def test_nothing_begins_after_the_window(context: Context, kept: KeptRoot) -> None:
    """Nor for a root that was paused meanwhile."""
    night = make_night()
    set_paused(context.catalog, kept.path, is_paused=True)
    assert night.plan(context, kept) is None
    set_paused(context.catalog, kept.path, is_paused=False)
    night.is_over = True
    assert night.plan(context, kept) is None


def test_sleeping_disk_is_not_woken_before_it_must_be(
    context: Context, kept: KeptRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A month later the promise forces it. What a disk says of itself is the one thing that can't be had here."""
    sleeps = {"sdz"}
    monkeypatch.setattr("integrity.service.inventory.is_asleep", lambda disk: disk in sleeps)
    root = replace(kept, device=Device(is_rotational=True, name="sdz", key="disk:sdz"))
    night = make_night("11:00-13:00")
    assert night.plan(context, root) is None
    assert [] == night.take_ready([root])
    context.clock = lambda: NOON + 31 * 86_400
    assert night.plan(context, root) is not None
    sleeps.clear()
    assert [root] == night.take_ready([root])
    assert [] == night.take_ready([root])


def test_window_that_never_closes_is_known(context: Context) -> None:
    """It gets a new night every day."""
    assert make_night("00:00-24:00").never_closes
    assert not make_night("11:00-13:00").never_closes
    assert not make_night("30 11 * * *").never_closes
