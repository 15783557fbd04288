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


@given(steps=_steps)
@_quick
def test_sequences(disk: Disk, context: Context, steps: list[Step]) -> None:
    """The same sequences in each run."""
    _play(disk, context, steps)


@pytest.mark.campaign
@pytest.mark.timeout(0)
@given(steps=_steps)
@_long
def test_many_sequences(disk: Disk, context: Context, steps: list[Step]) -> None:
    """Sequences that nobody has seen before."""
    _play(disk, context, steps)
