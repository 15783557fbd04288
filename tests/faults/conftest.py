"""Fixtures of the fault tests: places for the files of a root. A module that needs another kind of root has its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.loopfs import LoopFS


@pytest.fixture
def data(ext4: LoopFS) -> Path:
    """Make a folder on an ext4 of its own, beside its lost+found."""
    folder = ext4.folder / "data"
    folder.mkdir()
    return folder
