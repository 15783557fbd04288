"""Whatever is renamed, swapped, linked, copied and restored in whatever order: rot is found, and nobody is accused."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from integrity.jobs.context import Context
from truth.disks import DISKS, Disk, Overlay
from truth.model import ACTIONS, Model, Step, open_quick_context

pytestmark = pytest.mark.root

_FELL = [
    "flip 0 0, scrub 0 0, unlink 0 0, chain 0 0",
    "flip 0 0, scrub 0 0, chain 1 8, edit 0 0, swap 0 1",
    "flip 0 0, scrub 0 0, cycle 0 0, save 0 0",
    "flip 0 0, scrub 0 0, cycle 0 0, save 0 0, scrub_blindly 0 0",
    "flip 44 0, scrub 0 0, move_by_copy 0 2, chain 1 0, scrub_blindly 0 0",
    "flip 5 1, scrub 0 0, edit 5 0, move_by_copy 17 8",
    "chain 0 2, flip 12 0, scrub 0 0, edit 40 0, scan 0 0, cycle 0 0, unlink 0 0, swap 0 40",
    "swap_folders 0 1, scrub_blindly 0 0, unlink 0 0, unlink 0 0, unlink 0 0, swap 0 2, flip 0 0, move_by_copy 0 53",
    "flip 1 0, scrub 0 0, cycle 0 0, unlink 0 0",
    "chain 0 40, flip 6 1, move_by_copy 3 8, scrub_blindly 0 0, swap_folders 0 1, edit 58 0",
    "unlink 20 0, scan 0 0, restore 0 0, flip 8 0, scan 0 0, copy 0 51, cycle 0 0",
    "rename_folder 1 38, chain 0 19, touch 1 0, chain 1 1, scan 0 0, copy 3 0",
    "chain 1 8, copy 0 3, rename 0 1, flip 8 0",
    "rename 1 32, flip 5 0, copy 5 3",
    "flip 0 0, scrub 0 0, chain 0 8, scrub_blindly 0 0",
    "copy 1 6, swap 1 58, cycle 0 0, flip 4 0, scrub_blindly 0 0",
    "flip 21 0, exchange 9 10, rename 29 1, scrub 0 0, move_by_copy 4 2",
    "flip 53 0, move_by_copy 2 2, scrub 0 0, rename 1 0, move_by_copy 18 48",
    "flip 0 0, cycle 0 0, save 0 0, scrub 0 0, touch 8 0, cycle 0 0",
    "flip 21 0, scrub 0 0, swap_folders 0 1, edit 0 0, cycle 0 0, move_by_copy 0 2",
    "flip 0 0, scrub 0 0, edit 0 9, rename 0 1",
    "flip 26 0, swap_folders 0 1, scrub 0 0, rename 1 0, cycle 13 0, edit 13 0, restore 0 0",
    "flip 0 0, move_by_copy 0 27, cycle 0 0, chain 1 0, scrub_blindly 0 0, cycle 0 0",
    "flip 1 0, scrub 0 0, cycle 0 0, touch 0 0, scrub_blindly 0 0",
    "flip 21 1, scrub 0 0, move_by_copy 51 5, flip 17 0",
    "unlink 0 0, restore 0 0, scan 0 0, chain 0 8, flip 6 0",
    "save 0 0, restore 0 0, scan 0 0, flip 0 0, swap 0 1",
    "unlink 0 0, save 1 0, restore 0 0, scan 0 0, chain 0 8, flip 6 0",
    "save 0 0, restore 0 0, scan 0 0, scrub_blindly 0 0, flip 0 0, swap 0 1",
    "touch 1 0, touch 3 0, scan 0 0, copy 9 3, swap 0 27, unlink 0 0",
    "flip 20 0, copy 2 2, scrub 0 0, rename 9 0",
]
_numbers = st.integers(0, 59)
_steps = st.lists(st.builds(Step, st.sampled_from(sorted(ACTIONS)), _numbers, _numbers), min_size=2, max_size=16)
_sequence = count()


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


def _play(disk: Disk, context: Context, steps: list[Step]) -> None:
    model = Model(disk, context, next(_sequence), has_stable_inodes=not isinstance(disk, Overlay))
    model.play(steps)
    assert not model.errors, "\n".join(model.errors)


_quick = settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
_long = settings(_quick, max_examples=10_000, derandomize=False, phases=[Phase.generate, Phase.shrink])


@pytest.mark.parametrize("sequence", _FELL)
def test_sequences_that_fell(disk: Disk, context: Context, sequence: str) -> None:
    """Each of these was a finding about the wrong file, or none about the right one."""
    words = (step.split() for step in sequence.split(", "))
    _play(disk, context, [Step(action, int(first), int(second)) for action, first, second in words])


@given(steps=_steps)
@_quick
def test_sequences(disk: Disk, context: Context, steps: list[Step]) -> None:
    """The same sequences in each run."""
    _play(disk, context, steps)


@pytest.mark.long
@pytest.mark.timeout(0)
@given(steps=_steps)
@_long
def test_many_sequences(disk: Disk, context: Context, steps: list[Step]) -> None:
    """Sequences that nobody has seen before."""
    _play(disk, context, steps)
