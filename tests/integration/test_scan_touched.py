"""Files of which only ctime moved: left to the next scrub, unless the scan is asked to read some of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.jobs.options import ScanOptions
from integrity.jobs.runner import scan
from integrity.model import FindingKind
from support.jobs import Told, open_context, tally
from support.planted import age, plant_path
from support.shapes import damage

COUNT = 10
pytestmark = pytest.mark.files(COUNT, is_aged=True)
KIB = 1 << 10


@pytest.mark.parametrize(("limit", "read"), [(0, 0), (512 * KIB, 1), (1536 * KIB + 1, 3), (1 << 30, COUNT)])
def test_touched_files_are_read_up_to_a_limit(tmp_path: Path, root: Path, limit: int, read: int) -> None:
    """The smallest counts as what a disk reads in the time of a seek; those that were read are not read again."""
    with open_context(tmp_path / "catalog.db") as context:
        scan(context, [os.fsencode(root)], ScanOptions())
        for number in range(COUNT):
            plant_path(root, number).chmod(0o600)
        age(plant_path(root, COUNT - 1))
        for left in range(COUNT, -1, -read or -COUNT - 1):
            done = min(read, left)
            expected = {"verified": done, "not_due": COUNT - done}
            summary = scan(context, [os.fsencode(root)], ScanOptions(touched_bytes=limit))
            assert {name: number for name, number in expected.items() if number} == tally(summary)


def test_quiet_rewrite_is_found_among_them(tmp_path: Path, root: Path) -> None:
    """And not by a scan that reads none of them."""
    path = plant_path(root, 3)
    with open_context(tmp_path / "catalog.db") as context:
        scan(context, [os.fsencode(root)], ScanOptions())
        damage(path)
        assert {"not_due": COUNT} == tally(scan(context, [os.fsencode(root)], ScanOptions()))

        summary = scan(context, [os.fsencode(root)], ScanOptions(touched_bytes=1 << 20))

        assert {"damaged": 1, "not_due": COUNT - 1} == tally(summary)
        assert isinstance(context.report, Told)
        assert [FindingKind.SILENT_REWRITE] == [one.kind for one in context.report.findings]
