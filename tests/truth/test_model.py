"""Whatever is renamed, swapped, linked, copied and restored in whatever order: rot is found, and nobody is accused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from integrity.jobs.context import Context
from support.machines import run_long, run_short
from truth.disks import DISKS, Disk, Overlay
from truth.model import Files, FilesWithInodes, open_quick_context

pytestmark = pytest.mark.root

_FELL = [
    "flip 0 0, scrub, unlink 0, chain 0 0",
    "flip 0 0, scrub, chain 1 8, edit 0 0, swap 0 1",
    "flip 0 0, scrub, cycle 0, save 0",
    "flip 0 0, scrub, cycle 0, save 0, scrub_blindly",
    "flip 44 0, scrub, move_by_copy 0 2, chain 1 0, scrub_blindly",
    "flip 5 1, scrub, edit 5 0, move_by_copy 17 8",
    "chain 0 2, flip 12 0, scrub, edit 40 0, scan, cycle 0, unlink 0, swap 0 40",
    "swap_folders 0 1, scrub_blindly, unlink 0, unlink 0, unlink 0, swap 0 2, flip 0 0, move_by_copy 0 53",
    "flip 1 0, scrub, cycle 0, unlink 0",
    "chain 0 40, flip 6 1, move_by_copy 3 8, scrub_blindly, swap_folders 0 1, edit 58 0",
    "unlink 20, scan, restore 0 0, flip 8 0, scan, copy 0 51, cycle 0",
    "rename_folder 1 38, chain 0 19, touch 1, chain 1 1, scan, copy 3 0",
    "chain 1 8, copy 0 3, rename 0 1, flip 8 0",
    "rename 1 32, flip 5 0, copy 5 3",
    "flip 0 0, scrub, chain 0 8, scrub_blindly",
    "copy 1 6, swap 1 58, cycle 0, flip 4 0, scrub_blindly",
    "flip 21 0, exchange 9 10, rename 29 1, scrub, move_by_copy 4 2",
    "flip 53 0, move_by_copy 2 2, scrub, rename 1 0, move_by_copy 18 48",
    "flip 0 0, cycle 0, save 0, scrub, touch 8, cycle 0",
    "flip 21 0, scrub, swap_folders 0 1, edit 0 0, cycle 0, move_by_copy 0 2",
    "flip 0 0, scrub, edit 0 9, rename 0 1",
    "flip 26 0, swap_folders 0 1, scrub, rename 1 0, cycle 13, edit 13 0, restore 0 0",
    "flip 0 0, move_by_copy 0 27, cycle 0, chain 1 0, scrub_blindly, cycle 0",
    "flip 1 0, scrub, cycle 0, touch 0, scrub_blindly",
    "flip 21 1, scrub, move_by_copy 51 5, flip 17 0",
    "unlink 0, restore 0 0, scan, chain 0 8, flip 6 0",
    "save 0, restore 0 0, scan, flip 0 0, swap 0 1",
    "unlink 0, save 1, restore 0 0, scan, chain 0 8, flip 6 0",
    "save 0, restore 0 0, scan, scrub_blindly, flip 0 0, swap 0 1",
    "touch 1, touch 3, scan, copy 9 3, swap 0 27, unlink 0",
    "flip 20 0, copy 2 2, scrub, rename 9 0",
]


@pytest.fixture(scope="module", params=["ext4", "overlay"])
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    """Mount a disk for many sequences."""
    with DISKS[request.param](False) as disk:
        yield disk


@pytest.fixture(scope="module")
def context() -> Iterator[Context]:
    """Open one catalog for all sequences, in memory, where a commit costs nothing."""
    home = tempfile.TemporaryDirectory(dir="/dev/shm", prefix="truth-")
    with home as folder, open_quick_context(Path(folder) / "catalog.db") as context:
        yield context


def _make(disk: Disk, context: Context) -> Files:
    return (Files if isinstance(disk, Overlay) else FilesWithInodes)(disk, context)


@pytest.mark.parametrize("steps", _FELL)
def test_steps_that_fell(disk: Disk, context: Context, steps: str) -> None:
    """Each of these was a finding about the wrong file, or none about the right one."""
    _make(disk, context).play(steps)


def test_what_is_damaged_is_found(disk: Disk, context: Context) -> None:
    """The same steps in each run."""
    run_short(partial(_make, disk, context), examples=30, steps=14)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_what_is_damaged_is_found_at_length(disk: Disk, context: Context) -> None:
    """Steps that nobody has seen before."""
    run_long(partial(_make, disk, context), steps=14)
