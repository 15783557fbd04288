"""A scrub that scans only what it did not find, as the service's do: it follows names as a scan before it would."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.jobs.options import ScanOptions, ScrubOptions
from integrity.jobs.runner import scan, scrub
from support.bitrot import rot
from support.cli import Box
from support.jobs import open_context
from support.shapes import put

pytestmark = pytest.mark.root

SIZE = 4_096


def exchange(one: Path, other: Path) -> None:
    between = one.with_name("between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def test_file_whose_name_was_used_again(data: Path, integrity: Box) -> None:
    """What stands under its old name is not all that is known of a recorded file, if a scan at the end finds it."""
    file, gone = data / "photo", data / "gone"
    for path in (file, gone):
        put(path, os.urandom(SIZE))
    integrity.run("scrub", data, expect=0)
    rot(file, 4_000)
    moved = file.rename(data / "photo-1")
    put(file, os.urandom(SIZE))
    gone.unlink()  # so that there is a scan

    with open_context(integrity.catalog) as context:
        scrub(context, (os.fsencode(data),), ScrubOptions(scan_first=False))

    assert [str(moved)] == [one["path"] for one in integrity.findings("findings", expect=1)]


@pytest.mark.parametrize("is_rotten", [True, False])
@pytest.mark.parametrize("scan_missing", [True, False])
def test_swapped_files(data: Path, integrity: Box, scan_missing: bool, is_rotten: bool) -> None:
    """No file is taken for a newer version of another; a scan, its own or the next, follows names."""
    paths = [data / "one", data / "other"]
    for path in paths:
        put(path, os.urandom(SIZE))
        os.utime(path, ns=(10**18, 10**18))
    integrity.run("scrub", data, expect=0)
    if is_rotten:
        rot(paths[0], 100)
    exchange(*paths)

    with open_context(integrity.catalog) as context:
        options = ScrubOptions(scan_first=False, scan_missing=scan_missing)
        found = scrub(context, (os.fsencode(data),), options).has_integrity_problem
        scan(context, (os.fsencode(data),), ScanOptions())

    assert (is_rotten and scan_missing) == found
    done = integrity.run("--json", "scrub", data, expect=int(is_rotten))
    assert [("ctime_moved", str(paths[1]))] * is_rotten == [(one["certainty"], one["path"]) for one in done.findings]
