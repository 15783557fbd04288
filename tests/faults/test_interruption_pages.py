"""kill -9 between two pages of one thing: what others saw of it is a state that the next run goes on from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.cli import Box
from support.dyingscan import count, scan_until
from support.planted import age, plant
from support.results import kinds, tallies
from support.stored import baselines

_FILES = 900
_MOVED = """
    SELECT count(*) FROM file JOIN folder ON folder.id = folder_id
    WHERE CAST(folder.path AS TEXT) LIKE 'new%'
"""

_HELD = "SELECT count(*) FROM version WHERE state = 'held'"
_REMOVED = "SELECT count(*) FROM version WHERE replaced_because = 'deleted'"


@pytest.mark.long
def test_renamed_folder_whose_scan_is_killed_between_two_pages(integrity: Box, tmp_path: Path) -> None:
    """What had moved has moved, what had not moves with the next scan; no record is lost or made twice."""
    root = plant(tmp_path / "root" / "old", _FILES, size_bytes=20).parent
    age(*root.rglob("*.txt"))
    integrity.run("scan", root, expect=0)
    (root / "old").rename(root / "new")
    undisturbed = integrity.copy_to(tmp_path / "undisturbed")
    assert _FILES == tallies(undisturbed.run("--json", "scan", root, expect=0))["moved"]

    scan_until(integrity.catalog, root, _MOVED)

    moved = count(integrity.catalog, _MOVED)
    assert 0 < moved < _FILES
    left = integrity.run("--json", "scan", root, expect=0)
    assert {"not_due": _FILES, "moved": _FILES - moved} == tallies(left)
    assert baselines(undisturbed.catalog) == baselines(integrity.catalog)
    assert 0 == integrity.run("catalog", "check").code


def test_mass_change_that_is_killed_while_it_is_held_back(integrity: Box, tmp_path: Path) -> None:
    """No removal is taken over: the next scan holds back all of it, and says so once."""
    root = plant(tmp_path / "root" / "gone", _FILES, size_bytes=20).parent
    plant(root / "stays", 20)
    age(*root.rglob("*.txt"))
    integrity.run("scan", root, expect=0)
    shutil.rmtree(root / "gone")

    scan_until(integrity.catalog, root, _HELD)

    assert 0 < count(integrity.catalog, _HELD) < _FILES
    done = integrity.run("--json", "scan", root, expect=1)
    assert ["mass_change"] == kinds(done)
    assert (_FILES, 0) == (count(integrity.catalog, _HELD), count(integrity.catalog, _REMOVED))
    integrity.run("accept", "--deletions", "--yes", "--reason", "meant", root, expect=0)
    assert (0, 20) == (count(integrity.catalog, _HELD), count(integrity.catalog, "SELECT count(*) FROM file"))


@pytest.mark.long
def test_removals_that_are_killed_between_two_pages(integrity: Box, tmp_path: Path) -> None:
    """Each removal is in history once, whichever of two scans took it over."""
    root = plant(tmp_path / "root" / "gone", 450, size_bytes=20).parent
    plant(root / "stays", 1500)
    age(*root.rglob("*.txt"))
    integrity.run("scan", root, expect=0)
    shutil.rmtree(root / "gone")

    scan_until(integrity.catalog, root, _REMOVED)

    removed = count(integrity.catalog, _REMOVED)
    assert 0 < removed < 450
    assert {"not_due": 1500, "missing": 450 - removed} == tallies(integrity.run("--json", "scan", root, expect=0))
    assert (450, 1500) == (count(integrity.catalog, _REMOVED), count(integrity.catalog, "SELECT count(*) FROM file"))
    assert 0 == integrity.run("catalog", "check").code
