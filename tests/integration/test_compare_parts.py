"""A comparison that is done in several parts: each file once, and the last part knows what the first ones found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.catalog.findings import find_findings
from integrity.config import Config
from integrity.config.definition import ConfiguredCopy
from integrity.jobs.context import Context
from integrity.jobs.options import CompareOptions, ScanOptions
from integrity.jobs.report import Summary
from integrity.jobs.runner import compare, scan
from integrity.model import Finding
from support.jobs import open_context, tally
from support.planted import plant_path

COUNT = 1_500  # far more than what is read before the first answers are counted
pytestmark = pytest.mark.files(COUNT, size_bytes=2000)
NOW = 1_800_014_400


@pytest.fixture
def context(tmp_path: Path, root: Path) -> Iterator[Context]:
    """Record a root that has a copy beside it."""
    shutil.copytree(root, tmp_path / "copy")
    copy = ConfiguredCopy(name="nightly", of=os.fsencode(root), url=str(tmp_path / "copy"))
    with open_context(tmp_path / "catalog.db", Config(copies=(copy,))) as context:
        context.clock = lambda: NOW
        scan(context, [os.fsencode(root)], ScanOptions())
        yield context


def part(context: Context, *, passed_s: int, byte_limit: int | None = None) -> Summary:
    """Compare what was not compared after NOW, so many seconds later."""
    context.clock = lambda: NOW + passed_s
    options = CompareOptions("nightly", byte_limit=byte_limit, scan_first=False, after=NOW)
    return compare(context, (), options)


def open_findings(context: Context) -> list[Finding]:
    with context.catalog.read() as connection:
        return find_findings(connection)


def test_each_file_is_compared_once(context: Context) -> None:
    """What an earlier part compared is not due; what changed since is."""
    first = tally(part(context, passed_s=1, byte_limit=20_000))
    assert 0 < first["verified"] < COUNT
    second = tally(part(context, passed_s=2))
    assert {"verified": COUNT - first["verified"], "not_due": first["verified"]} == second
    assert {"not_due": COUNT} == tally(part(context, passed_s=3))

    root = Path(os.fsdecode(context.config.copies[0].of))
    plant_path(root, 3).write_text("something else")
    context.clock = lambda: NOW + 4
    scan(context, (), ScanOptions())
    assert COUNT - 1 == tally(part(context, passed_s=5))["not_due"]


def test_what_was_compared_in_the_second_of_the_beginning_is_compared_again(context: Context) -> None:
    """It may be of the comparison before, and the copy another one by now."""
    assert tally(part(context, passed_s=0)) == tally(part(context, passed_s=1)) == {"verified": COUNT}


def test_what_earlier_parts_found_stays_open(context: Context, tmp_path: Path) -> None:
    """The last part does not meet it again, and does not take it for over."""
    for number in range(5):
        plant_path(tmp_path / "copy", number).unlink()
    part(context, passed_s=1, byte_limit=20_000)
    part(context, passed_s=2)
    assert 5 == len(open_findings(context))
    part(context, passed_s=3)
    assert 5 == len(open_findings(context))


def test_copy_that_is_away_is_told_as_such(context: Context, tmp_path: Path) -> None:
    """To who would try again later; not each file is missing."""
    (tmp_path / "copy").rename(tmp_path / "away")
    summary = part(context, passed_s=1)
    assert summary.compared is not None
    assert summary.compared.is_unreachable
    assert summary.is_incomplete
    assert [None] == [one.path for one in open_findings(context)]

    (tmp_path / "away").rename(tmp_path / "copy")
    summary = part(context, passed_s=2)
    assert summary.compared is not None
    assert not summary.compared.is_unreachable
    assert [] == open_findings(context)
