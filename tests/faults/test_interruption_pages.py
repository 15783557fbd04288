"""kill -9 between two pages of one thing: what others saw of it is a state that the next run goes on from."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.cli import Box
from support.dyingscan import count, scan_until
from support.planted import age, plant
from support.results import tallies
from support.stored import baselines

_FILES = 900
_MOVED = """
    SELECT count(*) FROM file JOIN folder ON folder.id = folder_id
    WHERE CAST(folder.path AS TEXT) LIKE 'new%'
"""


def copy(box: Box, home: Path) -> Box:
    shutil.copytree(box.home, home)
    return Box(home)


def test_renamed_folder_whose_scan_is_killed_between_two_pages(integrity: Box, tmp_path: Path) -> None:
    """What had moved has moved, what had not moves with the next scan; no record is lost or made twice."""
    root = plant(tmp_path / "root" / "old", _FILES, size_bytes=20).parent
    age(*root.rglob("*.txt"))
    integrity.run("scan", root, expect=0)
    (root / "old").rename(root / "new")
    undisturbed = copy(integrity, tmp_path / "undisturbed")
    assert _FILES == tallies(undisturbed.run("--json", "scan", root, expect=0))["moved"]

    scan_until(integrity.catalog, root, _MOVED)

    moved = count(integrity.catalog, _MOVED)
    assert 0 < moved < _FILES
    left = integrity.run("--json", "scan", root, expect=0)
    assert {"not_due": _FILES, "moved": _FILES - moved} == tallies(left)
    assert baselines(undisturbed.catalog) == baselines(integrity.catalog)
    assert 0 == integrity.run("catalog", "check").code
