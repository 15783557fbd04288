"""kill -9 between two pages of one thing: what others saw of it is a state that the next run goes on from."""

from __future__ import annotations

import shutil
from pathlib import Path

from support.cli import Box
from support.dyingscan import count, scan_until
from support.planted import age, plant
from support.results import kinds

_FILES = 900
_HELD = "SELECT count(*) FROM version WHERE state = 'held'"
_REMOVED = "SELECT count(*) FROM version WHERE replaced_because = 'deleted'"


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
