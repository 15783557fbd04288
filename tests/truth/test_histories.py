"""What a comparison says of files with random histories is true, and harmless to follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.preload import Shims
from truth.histories import DECIDED_PERCENT, play
from truth.oracle import Result

pytestmark = pytest.mark.root

# Two copies each: together they have every habit, and every circumstance of a root.
_SEEDS = range(12)
_FILES = 24


@pytest.mark.timeout(600)
def test_histories_are_judged_right(tmp_path: Path, shims: Shims) -> None:
    """No good side is accused, no witnessed damage passes, and no advice destroys the last good content."""
    total = Result()
    for seed in _SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        total.add(play(seed, folder, shims, files=_FILES))
    print(total.describe())
    assert not total.errors, total.describe()
    assert total.decided_percent >= DECIDED_PERCENT, total.describe()
