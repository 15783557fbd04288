"""What a comparison says of files with random histories is true, and harmless to follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.preload import Shims
from truth.histories import play
from truth.oracle import Result

pytestmark = pytest.mark.root("bindfs", "mkfs.exfat", "mount.exfat-fuse", "rsync")

_SEEDS = range(9, 17)  # with three copies each: ``test_versions`` judges those before


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_histories_are_judged_right(tmp_path: Path, shims: Shims) -> None:
    """No good side is accused, no witnessed damage passes, and no advice destroys the last good content."""
    total = Result()
    for seed in _SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        total.add(play(seed, folder, shims))
    print(total.describe())
    assert total.is_right, total.describe()
