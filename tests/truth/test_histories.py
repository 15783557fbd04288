"""What a comparison says of files with random histories is true, and harmless to follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.preload import Shims
from truth.habits import RIGHT, SAME, get_question
from truth.histories import play
from truth.oracle import Result

pytestmark = pytest.mark.root("bindfs", "mkfs.exfat", "mount.exfat-fuse", "rsync")

_SEEDS = range(4)  # with three copies each; ``test_versions`` plays as many again, and all are played by hand
_FILES = 15


@pytest.mark.timeout(600)
@pytest.mark.parametrize("question", [RIGHT, SAME])
def test_histories_are_judged_right(question: str, tmp_path: Path, shims: Shims) -> None:
    """No good side is accused, no witnessed damage passes, and no advice destroys the last good content."""
    total = Result()
    for seed in _SEEDS:
        if get_question(seed) == question:
            folder = tmp_path / str(seed)
            folder.mkdir()
            total.add(play(seed, folder, shims, files=_FILES))
    print(total.describe())
    assert total.is_right, total.describe()
