"""The power fails under the catalog: what the program said was done is done (R9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import Box
from support.crashdisk import CrashDisk
from support.planted import age, plant
from support.results import tallies
from support.stored import count_rows

pytestmark = pytest.mark.root


def test_power_cuts_under_the_catalog(tmp_path: Path) -> None:
    """After a cut at any moment the catalog opens, holds at least what ended runs had recorded, and can go on."""
    root = tmp_path / "root"
    with CrashDisk("ext4") as disk:
        with disk.running() as fs:
            box = Box(fs.folder / "home")
            for number in range(1, 6):
                plant(root / f"part{number}", 30)
                box.run("scan", root, expect=0)
                disk.mark(f"{number * 30}")
            age(*(path for path in root.rglob("*") if path.is_file()))
            box.run("scrub", root, expect=0)
            disk.mark("150")
        for cut in disk.find_cuts(12, is_torn=True):
            if not cut.marks:
                continue
            with disk.after(cut) as fs:
                box = Box(fs.folder / "home")
                assert int(cut.marks[-1]) <= count_rows(box)
                result = box.run("--json", "scrub", root, expect=0)
                assert {"verified": 150} == tallies(result)
                assert 0 == box.run("catalog", "check").code
