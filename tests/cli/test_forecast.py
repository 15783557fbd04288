"""What ``status`` says of the promise: ages, what is apart, and whether the windows are enough."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from integrity.catalog import findings, runs
from integrity.catalog.connection import Catalog
from integrity.catalog.roots import find_roots
from integrity.model import FindingKind
from support.cli import Box
from support.shapes import damage
from support.stored import query, rewrite

pytestmark = pytest.mark.files(10, size_bytes=1000, is_recorded=True)

DAY_S = 86_400


def note_scrub(integrity: Box) -> None:
    """Write down that a service has begun a window."""
    with Catalog.open(bytes(integrity.catalog), writes=True) as catalog, catalog.transaction() as c:
        runs.note_started(c, "scrub", None, due_at=None, now=int(time.time()))


def test_ages_are_shown_by_bytes(integrity: Box, root: Path) -> None:
    """One line, each share where it belongs."""
    assert "  last seen  100 % within 24 h\n" in integrity.run("status", expect=0).stdout
    rewrite(integrity, f"UPDATE file SET verified_at = recorded_at - {10 * DAY_S} WHERE id <= 3")

    assert "  last seen  70 % within 24 h, 30 % 7 to 14 days ago\n" in integrity.run("status", expect=0).stdout


def test_ages_of_empty_files_are_shown_by_files(integrity: Box, tmp_path: Path) -> None:
    """No bytes, no division by them; no files, no line."""
    empty = tmp_path / "empty"
    empty.mkdir()
    integrity.run("scan", empty, expect=0)
    assert "last seen" not in integrity.run("status", expect=0).stdout
    (empty / "file").touch()
    integrity.run("scan", empty, expect=0)

    assert "  last seen  100 % within 24 h\n" in integrity.run("status", expect=0).stdout


def test_forecast_comes_with_the_first_window(integrity: Box, root: Path) -> None:
    """Who scrubs by hand is not told of windows that nobody uses."""
    assert "  forecast " not in integrity.run("status", expect=0).stdout
    assert integrity.get_object("root", "status")["plan"] is None
    note_scrub(integrity)
    integrity.run("scrub", root, expect=0)
    text, plan = integrity.run("status", expect=0).stdout, integrity.get_object("root", "status")["plan"]

    assert "  forecast   on schedule: " in text
    assert "/s in 01:00-06:00; " in text
    assert isinstance(plan, dict)
    assert (plan["is_kept"], plan["bytes_overdue"], plan["advice"]) == (True, 0, None)


def test_broken_promise_comes_with_advice(integrity: Box, root: Path) -> None:
    """When it will be kept again, or what would help."""
    note_scrub(integrity)
    rewrite(integrity, f"UPDATE file SET recorded_at = recorded_at - {40 * DAY_S}")
    text, plan = integrity.run("status", expect=3).stdout, integrity.get_object("root", "status")["plan"]

    assert "  forecast   behind schedule: " in text
    assert "no scrub has begun in the last windows (01:00-06:00): is the machine on then" in text
    assert isinstance(plan, dict)
    assert (plan["is_kept"], plan["bytes_overdue"]) == (False, 10_000)


def test_moments_for_windows_are_shown_as_they_are_written(integrity: Box, root: Path) -> None:
    """A cron expression is a window, too."""
    integrity.configure('[schedule]\nscrub = "0 1 * * sun"\n')
    note_scrub(integrity)

    assert "/s in 0 1 * * sun\n" in integrity.run("status", expect=0).stdout


def test_what_findings_name_is_apart(integrity: Box, root: Path) -> None:
    """A damaged file is neither verified nor overdue, and stands in a line of its own."""
    damage(next(root.rglob("7.txt")))
    integrity.run("scrub", root, expect=1)
    rewrite(integrity, f"UPDATE file SET recorded_at = recorded_at - {40 * DAY_S} WHERE verified_at IS NULL")
    text, found = integrity.run("status", expect=1).stdout, integrity.get_object("root", "status")

    assert "  open       1 damaged file:  integrity findings" in text
    assert re.search(r"  verified   \d+ of \d+ files within the last 30 days \(oldest: ", text)
    assert " s ago); next check due" in text
    assert (found["files_uncovered"], found["bytes_uncovered"], found["files_overdue"]) == (1, 1000, 0)
    assert found["bytes_verified"] == 9000 - int(str(found["bytes_cache_possible"]))


def test_suspended_root_is_apart_as_a_whole(integrity: Box, root: Path) -> None:
    """Nothing of it can be verified; it is not called overdue besides."""
    rewrite(integrity, f"UPDATE file SET recorded_at = recorded_at - {40 * DAY_S}")
    root.rename(root.with_name("elsewhere"))
    root.mkdir()
    integrity.run("scan", root, expect=3)
    text = integrity.run("status", expect=3).stdout

    assert 1 == text.count("  suspended: ")
    assert "  verified   10 files not verified in the last 30 days: the folder is suspended; 10 files" in text


def test_scrub_by_hand_ends_what_was_overdue(integrity: Box, root: Path) -> None:
    """No service may be there to look; a scrub that leaves something overdue ends nothing."""
    rewrite(integrity, f"UPDATE file SET recorded_at = recorded_at - {40 * DAY_S}")
    with Catalog.open(bytes(integrity.catalog), writes=True) as catalog, catalog.transaction() as c:
        (found,) = find_roots(c)
        new = findings.NewFinding(FindingKind.OVERDUE, found.id, None, None, "10 files not verified within 30d")
        findings.open_finding(c, new, now=int(time.time()), run_id=None)
    integrity.run("scrub", root / "d1", expect=0)
    assert [("open",)] == query(integrity, "SELECT state FROM finding")
    text = integrity.run("scrub", root, expect=0).stdout

    assert "finding 1, Verification overdue, is resolved: everything is verified in time again" in text
    assert [("resolved",)] == query(integrity, "SELECT state FROM finding")
    integrity.run("status", expect=0)
