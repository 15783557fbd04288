"""Fixtures of the fault tests: places for the files of a root. A module that needs another kind of root has its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli import Box
from support.loopfs import LoopFS
from support.privileges import as_nobody


@pytest.fixture
def data(ext4: LoopFS) -> Path:
    """Make a folder on an ext4 of its own, beside its lost+found."""
    folder = ext4.folder / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def nobodys_box() -> Iterator[Box]:
    """Give a home that is nobody's in particular, in a folder where everybody may make another."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        box = Box(Path(folder) / "box")
        with as_nobody():
            box.home.mkdir()
        yield box
